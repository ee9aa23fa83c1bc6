/** Programs that send requests, `{model, version, signature, inputs}`, as text to be copied. */
const SNIPPETS = {
  curl: (requests) => requests.map((request) =>
    `curl -d ${quoteForShell(JSON.stringify(bodyOf(request)))} ${quoteForShell(urlOf(request))}`).join("\n"),
  Python: (requests) => `import json
import urllib.request

${requests.map((request) => `body = ${writePython(bodyOf(request))}
url = ${writePython(urlOf(request))}
with urllib.request.urlopen(url, json.dumps(body).encode()) as response:
    print(json.load(response)["outputs"])`).join("\n")}`,
  gRPC: (requests) => {
    const { model, version } = requests[0];
    const server = writePython(`grpc://${location.hostname}:${settings.grpcPort}`);
    const calls = requests.map(({ signature, inputs }) =>
      `    print(client.predict(${writePython(signature)}, **${writePython(inputs)}))`);
    return `from keras_attention.export.serving import Client

with Client(${server}, ${writePython(model)}${version ? `, version=${version}` : ""}) as client:
${calls.join("\n")}`;
  },
};

function bodyOf({ signature, inputs }) {
  return { signature_name: signature, inputs };
}

function urlOf({ model, version }) {
  return `${location.origin}${pathOfModel(model, version)}:predict`;
}

function quoteForShell(text) {
  return /^[\w:/.@%+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** Returns a value as Python writes it. */
function writePython(value) {
  if (Array.isArray(value)) return `[${value.map(writePython).join(", ")}]`;
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value !== "object") return JSON.stringify(value);
  return `{${Object.entries(value).map(([key, one]) => `${JSON.stringify(key)}: ${writePython(one)}`).join(", ")}}`;
}

/** Fills the section with the requests as text; returns a function that writes them anew. */
function makeSnippets(section, say) {
  const names = Object.keys(SNIPPETS).filter((name) => name !== "gRPC" || settings.grpcPort);
  const code = make("pre", { tabindex: 0, translate: "no", "aria-label": "The request" });
  const radios = names.map((name) => make("input", { type: "radio", name: "program", value: name }));
  radios[0].checked = true;
  let requests = null;
  const write = () => {
    const name = radios.find((radio) => radio.checked).value;
    code.textContent = requests ? SNIPPETS[name](requests) : "Write a text to see the request.";
    copy.disabled = !requests;
  };
  const choice = make("fieldset", null, make("legend", null, "Program"),
    ...radios.map((radio, index) => make("label", null, radio, ` ${names[index]}`)));
  choice.addEventListener("change", write);
  const copy = make("button", { type: "button" }, "Copy");
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      say("Copied.");
    } catch { // no permission, or no such thing outside of loopback and HTTPS
      getSelection().selectAllChildren(code);
      say("The browser does not let the page copy. The text is selected: copy it with Ctrl+C.");
    }
  });
  section.append(make("h2", { id: "request-title" }, "The request"), make("div", { class: "controls" }, choice, copy), code);
  return (next) => {
    requests = next;
    write();
  };
}

const settings = JSON.parse(document.getElementById("data").textContent);
const [form, choices, about, fieldsPlace, extras, status, problems, answersPlace, requestPlace] =
  ["form", "choices", "about", "fields", "extras", "status", "problems", "answers", "request"].map((id) => document.getElementById(id));
const RETRY_MILLISECONDS = 1000; // while a version loads

const say = (text) => (status.textContent = text);
const complain = (error) => {
  const isRefusal = error instanceof Refusal;
  problems.replaceChildren(make("p", null, isRefusal ? `The server answers with status ${error.status}: ${error.message}` : error.message));
};

const makeOptions = (select, pairs) => {
  const before = select.value;
  select.replaceChildren(...pairs.map(([value, text]) => make("option", { value }, text)));
  if (pairs.some(([value]) => value === before)) select.value = before;
};
const [model, version, signature] = [make("select"), make("select"), make("select")];
makeOptions(model, settings.models.map((name) => [name, name]));
const tree = make("input", { type: "checkbox", checked: "" });
const treeControl = makeControl("Beam tree, too", tree, () => update());
let signatures = new Map();
let fields = [];
let textName = null; // of the input with a text for each example
const kept = new Map();

function chosenRequests() {
  const inputs = readFields(fields, textName);
  const request = { model: model.value, version: version.value, signature: signature.value, inputs };
  const addsTree = treeControl.isConnected && tree.checked;
  return addsTree ? [request, { ...request, signature: "beam_tree", inputs: { text: inputs.text } }] : [request];
}

const writeSnippets = makeSnippets(requestPlace, say);

function update() {
  try {
    writeSnippets(fields.length ? chosenRequests() : null);
  } catch {
    writeSnippets(null);
  }
}

function showFields() {
  const { inputs } = signatures.get(signature.value);
  const texts = inputs.filter(({ dtype, shape }) => dtype === "string" && shape.length === 1).map(({ name }) => name);
  textName = texts.includes("text") ? "text" : (texts[0] ?? null);
  const order = [textName, "target", ...Object.keys(FIRST_VALUES)];
  const rank = ({ name }) => (order.includes(name) ? order.indexOf(name) : order.length);
  fields = inputs.sort((a, b) => rank(a) - rank(b)).map((input) => makeField(input, textName, kept, update));
  fieldsPlace.replaceChildren(...fields.map(({ element }) => element));
  about.textContent = DESCRIPTIONS[signature.value] ?? "";
  const isSearch = SEARCHED_ALIKE.includes(signature.value) && signatures.has("beam_tree");
  extras.replaceChildren(...(isSearch ? [treeControl] : []));
  update();
}

let loads = 0;

/** Reads the versions of the model, if `isNew`, and the signatures of the version. */
async function load(isNew) {
  const number = ++loads;
  const isCurrent = () => number === loads;
  try {
    const found = isNew ? await fetchVersions(model.value) : null;
    if (!isCurrent()) return;
    if (found) {
      version.value = "";
      makeOptions(version, [["", "newest"], ...found.map((one) => [one, one])]);
    }
    const next = await fetchSignatures(model.value, version.value);
    if (!isCurrent()) return;
    signatures = next;
    if (problems.dataset.of === "load") problems.replaceChildren();
    const names = [...signatures.keys()].sort();
    const preferred = names.includes("translate_with_alignment") ? "translate_with_alignment" : "serving_default";
    const before = isNew ? preferred : signature.value;
    makeOptions(signature, names.map((name) => [name, name]));
    signature.value = names.includes(before) ? before : preferred;
    showFields();
    say("");
  } catch (error) {
    if (!isCurrent()) return;
    complain(error);
    problems.dataset.of = "load";
    setTimeout(() => isCurrent() && load(true), RETRY_MILLISECONDS);
  }
}

let asking = null;

async function ask() {
  asking?.abort();
  const controller = (asking = new AbortController());
  problems.replaceChildren();
  problems.dataset.of = "ask";
  try {
    const requests = chosenRequests();
    say("Waiting for the answer …");
    const known = signatures;
    const answers = await Promise.all(requests.map(async (request) => nameOutputs(
      await askServer(`${pathOfModel(request.model, request.version)}:predict`,
        { method: "POST", body: JSON.stringify(bodyOf(request)), signal: controller.signal }),
      known.get(request.signature))));
    const rows = showAnswers(answersPlace, answers, textName && requests[0].inputs[textName]);
    say(`Answered: ${rows} ${rows === 1 ? "example" : "examples"}.`);
  } catch (error) {
    if (error.name === "AbortError") return;
    say("");
    answersPlace.replaceChildren();
    complain(error);
    if (error instanceof FieldError) {
      error.control.setAttribute("aria-invalid", "true");
      error.control.focus();
    }
  }
}

choices.append(makeControl("Model", model, () => load(true)), makeControl("Version", version, () => load(false)),
  makeControl("Signature", signature, showFields));
form.noValidate = true;
form.addEventListener("submit", (event) => {
  event.preventDefault();
  ask();
});
form.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
});
load(true);

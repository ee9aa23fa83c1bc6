const PADDING_SCORE = -9.5e8; // no score of an output is as low
const EOS = "</s>";

/** Returns a token as `format_token` in Python does: what cannot be seen has a stand-in. */
function formatToken(token) {
  if (/^[ \u00a0]*$/.test(token)) return token.replace(/[ \u00a0]/g, "␣");
  return token.replace(/\t/g, "⇥").replace(/[\n\r]/g, "↵").replace(/\p{Cc}|\p{Cs}/gu, "\ufffd");
}

/** Returns the formatted tokens and their direction, that of most of their letters. */
function makeTokenList(tokens) {
  const letters = tokens.join("");
  const count = (pattern) => (letters.match(pattern) ?? []).length;
  const right = count(/[\p{sc=Arabic}\p{sc=Hebrew}\p{sc=Syriac}\p{sc=Thaana}\p{sc=Nko}\p{sc=Adlam}]/gu);
  return { tokens: tokens.map(formatToken), isRightToLeft: right > count(/\p{L}/gu) / 2 };
}

/** Returns the outputs by name; a single one has no name in an answer. */
function nameOutputs(answer, { outputs }) {
  return outputs.length === 1 ? { [outputs[0].name]: answer.outputs } : answer.outputs;
}

/** Returns the view of `showAlignments` for one text, an example for each output; null without tokens. */
function makeAlignmentView({ tokens, length, alignment, source_tokens: source, source_length: count, text }, row) {
  const examples = tokens[row].map((own, place) => {
    const [rows, columns] = [Math.max(0, length[row][place]), count[row]];
    const weights = alignment[row][place].slice(0, rows).flatMap((weightsOf) => weightsOf.slice(0, columns));
    const mean = weights.reduce((sum, weight) => sum + weight, 0) / weights.length;
    return {
      title: `${place + 1}. ${shorten(text[row][place], 60)}`,
      source: makeTokenList(source[row].slice(0, columns)),
      target: makeTokenList(own.slice(0, rows)),
      weights,
      full: Math.max(weights.reduce((most, weight) => Math.max(most, weight), 0), Math.min(1, 4 * mean)) || 1,
    };
  });
  const found = examples.filter(({ target }) => target.tokens.length);
  return found.length ? { label: "Output", examples: found } : null;
}

/** Returns the view of `showBeam` for one text. */
function makeTreeView({ tokens, parent, log_prob: scores, state, length }, row) {
  const steps = [];
  for (let time = 0; time < length[row]; time++) {
    const nodes = tokens[row][time].map((token, place) => state[row][time][place] === 0 ? null : {
      token: formatToken(token),
      parent: parent[row][time][place],
      score: scores[row][time][place],
      state: state[row][time][place] === 2 ? "ended" : "fell behind",
    });
    // At the maximum length an output ends, and the search also counts it among the alive.
    const ended = new Set(nodes.filter((node) => node?.state === "ended").map((node) => `${node.parent} ${node.token}`));
    const isTwin = (node) => node?.state === "fell behind" && ended.has(`${node.parent} ${node.token}`);
    steps.push(nodes.map((node) => (isTwin(node) ? null : node)));
  }
  steps.forEach((nodes, time) => nodes.filter((node) => node && time > 0).forEach((node) => {
    const before = steps[time - 1][node.parent];
    if (before.state === "fell behind") before.state = "alive";
  }));
  for (const node of steps.at(-1) ?? []) if (node?.state === "fell behind") node.state = "alive";
  const { isRightToLeft } = makeTokenList(tokens[row].flat());
  return steps.length ? { steps, isRightToLeft } : null;
}

const has = (outputs, ...names) => names.every((name) => name in outputs);

/** Returns `[title, show(section)]` for each part of an answer about one text. */
function listParts(outputs, row) {
  const [parts, shown] = [[], new Set()];
  if (has(outputs, "text") && Array.isArray(outputs.text[row])) {
    shown.add("text").add("score");
    parts.push(["Outputs", (section) => showTexts(outputs, row, section)]);
  } else if (has(outputs, "text")) {
    shown.add("text");
    parts.push(["Output", (section) => section.append(make("p", null, makeText(outputs.text[row])))]);
  }
  if (has(outputs, "tokens", "length", "alignment", "source_tokens", "source_length", "text")) {
    for (const name of ["tokens", "length", "alignment", "source_tokens", "source_length"]) shown.add(name);
    const view = makeAlignmentView(outputs, row);
    if (view) parts.push(["Alignment", (section) => showAlignments(view, section)]);
  }
  if (has(outputs, "tokens", "parent", "log_prob", "state", "length")) {
    for (const name of ["tokens", "parent", "log_prob", "state", "length"]) shown.add(name);
    const view = makeTreeView(outputs, row);
    if (view) parts.push(["Beam tree", (section) => showBeam(view, section)]);
  }
  const others = Object.keys(outputs).filter((name) => !shown.has(name)).sort();
  if (others.length) parts.push(["Other values", (section) => showValues(outputs, others, row, section)]);
  return parts;
}

function makeText(text) {
  return text === "" ? make("span", { class: "note" }, "(empty text)") : makeToken(String(text));
}

function showTexts({ text, score }, row, section) {
  const list = make("ol", { class: "n-best" });
  text[row].forEach((one, place) => {
    const value = score?.[row]?.[place];
    if (value < PADDING_SCORE) return;
    list.append(make("li", null, makeText(one), " ",
      make("small", null, value === undefined ? "" : `score ${value.toFixed(3)}`)));
  });
  section.append(list.children.length ? list : make("p", null, "The search found no output."));
}

function showValues(outputs, names, row, section) {
  const write = (value) => (typeof value === "string" ? value : shorten(JSON.stringify(value), 2000));
  section.append(make("dl", { class: "values" }, ...names.flatMap((name) =>
    [make("dt", null, makeToken(name)), make("dd", null, makeToken(write(outputs[name][row])))])));
}

/** Shows the answers about each text; that of the first one is open. `texts` may be null. */
function showAnswers(place, answers, texts) {
  redraws.length = 0;
  const rows = Math.max(...answers.map((outputs) => Object.values(outputs)[0].length));
  place.replaceChildren(make("h2", null, rows === 1 ? "Answer" : "Answers"));
  for (let row = 0; row < rows; row++) {
    const title = texts ? makeToken(shorten(texts[row], 80)) : `Example ${row + 1}`;
    const details = make("details", null, make("summary", null, title));
    const fill = () => {
      if (details.children.length > 1) return;
      for (const [name, show] of answers.flatMap((outputs) => listParts(outputs, row))) {
        const section = make("section", null, make("h3", null, name));
        details.append(section);
        show(section);
      }
    };
    details.addEventListener("toggle", fill);
    place.append(details);
    if (row === 0) {
      details.open = true;
      fill();
    }
  }
  return rows;
}

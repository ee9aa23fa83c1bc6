/** The server refused a request: the status and the message are the server's own. */
class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Returns the JSON of an answer; throws a `Refusal`, or an `Error` if there is none. */
async function askServer(path, options) {
  let response, text;
  try {
    response = await fetch(path, options);
    text = await response.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error(`There is no answer from ${location.origin}. Is the server running?`);
  }
  let found;
  try {
    found = JSON.parse(text);
  } catch {
    // NaN and infinities are written as they are, which JSON does not have.
    throw new Refusal(response.status, `The answer is not JSON:\n${shorten(text, MAX_SHOWN)}`);
  }
  if (!response.ok) throw new Refusal(response.status, found.error ?? text);
  return found;
}

const MAX_SHOWN = 20000; // characters

function shorten(text, length) {
  const points = Array.from(text.slice(0, 2 * length));
  return points.length <= length && 2 * length >= text.length ? text : `${points.slice(0, length).join("")}…`;
}

/** Returns the path of a model, or of one of its versions. */
function pathOfModel(model, version) {
  return `/v1/models/${encodeURIComponent(model)}${version ? `/versions/${version}` : ""}`;
}

/** Returns the numbers of the versions that can be asked, the newest one first. */
async function fetchVersions(model) {
  const { model_version_status: states } = await askServer(pathOfModel(model, ""));
  return states.filter(({ state }) => state === "AVAILABLE").map(({ version }) => version);
}

/** Returns the signatures by name: `{inputs, outputs}`, each a list of `{name, dtype, shape}`. */
async function fetchSignatures(model, version) {
  const { metadata } = await askServer(`${pathOfModel(model, version)}/metadata`);
  const describe = (tensors) => Object.entries(tensors).map(([name, { dtype, tensor_shape: shape }]) =>
    ({ name, dtype: dtype.replace("DT_", "").toLowerCase(), shape: shape.dim.map(({ size }) => Number(size)) }));
  return new Map(Object.entries(metadata.signature_def.signature_def)
    .filter(([name]) => name !== "__saved_model_init_op")
    .map(([name, { inputs, outputs }]) => [name, { inputs: describe(inputs), outputs: describe(outputs) }]));
}

const DESCRIPTIONS = {
  translate_with_alignment: "The n-best outputs of each text, and what their tokens attend to.",
  ids: "The n-best outputs of ids of the source tokenizer.",
  greedy: "One output for each text, the most probable token at each step: the fastest signature.",
  score: "The log-probability of a given output for each text, line by line.",
  search: "The n-best outputs, with a length penalty and a maximum length of your own.",
  sample: "One output for each text, drawn at random; the same seed draws the same output.",
  translate_with_phrases: "The n-best outputs of each text that contain its phrase.",
  translate_sources: "The n-best outputs of several sources, line by line.",
  beam_tree: "The hypotheses of each step of the beam search.",
};
/** The signatures whose search is that of `beam_tree`. */
const SEARCHED_ALIKE = ["serving_default", "translate_with_alignment"];

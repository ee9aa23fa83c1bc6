const FIRST_VALUES = { length_penalty: 0.6, max_length: 50, seed: 1, temperature: 1 };
const LABELS = { text: "Text", target: "Output to score", length_penalty: "Length penalty", max_length: "Maximum length",
  seed: "Seed", temperature: "Temperature", phrases: "Phrase of the output" };
const MAY_BE_EMPTY = /^(phrases|text_\d+)$/; // a text without phrases, or without a further source

/** The value of a field is none that can be sent. */
class FieldError extends Error {
  constructor(message, control) {
    super(message);
    this.control = control;
  }
}

/** Returns a field for an input: `{element, name, read(count)}`.
 *
 * Texts are lines; phrases and further sources that are missing are "". A number holds for every text,
 * where the signature has texts. Anything else is written as JSON. `kept` are the values of earlier
 * fields by name, which the field begins with. */
function makeField({ name, dtype, shape }, hasTexts, kept, onInput) {
  const isText = dtype === "string" && shape.length === 1;
  const isNumber = !isText && dtype !== "string" && hasTexts && shape.length === 1;
  const key = `${name} ${isText} ${isNumber}`;
  const control = isNumber
    ? make("input", { type: "number", step: /int/.test(dtype) ? 1 : "any", required: "" })
    : make("textarea", { dir: "auto", spellcheck: "false", rows: 3 });
  const first = isText ? "" : isNumber ? (FIRST_VALUES[name] ?? 0) : JSON.stringify(makeZeros(dtype, shape));
  control.value = kept.get(key) ?? first;
  const note = isText ? "one per line" : isNumber ? "of every text" : `JSON, ${dtype} of shape (${formatShape(shape)})`;
  const element = makeControl(LABELS[name] ?? name, control, () => {
    kept.set(key, control.value);
    control.removeAttribute("aria-invalid");
    onInput();
  });
  element.classList.add("field");
  control.before(make("small", { id: `${control.id}-note` }, note), " ");
  control.setAttribute("aria-describedby", `${control.id}-note`);
  return { name, element: make("div", null, element), read: (count) => readField(control, name, isText, isNumber, count) };
}

function formatShape(shape) {
  return shape.map((size, axis) => (size >= 0 ? size : axis ? "any" : "batch")).join(", ");
}

/** Returns nested lists of zeros, or of empty texts; a batch of one, and one for each unknown size. */
function makeZeros(dtype, shape) {
  const sizes = shape.map((size) => (size < 0 ? 1 : size));
  if (sizes.reduce((product, size) => product * size, 1) > 1000) return [];
  return sizes.reduceRight((inner, size) => Array(size).fill(inner), dtype === "string" ? "" : 0);
}

function readField(control, name, isText, isNumber, count) {
  const fail = (message) => {
    throw new FieldError(message, control);
  };
  if (isText) {
    const text = control.value.replace(/\n+$/, "");
    const lines = text.split("\n");
    if (count && MAY_BE_EMPTY.test(name)) return lines.concat(Array(Math.max(0, count - lines.length)).fill(""));
    return text.trim() ? lines : fail(`Write a text first: ${LABELS[name] ?? name} is empty.`);
  }
  if (isNumber) {
    if (!control.checkValidity()) fail(`${LABELS[name] ?? name}: ${control.validationMessage}`);
    return Array(count).fill(control.valueAsNumber);
  }
  try {
    return JSON.parse(control.value);
  } catch (error) {
    return fail(`${name} is not JSON: ${error.message}`);
  }
}

/** Returns the inputs by name; the field `textName`, if any, has a text for each example. */
function readFields(fields, textName) {
  const count = fields.find(({ name }) => name === textName)?.read().length;
  return Object.fromEntries(fields.map(({ name, read }) => [name, read(count)]));
}

"use strict";

/** Returns an element with attributes and children, which are nodes or text. */
function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Returns a token as an element of its own direction and of an unknown language. */
function makeToken(token) {
  return make("bdi", { translate: "no", lang: "" }, token);
}

let controls = 0;

/** Returns a labeled `<input>` or `<select>` and calls `onInput` whenever its value changes. */
function makeControl(label, control, onInput, output = null) {
  control.id = `control-${++controls}`;
  control.addEventListener("input", onInput);
  return make("span", null, make("label", { for: control.id }, label, " "), control, ...(output ? [" ", output] : []));
}

/** Returns a slider for a number from 0 to the full weight, and a function that reads it. */
function makeThreshold(full, onInput) {
  const input = make("input", { type: "range", min: 0, max: 1, step: 0.01, value: 0 });
  const output = make("output", null, "0.000");
  const read = () => input.valueAsNumber * full;
  const control = makeControl("Hide weights below", input, () => {
    output.textContent = read().toFixed(3);
    input.setAttribute("aria-valuetext", output.textContent);
    onInput();
  }, output);
  return [control, read];
}

function decodeBytes(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/** Returns the weights, from 0 to 1, of base64 as `encode_weights` in Python writes it, or of numbers. */
function decodeWeights(text) {
  if (typeof text !== "string") return Float32Array.from(text);
  return Float32Array.from(new Uint16Array(decodeBytes(text).buffer), (whole) => whole / 65535);
}

/** Calls `action` once before the next frame, however often the result is called until then. */
function oncePerFrame(action) {
  let isAsked = false;
  return () => {
    if (isAsked) return;
    isAsked = true;
    requestAnimationFrame(() => {
      isAsked = false;
      action();
    });
  };
}

const redraws = []; // of everything whose colors are those of the scheme
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redraws.forEach((redraw) => redraw()));

function readStyle(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Sets a canvas to a size in CSS pixels, sharp if it may be so large, and returns its context. */
function fitCanvas(canvas, width, height) {
  const scale = Math.min(devicePixelRatio, 16000 / Math.max(width, height, 1));
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  return context;
}

/** Draws numbers from `-full` to `full`, one pixel each, that CSS enlarges. */
function drawMap(canvas, rows, columns, numberAt, full) {
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  const [low, high, negative] = ["low", "high", "negative"].map((name) => readStyle(`--map-${name}`).split(" ").map(Number));
  for (let row = 0, at = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const number = numberAt(row, column);
      const end = number < 0 ? negative : high;
      const shade = Math.min(1, Math.abs(number) / full);
      for (let part = 0; part < 3; part++) image.data[at++] = low[part] + shade * (end[part] - low[part]);
      image.data[at++] = 255;
    }
  }
  context.putImageData(image, 0, 0);
}

/** Makes a group of elements one stop of the Tab key; arrows, Home and End move inside of it.
 *
 * `move(key, index)` may return the index that an arrow leads to. The result makes the first one
 * the stop again, for when another is hidden. */
function makeRoving(group, items, move = null) {
  const indices = new Map(items.map((item, index) => [item, index]));
  const direct = (key) => (group.dir === "rtl" ? { ArrowLeft: "ArrowRight", ArrowRight: "ArrowLeft" }[key] : null) ?? key;
  let current = 0;
  const setCurrent = (index) => {
    items[current].tabIndex = -1;
    items[index].tabIndex = 0;
    current = index;
  };
  items.forEach((item) => (item.tabIndex = -1));
  if (items.length) setCurrent(0);
  group.addEventListener("focusin", (event) => {
    if (indices.has(event.target)) setCurrent(indices.get(event.target));
  });
  group.addEventListener("keydown", (event) => {
    if (!indices.has(event.target) || event.ctrlKey || event.altKey || event.metaKey) return;
    const key = direct(event.key);
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[key];
    const ends = { Home: 0, End: items.length - 1 };
    const to = move && step ? move(key, current) : (ends[key] ?? (step ? current + step : null));
    if (to === null) return;
    event.preventDefault();
    items[to]?.focus();
  });
  return () => setCurrent(0);
}

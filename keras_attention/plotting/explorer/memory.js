/** Shows the heads of a Neural Turing Machine over time, and its memory after a step. */
function showMemory(view, section) {
  const slider = make("input", { type: "range", min: 1, max: view.steps, value: 1 });
  const output = make("output");
  const status = make("p", { role: "status" });
  const maps = make("div", { class: "maps" });
  const heads = view.heads.map(({ title, weights }) => {
    const [canvas, marker] = [make("canvas", { class: "map", "aria-hidden": "true" }), make("div", { class: "marker" })];
    maps.append(make("div", null, make("h3", null, `${title}: slots by steps`), make("div", { class: "marked" }, canvas, marker)));
    return { title, canvas, marker, weights: decodeWeights(weights) };
  });
  const memory = view.memory && { canvas: make("canvas", { class: "map", "aria-hidden": "true" }), numbers: decodeWeights(view.memory.numbers) };
  if (memory) {
    const scale = `full color: ${view.memory.full.toPrecision(3)}, negative: orange`;
    maps.append(make("div", null, make("h3", null, `Memory after the step (${scale})`), memory.canvas));
  }
  const update = () => {
    const step = slider.valueAsNumber - 1;
    output.textContent = `${step + 1} of ${view.steps}`;
    const largest = heads.map(({ title, weights }) => {
      const row = weights.subarray(step * view.slots, (step + 1) * view.slots);
      const slot = row.indexOf(Math.max(...row));
      return `${title}: slot ${slot}, weight ${row[slot].toFixed(3)}`;
    });
    status.textContent = largest.join("; ");
    for (const { marker } of heads) {
      marker.style.left = `${(100 * step) / view.steps}%`;
      marker.style.width = `${100 / view.steps}%`;
    }
    if (!memory) return;
    const { width } = view.memory;
    memory.canvas.style.aspectRatio = Math.min(4, Math.max(0.8, width / view.slots));
    drawMap(memory.canvas, view.slots, width, (slot, at) => 2 * memory.numbers[(step * view.slots + slot) * width + at] - 1, 1);
  };
  const redraw = () => {
    for (const { canvas, weights } of heads) {
      canvas.style.aspectRatio = Math.min(4, Math.max(0.8, view.steps / view.slots));
      drawMap(canvas, view.slots, view.steps, (slot, step) => weights[step * view.slots + slot], 1);
    }
    update();
  };
  redraws.push(redraw);
  section.append(make("div", { class: "controls" }, makeControl("Step", slider, update, output)), status, maps);
  redraw();
}

/** Shows tokens and an image; a token colors the locations it attends to. */
function showImage(view, section) {
  const numbers = decodeWeights(view.weights);
  const image = make("canvas", { class: "map", width: view.width, height: view.height, "aria-hidden": "true" });
  const pixels = new ImageData(new Uint8ClampedArray(decodeBytes(view.image)), view.width, view.height);
  image.getContext("2d").putImageData(pixels, 0, 0);
  const overlay = make("canvas", { class: "map", width: view.columns, height: view.rows, "aria-hidden": "true" });
  const status = make("p", { role: "status" });
  const size = view.rows * view.columns;
  let selected = null;
  const show = (index) => {
    const context = overlay.getContext("2d");
    context.clearRect(0, 0, view.columns, view.rows);
    status.replaceChildren();
    list.mark("current", index);
    if (index === null) return;
    const weights = numbers.subarray(index * size, (index + 1) * size);
    const colored = context.createImageData(view.columns, view.rows);
    weights.forEach((weight, at) => colored.data.set([213, 94, 0, 190 * Math.min(1, weight / view.full[index])], 4 * at));
    context.putImageData(colored, 0, 0);
    const largest = weights.indexOf(Math.max(...weights));
    status.append(make("b", null, makeToken(view.words.tokens[index])), `: largest weight ${weights[largest].toFixed(3)}, `,
      `row ${Math.floor(largest / view.columns) + 1}, column ${(largest % view.columns) + 1}`);
  };
  const list = new TokenList("Tokens", view.words, (index) => show(index ?? selected), (index) => {
    selected = index === selected ? null : index;
    list.mark("selected", selected);
    show(selected);
  });
  section.append(list.element, status, make("div", { class: "overlay" }, image, overlay));
}

/** Shows a document: each word with its weight, each sentence with its own. */
function showText(view, section) {
  const status = make("p", { role: "status" });
  section.append(status);
  view.sentences.forEach(({ words, weights, shades, weight, shade }, number) => {
    const list = new TokenList(`Sentence ${number + 1}`, words, (index) => {
      const ofSentence = weight === null ? "" : `, sentence ${number + 1}: ${weight.toFixed(3)}`;
      status.replaceChildren(...(index === null ? [] : [make("b", null, makeToken(words.tokens[index])),
        `: ${weights[index].toFixed(3)}${ofSentence}`]));
    }, () => {});
    list.shade((index) => weights[index], (_, index) => shades[index], (one) => one.toFixed(2));
    const own = make("div", { title: "weight of the sentence" }, weight === null ? `${number + 1}.` : weight.toFixed(3));
    own.style.setProperty("--weight", shade ?? 0);
    section.append(make("div", { class: "sentence" }, own, list.element));
  });
}

/** Shows sentence pairs, one at a time: source tokens above, target tokens below. */
function showAlignments(view, section) {
  const select = make("select", null, ...view.examples.map((example, index) => make("option", { value: index }, example.title)));
  const lines = make("input", { type: "checkbox" });
  const place = make("div");
  let pair = null;
  const fill = () => {
    const { source, target, weights, full } = view.examples[select.selectedIndex];
    const numbers = decodeWeights(weights);
    const width = source.tokens.length;
    const [threshold, readThreshold] = makeThreshold(full, oncePerFrame(() => update()));
    const update = () => pair.setWeights((first, second) => numbers[second * width + first], full, readThreshold());
    pair = new TokenPair([
      { label: "Source", verb: "is attended to by", ...source },
      { label: "Target", verb: "attends to", ...target },
    ], lines.checked);
    place.replaceChildren(make("div", { class: "controls" }, threshold, linesControl), pair.element);
    update();
  };
  const linesControl = makeControl("Lines", lines, () => pair.setLines(lines.checked));
  if (view.examples.length > 1) section.append(make("div", { class: "controls" }, makeControl(view.label ?? "Sentence pair", select, fill)));
  section.append(place);
  redraws.push(() => pair.redraw());
  fill();
}

/** Shows small maps of all heads, and the lines of one that is chosen. */
function showHeads(view, section) {
  const numbers = decodeWeights(view.weights);
  const [rows, columns] = [view.queries.tokens.length, view.keys.tokens.length];
  const weightsOf = (head) => (query, key) => numbers[(head * rows + query) * columns + key];
  const [threshold, readThreshold] = makeThreshold(view.full, oncePerFrame(() => update()));
  const buttons = [];
  const grid = make("div");
  const nameOf = (head) => `Layer ${Math.floor(head / view.heads) + 1}, head ${(head % view.heads) + 1}`;
  for (let layer = 0; layer < view.layers; layer++) {
    const row = Array.from({ length: view.heads }, (_, head) => make("button",
      { type: "button", "aria-label": nameOf(layer * view.heads + head) }, make("canvas", { class: "map" }), `head ${head + 1}`));
    const group = make("div", { class: "heads", role: "toolbar", "aria-label": `Layer ${layer + 1}` }, ...row);
    makeRoving(group, row);
    buttons.push(...row);
    grid.append(make("h3", null, `Layer ${layer + 1}`), group);
  }
  const pair = new TokenPair([
    { label: "Queries", verb: "attends to", ...view.queries },
    { label: "Keys", verb: "is attended to by", ...view.keys },
  ], true);
  const back = make("button", { type: "button" }, "Back to all heads");
  const title = make("b");
  const single = make("div", { hidden: "" }, make("div", { class: "controls" }, back, title), pair.element);
  let chosen = null;
  const update = () => {
    const limit = readThreshold();
    if (chosen !== null) return pair.setWeights(weightsOf(chosen), view.full, limit);
    buttons.forEach((button, head) => {
      const weightAt = weightsOf(head);
      const canvas = button.firstChild;
      canvas.style.aspectRatio = Math.min(2, Math.max(0.5, columns / rows));
      drawMap(canvas, rows, columns, (query, key) => (weightAt(query, key) < limit ? 0 : weightAt(query, key)), view.full);
    });
  };
  const choose = (head) => {
    const before = chosen;
    chosen = head;
    grid.hidden = head !== null;
    single.hidden = head === null;
    title.textContent = head === null ? "" : nameOf(head);
    update();
    (head === null ? buttons[before] : back).focus();
  };
  buttons.forEach((button, head) => button.addEventListener("click", () => choose(head)));
  back.addEventListener("click", () => choose(null));
  redraws.push(update);
  section.append(make("div", { class: "controls" }, threshold), grid, single);
  update();
}

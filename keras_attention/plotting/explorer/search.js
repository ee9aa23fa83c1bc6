/** Shows an n-best list: scores, log-probabilities of tokens, and differences from the best. */
function showHypotheses(view, section) {
  const list = make("ol", { class: "hypotheses" });
  const lowest = Math.min(-1, ...view.hypotheses.flatMap(({ parts }) => parts.map(([, , logProb]) => logProb ?? 0)));
  const notes = { same: "", added: ", not in the best", missing: ", in the best alone" };
  view.hypotheses.forEach(({ score, logProb, length, isRightToLeft, parts }, place) => {
    const status = make("p", { role: "status", class: "note" });
    const describe = (index) => {
      status.replaceChildren();
      if (index === null) return;
      const [token, kind, number] = parts[index];
      const value = number === null ? "" : `: log-probability ${number.toFixed(3)}, probability ${Math.exp(number).toFixed(3)}`;
      status.append(make("b", null, makeToken(token)), value + notes[kind]);
    };
    const tokens = new TokenList(`Hypothesis ${place + 1}`, { tokens: parts.map(([token]) => token), isRightToLeft }, describe, () => {});
    parts.forEach(([, kind], index) => {
      tokens.items[index].classList.add(kind);
      tokens.items[index].firstChild.after(make("span", { class: "spoken" }, notes[kind]));
    });
    tokens.shade((index) => parts[index][2], (number) => (number ?? 0) / lowest, (number) => number?.toFixed(2) ?? "");
    const total = logProb === null ? "" : `, log-probability ${logProb.toFixed(3)}`;
    list.append(make("li", null, make("b", null, `${place + 1}. score ${score.toFixed(3)}`),
      `${total}, ${length} token${length === 1 ? "" : "s"}`, tokens.element, status));
  });
  section.append(make("p", { class: "note" }, "Underlined: not in the best hypothesis. Struck out: in the best alone."), list);
}

const [COLUMN, LINE, EDGE] = [124, 56, 8]; // pixels of the tree

/** Shows the tree of a beam search: a column a step, and the hypotheses of one step as a list. */
function showBeam(view, section) {
  const nodes = view.steps.flatMap((step, time) => step.map((node, place) => node && { ...node, time, place }))
    .filter((node) => node !== null);
  const at = new Map(nodes.map((node) => [`${node.time} ${node.place}`, node]));
  const index = new Map(nodes.map((node, number) => [node, number]));
  const parentOf = (node) => at.get(`${node.time - 1} ${node.parent}`);
  const pathOf = (node) => (node ? [...pathOf(parentOf(node)), node] : []);
  const textOf = (node) => make("span", { dir: view.isRightToLeft ? "rtl" : "ltr" },
    ...pathOf(node).flatMap((one, place) => [place ? " " : "", makeToken(one.token)]));
  const signs = { alive: "", ended: "✓ ", "fell behind": "✕ " };
  const buttons = nodes.map((node) => make("button",
    { type: "button", class: node.state.replace("fell ", ""), title: node.token,
      "aria-label": `step ${node.time + 1}, ${node.token}, score ${node.score.toFixed(3)}, ${node.state}` },
    makeToken(node.token), make("small", null, signs[node.state] + node.score.toFixed(3))));
  buttons.forEach((button, number) => {
    button.style.left = `${EDGE + COLUMN * nodes[number].time}px`;
    button.style.top = `${EDGE + LINE * nodes[number].place}px`;
  });
  const canvas = make("canvas", { "aria-hidden": "true" });
  const tree = make("div", { class: "tree", role: "group", "aria-label": "Hypotheses of all steps" }, canvas, ...buttons);
  const most = Math.max(...view.steps.map((step) => step.length));
  const [width, height] = [COLUMN * view.steps.length, LINE * most + EDGE];
  tree.style.width = `${width}px`;
  tree.style.height = `${height}px`;
  const status = make("p", { role: "status" });
  const slider = make("input", { type: "range", min: 1, max: view.steps.length, value: view.steps.length });
  const output = make("output");
  const list = make("ol");

  const neighbor = (key, current) => {
    const node = nodes[current];
    const same = nodes.filter((one) => one.time === node.time);
    const to = {
      ArrowLeft: () => parentOf(node),
      ArrowRight: () => nodes.find((one) => parentOf(one) === node && one.time < slider.valueAsNumber),
      ArrowUp: () => same[same.indexOf(node) - 1],
      ArrowDown: () => same[same.indexOf(node) + 1],
    }[key]();
    return index.get(to);
  };
  const resetStop = makeRoving(tree, buttons, neighbor);

  const draw = (path) => {
    const context = fitCanvas(canvas, width, height);
    for (const node of nodes) {
      const parent = parentOf(node);
      if (!parent || node.time >= slider.valueAsNumber) continue;
      const [x, y] = [EDGE + COLUMN * node.time, EDGE + LINE * node.place + 22];
      const [fromX, fromY] = [x - COLUMN + 100, EDGE + LINE * parent.place + 22];
      context.beginPath();
      context.moveTo(fromX, fromY);
      context.bezierCurveTo(fromX + 12, fromY, x - 12, y, x, y);
      context.lineWidth = path.has(node) ? 4 : 1.5;
      context.strokeStyle = path.has(node) ? readStyle("--focus") : readStyle("--edge");
      context.stroke();
    }
  };
  let shown = null;
  const show = (node) => {
    shown = node;
    const path = new Set(pathOf(node));
    buttons.forEach((button, number) => button.classList.toggle("path", path.has(nodes[number])));
    draw(path);
    status.replaceChildren();
    if (node) status.append(textOf(node), `, score ${node.score.toFixed(3)}, step ${node.time + 1}: ${node.state}`);
    else status.append(make("span", { class: "note" }, "✓ ended, double border. ✕ fell behind, dashed border. Point at one, or use the arrow keys."));
  };
  const find = (event) => nodes[buttons.indexOf(event.target.closest("button"))] ?? null;
  for (const name of ["pointerover", "focusin"]) tree.addEventListener(name, (event) => find(event) && show(find(event)));
  tree.addEventListener("pointerleave", () => show(nodes[buttons.indexOf(document.activeElement)] ?? null));
  tree.addEventListener("focusout", () => show(null));

  const update = () => {
    const step = slider.valueAsNumber;
    output.textContent = `${step} of ${view.steps.length}`;
    buttons.forEach((button, number) => (button.hidden = nodes[number].time >= step));
    resetStop();
    const isListed = (node) => node.time === step - 1 || (node.time < step && node.state === "ended");
    list.replaceChildren(...nodes.filter(isListed).sort((a, b) => b.score - a.score).map((node) =>
      make("li", null, textOf(node), ` ${node.score.toFixed(3)}, ${node.state}${node.time < step - 1 ? ` at step ${node.time + 1}` : ""}`)));
    show(shown && shown.time < step ? shown : null);
  };
  redraws.push(() => show(shown));
  section.append(make("div", { class: "controls" }, makeControl("Step", slider, update, output)),
    status, make("div", { class: "scroll" }, tree), make("h3", null, "After this step"), list);
  update();
}

/** A list of tokens, each with a shade and a number.
 *
 * `onShow(index)` is called when a token is pointed at or focused, with null when none is any more;
 * `onSelect(index)` when one is clicked or chosen by Enter or the space bar, with null for Escape. */
class TokenList {
  constructor(label, { tokens, isRightToLeft }, onShow, onSelect) {
    this.items = tokens.map((token) => make("div", { role: "option", "aria-selected": "false" },
      makeToken(token), make("small", { "aria-hidden": "true" })));
    this.element = make("div", { class: "tokens", role: "listbox", "aria-label": label, "aria-orientation": "horizontal",
      dir: isRightToLeft ? "rtl" : "ltr" }, ...this.items);
    this.marked = {};
    this.texts = tokens.map(() => "");
    const indices = new Map(this.items.map((item, index) => [item, index]));
    const find = (event) => indices.get(event.target.closest("[role=option]")) ?? null;
    makeRoving(this.element, this.items);
    this.element.addEventListener("pointerover", (event) => onShow(find(event)));
    this.element.addEventListener("pointerleave", () => onShow(null));
    this.element.addEventListener("focusin", (event) => onShow(find(event)));
    this.element.addEventListener("focusout", () => onShow(null));
    this.element.addEventListener("click", (event) => find(event) !== null && onSelect(find(event)));
    this.element.addEventListener("keydown", (event) => {
      if (event.key === "Escape") onSelect(null);
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      onSelect(find(event));
    });
  }

  /** Writes a number below each token and shades it; tokens that stay the same are not touched. */
  shade(numberAt, shadeAt, format) {
    this.items.forEach((item, index) => {
      const text = format(numberAt(index));
      if (this.texts[index] === text) return;
      this.texts[index] = item.lastChild.textContent = text;
      item.style.setProperty("--weight", shadeAt(numberAt(index), index).toFixed(3));
    });
  }

  /** Moves a mark ("current", or "selected") to a token, or to none for null. */
  mark(name, index) {
    const change = (at, isOn) => {
      if (name === "selected") this.items[at].setAttribute("aria-selected", String(isOn));
      else this.items[at].classList.toggle(name, isOn);
    };
    if ((this.marked[name] ?? null) !== null) change(this.marked[name], false);
    if (index !== null) change(index, true);
    this.marked[name] = index;
  }
}

const LISTED = 8; // weights in the sentence about a token
const LINE_SHADES = 16;
const ROW = 26; // pixels, as in the style sheet

/** Two lists of tokens with weights between: a token of one shades the other.
 *
 * `sides` are two `{label, verb, tokens, isRightToLeft}`; `verb` says how a token relates to the
 * other side. `showsLines` places the lists side by side, with lines. */
class TokenPair {
  constructor(sides, showsLines) {
    this.sides = sides;
    this.selected = null;
    this.shown = null;
    this.lists = sides.map((side, number) => new TokenList(side.label, side,
      (index) => this.show(index === null ? this.selected : { number, index }),
      (index) => this.select(index === null ? null : { number, index })));
    this.status = make("p", { role: "status" });
    this.canvases = ["all", "some"].map((name) => make("canvas", { class: name, "aria-hidden": "true" }));
    this.stack = make("div", { class: "stack" }, ...this.canvases);
    const [first, second] = sides.map((side, number) =>
      make("div", null, make("h3", null, side.label), this.lists[number].element));
    this.box = make("div", { class: "pair" }, first, this.stack, second);
    this.element = make("div", null, this.status, this.box);
    this.drawAll = oncePerFrame(() => this.drawLines(this.contexts[0], null));
    new ResizeObserver(() => this.redraw()).observe(this.stack);
    this.setLines(showsLines);
  }

  setLines(showsLines) {
    this.box.classList.toggle("lines", showsLines);
    this.redraw();
  }

  /** Sets `weightAt(first, second)`, the full weight and the threshold. */
  setWeights(weightAt, full, threshold) {
    Object.assign(this, { weightAt, full, threshold });
    this.redraw();
  }

  redraw() {
    if (!this.weightAt) return;
    this.height = ROW * Math.max(...this.sides.map((side) => side.tokens.length));
    this.stack.style.height = `${this.height}px`;
    this.width = this.stack.clientWidth; // 0 where no lines are shown
    this.color = `rgb(${readStyle("--map-high")})`;
    this.contexts = this.canvases.map((canvas) => fitCanvas(canvas, this.width, this.width && this.height));
    this.drawAll();
    this.show(this.shown);
  }

  select(token) {
    const isSame = token?.number === this.selected?.number && token?.index === this.selected?.index;
    this.selected = isSame ? null : token;
    this.mark("selected", this.selected);
    this.show(token);
  }

  mark(name, token) {
    this.lists.forEach((list, number) => list.mark(name, token?.number === number ? token.index : null));
  }

  /** Shows the weights of `{number, index}`, a token of a side, or those of none for null. */
  show(token) {
    this.shown = token;
    this.mark("current", token);
    this.stack.classList.toggle("one", token !== null);
    const weightTo = token && this.weightsOf(token);
    const digits = this.full < 0.1 ? 3 : 2;
    const format = (weight) => (weight < 0.5 * 10 ** -digits ? "" : weight.toFixed(digits));
    const shade = (weight) => (format(weight) ? Math.min(1, weight / this.full) : 0);
    this.lists.forEach((list, number) =>
      list.shade(token && number !== token.number ? weightTo : () => 0, shade, format));
    this.contexts[1].clearRect(0, 0, this.width, this.height);
    if (token) this.drawLines(this.contexts[1], token);
    this.describe(token, weightTo);
  }

  /** Returns the function from the tokens of the other side to the weights of a token. */
  weightsOf({ number, index }) {
    const weightAt = number === 0 ? (other) => this.weightAt(index, other) : (other) => this.weightAt(other, index);
    return (other) => (weightAt(other) < this.threshold ? 0 : weightAt(other));
  }

  describe(token, weightTo) {
    this.status.replaceChildren();
    if (token === null) {
      this.status.append(make("span", { class: "note" },
        `Point at a token, tap it, or move with Tab and the arrow keys. Full color: ${this.full.toFixed(3)}.`));
      return;
    }
    const { tokens, verb } = this.sides[token.number];
    const others = this.sides[1 - token.number].tokens;
    const found = others.map((_, other) => other).filter((other) => weightTo(other) >= 0.0005);
    found.sort((a, b) => weightTo(b) - weightTo(a) || a - b);
    this.status.append(make("b", null, makeToken(tokens[token.index])), ` ${verb}: `);
    found.slice(0, LISTED).forEach((other, place) =>
      this.status.append(place ? ", " : "", makeToken(others[other]), ` ${weightTo(other).toFixed(3)}`));
    const more = found.length - LISTED;
    this.status.append(found.length ? (more > 0 ? `, and ${more} more` : "") : "nothing");
  }

  /** Draws the lines of a token, or of all for null, in a few strokes: one for each shade. */
  drawLines(context, token) {
    if (this.width === 0) return;
    const paths = [];
    const choose = (number) => (token?.number === number ? [token.index] : this.lists[number].items.keys());
    for (const first of choose(0)) {
      for (const second of choose(1)) {
        const weight = this.weightAt(first, second);
        const shade = Math.round(LINE_SHADES * Math.min(1, weight / this.full));
        if (weight < this.threshold || shade === 0) continue;
        paths[shade] ??= new Path2D();
        paths[shade].moveTo(0, ROW * (first + 0.5));
        paths[shade].lineTo(this.width, ROW * (second + 0.5));
      }
    }
    context.strokeStyle = this.color;
    context.lineWidth = token ? 2 : 1.4;
    paths.forEach((path, shade) => {
      context.globalAlpha = shade / LINE_SHADES;
      context.stroke(path);
    });
  }
}

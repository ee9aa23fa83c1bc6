const VIEWS = { alignments: showAlignments, heads: showHeads, hypotheses: showHypotheses, beam: showBeam,
  memory: showMemory, image: showImage, text: showText };

const page = JSON.parse(document.getElementById("data").textContent);
const main = document.getElementById("main");
main.replaceChildren(make("h1", null, makeToken(page.title)));
page.views.forEach((view, number) => {
  const section = make("section", { "aria-labelledby": `view-${number}` });
  const isOnly = page.views.length === 1;
  if (!isOnly) section.append(make("h2", { id: `view-${number}` }, makeToken(view.title)));
  else main.firstChild.id = `view-${number}`;
  main.append(section);
  VIEWS[view.kind](view, section);
  if (isOnly) for (const heading of section.querySelectorAll("h3")) heading.ariaLevel = 2;
});

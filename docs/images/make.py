"""Writes pages of the explorer for three small models, which it trains, and their screenshots.

    python docs/images/make.py                # about 12 minutes on one core; needs Chromium
    python docs/images/make.py --screenshots  # of the data that is there

The data of the pages is stored beside this file, and so are the screenshots; the site's build
writes the pages. The models are those of `examples/notebooks`: RNNsearch and a Transformer on
dates, and the Neural Turing Machine that copies.
"""

import argparse
import base64
import io
import json
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "references")]

FOLDER = pathlib.Path(__file__).parent
#: What is clicked before a screenshot, and the size of the window in pixels.
SHOTS = {
    "alignments": ("[aria-label=Target] [role=option]:nth-child(7)", 760, 370),
    "beam": (".tree button:nth-of-type(12)", 760, 360),
    "heads": ("h1", 760, 380),
    "memory": ("h1", 760, 380),
}


def run_notebook(name: str, end: str) -> dict:
    """Returns the variables of a notebook's code up to a heading, training included."""
    import matplotlib

    from examples.notebooks import source

    matplotlib.use("Agg")
    text = (source.FOLDER / f"{name}.md").read_text(encoding="utf-8").split(end)[0]
    cells = [cell.source for cell in source.parse(text).cells if cell.cell_type == "code"]
    found = {"__name__": name}
    for cell in cells[1:]:  # the first one installs the library
        exec(compile(cell, name, "exec"), found)
    return found


def explore_dates():
    """Yields an alignment page of RNNsearch for four languages, and a beam tree."""
    import keras
    import numpy as np

    from keras_attention import plotting
    from keras_attention.search import BeamOptions, beam_search

    made = run_notebook("rnnsearch_dates", "## Without attention")
    examples = [(one.alignment, one.source_tokens, one.tokens) for one in made["found"]]
    yield (
        "alignments",
        plotting.explore_alignments(
            examples, titles=made["unseen"], title="Which characters determine a date"
        ),
    )
    text = "03/05/79"  # not a style of the training texts: the model hesitates
    model = made["translator"].model
    encoder, decoder = (model.get_layer(name) for name in ("encoder", "decoder"))
    inputs, _ = made["translator"].encode_pairs([text], ["1979-05-03"])
    encoded = encoder(inputs["source"])
    memory = decoder.prepare(encoded["memory"])
    state = decoder.start(memory, initial_state=encoded["initial_state"])
    options = BeamOptions(return_tree=True)
    found = beam_search(decoder.step, state, memory, beam_width=3, max_length=12, options=options)
    found = {name: keras.ops.convert_to_numpy(array[0]) for name, array in found.items()}
    ids, parents, log_probs = (found[f"tree_{name}"] for name in ("ids", "parents", "log_probs"))
    count = (log_probs.max(axis=1) > -5e8).sum()
    vocabulary = ["", "unknown", "BOS", "</s>", *made["target_tokenizer"].vocabulary]
    tokens = [[vocabulary[i] for i in step] for step in ids[:count]]
    print(np.round(found["scores"], 2))
    page = plotting.explore_beam_search(
        tokens, parents[:count], log_probs[:count], title=f"A beam search for {text}"
    )
    yield "beam", page


def explore_heads():
    """Yields the page of the heads of a Transformer's decoder."""
    import numpy as np

    from keras_attention import plotting

    made = run_notebook("transformer_dates", "## Where the encoder looks")
    weights = np.stack(made["decoder_weights"])
    title = f"Cross-attention of a Transformer that reads {made['text']}"
    yield (
        "heads",
        plotting.explore_heads(weights, made["target_tokens"], made["source_tokens"], title=title),
    )


def explore_memory():
    """Yields the page of a Neural Turing Machine that copies."""
    from keras_attention import plotting

    made = run_notebook("ntm_copy", "## Lengths it has never seen")
    history = made["history"]
    yield (
        "memory",
        plotting.explore_memory_use(
            history["write_weights"],
            history["read_weights"],
            history["memory"],
            title="A Neural Turing Machine copies 16 vectors",
        ),
    )


def take_screenshots() -> None:
    """Writes a small PNG of each page, as it is after a click."""
    from chromium import Browser, find_chromium
    from PIL import Image

    from keras_attention.plotting import ExplorerPage

    browser = Browser(find_chromium())
    for name, (selector, width, height) in SHOTS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "page.html"
            ExplorerPage(**json.loads((FOLDER / f"{name}.json").read_text("utf-8"))).save(path)
            browser.open(path, width=width, height=height)
        browser.move_to(selector, click=True)
        browser.run(
            "scrollTo(0, 0); document.querySelectorAll('.scroll').forEach(e => e.scrollTop = 0)"
        )
        shot = browser.send("Page.captureScreenshot", format="png")["data"]
        image = Image.open(io.BytesIO(base64.b64decode(shot))).convert("RGB")
        image.quantize(64).save(FOLDER / f"{name}.png", optimize=True)
    browser.close()


def main(arguments: list[str] | None = None) -> None:
    """Writes the data, unless it is to be kept, and the screenshots."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--screenshots", action="store_true", help="of the stored data")
    if not parser.parse_args(arguments).screenshots:
        for explore in (explore_dates, explore_heads, explore_memory):
            for name, page in explore():
                data = re.search(r'id="data"[^>]*>(.*?)</script>', page.html, re.DOTALL)[1]
                text = json.dumps(json.loads(data), ensure_ascii=False) + "\n"
                (FOLDER / f"{name}.json").write_text(text, "utf-8")
    take_screenshots()


if __name__ == "__main__":
    main()

"""Writes pages of the explorer for three small models, which it trains, and their screenshots.

    python docs/images/make.py                # about 12 minutes on one core; needs Chromium
    python docs/images/make.py --screenshots  # of the data that is there
    python docs/images/make.py --playground served/dates  # of the page that asks an exported model

The model of the last line was made so:

    python -m examples train rnnsearch --run runs/dates --units 128 --embedding-dim 64 \\
      --batch-size 128 --num-buckets 3 --epochs 6 --learning-rate 0.002 --ema-decay 0.99
    python -m examples export runs/dates served/dates --beam-width 3 --max-length 12 --return-tree

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

#: What the served model is asked, May or March (Mai or März), and the character that is clicked.
ASKED, CHARACTER = "3. Ma. 1979", "[aria-label=Target] [role=option]:nth-child(7)"
PLAYGROUND_SIZES = (1440, 1190), (390, 1330)


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
    from chromium import Browser

    from keras_attention.plotting import ExplorerPage

    browser = Browser()
    for name, (selector, width, height) in SHOTS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "page.html"
            ExplorerPage(**json.loads((FOLDER / f"{name}.json").read_text("utf-8"))).save(path)
            browser.open(path, width=width, height=height)
        browser.move_to(selector, click=True)
        browser.run(
            "scrollTo(0, 0); document.querySelectorAll('.scroll').forEach(e => e.scrollTop = 0)"
        )
        store_screenshot(browser, name)
    browser.close()


def take_playground(directory: pathlib.Path) -> None:
    """Writes PNGs of the page that asks an exported model, for a wide and a narrow window."""
    from chromium import Browser

    from keras_attention.export.serving import Server

    browser = Browser()
    with Server({"dates": directory}, grpc_port=0, rest_api_port=0, playground=True) as server:
        for width, height in PLAYGROUND_SIZES:
            browser.open(f"http://127.0.0.1:{server.rest_api_port}/", width=width, height=height)
            browser.run(wait_for("document.querySelector('textarea')"))
            browser.run(f"document.querySelector('textarea').value = {json.dumps(ASKED)}")
            browser.run("document.querySelector('textarea').dispatchEvent(new Event('input'))")
            browser.move_to(".ask", click=True)
            browser.run(wait_for("document.querySelector('.tree')"))
            browser.move_to(CHARACTER, click=True)
            browser.run("scrollTo(0, 0)")
            store_screenshot(browser, f"playground_{width}")
    browser.close()


def wait_for(condition: str) -> str:
    """Returns JavaScript, a promise that is kept when the condition holds."""
    return (
        f"new Promise(done => {{ const look = () => {condition} ? done(0)"
        " : setTimeout(look, 20); look() })"
    )


def store_screenshot(browser, name: str) -> None:
    """Writes what the window shows as a small PNG, without the margins beside the text."""
    from PIL import Image

    browser.wait_for_frame()
    left, right = browser.run(
        "(box => [box.left, box.right])(document.querySelector('main').getBoundingClientRect())"
    )
    shot = browser.send("Page.captureScreenshot", format="png")["data"]
    image = Image.open(io.BytesIO(base64.b64decode(shot))).convert("RGB")
    image = image.crop((max(0, int(left) - 16), 0, min(image.width, int(right) + 16), image.height))
    image.quantize(64).save(FOLDER / f"{name}.png", optimize=True)


def main(arguments: list[str] | None = None) -> None:
    """Writes the data, unless it is to be kept, and the screenshots."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--screenshots", action="store_true", help="of the stored data")
    parser.add_argument("--playground", type=pathlib.Path, metavar="DIR", help="of a served model")
    options = parser.parse_args(arguments)
    if options.playground:
        take_playground(options.playground)
        return
    if not options.screenshots:
        for explore in (explore_dates, explore_heads, explore_memory):
            for name, page in explore():
                data = re.search(r'id="data"[^>]*>(.*?)</script>', page.html, re.DOTALL)[1]
                text = json.dumps(json.loads(data), ensure_ascii=False) + "\n"
                (FOLDER / f"{name}.json").write_text(text, "utf-8")
    take_screenshots()


if __name__ == "__main__":
    main()

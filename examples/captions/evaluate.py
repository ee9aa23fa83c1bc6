"""`python -m examples evaluate` for captioners of scenes."""

import json
import time

import numpy as np

from examples.captions.located import is_inside, middles
from examples.captions.opened import Opened, add_scenes, open_run
from examples.captions.options import digits
from examples.captions.stream import SceneStream
from examples.captions.train import CaptionTrainer, make_loss, make_metrics
from examples.commands import arguments as shared
from examples.training.fitting import evaluate

SUMMARY = "measure a run on scenes of digits it has not seen"
EPILOG = """\
examples:
  python -m examples evaluate runs/captions                    4,096 scenes of test digits
  python -m examples evaluate runs/captions --part dev --scenes 1000
  python -m examples evaluate runs/captions --beam-width 4

what the numbers mean:
  right words        share of the words, the end marks counted, that the caption written has in
                     their place
  captions           share of the captions written that have no wrong word
  looks              share of the words of the true caption for which the largest weight lies in
                     the cell of the digit that the word names, while the caption is written
  next token, next look, loss
                     the same with the true words read so far, and the mean cost of a token
"""


def add_arguments(parser) -> None:
    """Adds the options of `evaluate`."""
    shared.add_run(parser)
    add_scenes(parser)
    shared.number(parser, "--scenes", 4096, "scenes at least")
    parser.add_argument(
        "--digits",
        type=digits,
        metavar="LOW:HIGH",
        help="digits on a scene (default: as in the training)",
    )
    parser.add_argument("--json", metavar="FILE", help="write the numbers")


def run(arguments) -> None:
    """Prints the shares of right words and right looks."""
    opened = open_run(arguments.run, arguments.beam_width)
    path = shared.check_writable(arguments.json)
    began = time.monotonic()
    stream = opened.scenes(
        arguments.mnist, arguments.part, arguments.scenes, digits=arguments.digits
    )
    numbers = {"part": arguments.part, "beam": arguments.beam_width} | measure(opened, stream)
    numbers["seconds"] = time.monotonic() - began
    for name, value in numbers.items():
        print(f"{name.replace('_', ' '):<18} {_shown(name, value)}")
    if path is not None:
        path.write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")


def measure(opened: Opened, stream: SceneStream) -> dict:
    """Returns the numbers of a run on the first epoch of a stream."""
    side = stream.painter.side
    sums = dict.fromkeys(("scenes", "tokens", "right", "captions", "places", "found"), 0)
    for batch in range(stream.batches_per_epoch()):
        inputs, labels = stream.arrays(0, batch)
        written, true = opened.write(inputs), labels["caption"]
        same = written["ids"] == true
        has_place = labels["box"][:, :, 2] > 0
        points = middles(written["weights"], opened.locations, side)
        found = np.array(is_inside(points, labels["box"])) & has_place
        sums["scenes"] += len(true)
        sums["tokens"] += int((true != 0).sum())
        sums["right"] += int((same & (true != 0)).sum())
        sums["captions"] += int(same.all(axis=1).sum())
        sums["places"] += int(has_place.sum())
        sums["found"] += int(found.sum())
    metrics = make_metrics(opened.locations, side)
    told = evaluate(opened.model, stream.epoch(0), make_loss(), metrics, trainer=CaptionTrainer)
    return {
        "scenes": sums["scenes"],
        "words_and_ends": sums["tokens"],
        "right_words": sums["right"] / sums["tokens"],
        "captions": sums["captions"] / sums["scenes"],
        "looks": sums["found"] / sums["places"],
        "next_token": told["accuracy"],
        "next_look": told["located"],
        "loss": float(np.log(told["perplexity"])),
    }


def _shown(name, value):
    if not isinstance(value, float):
        return value
    return f"{value:.4g}" if name in ("loss", "seconds") else f"{100 * value:.2f} %"

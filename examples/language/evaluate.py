"""`python -m examples evaluate` for language models."""

import json
import time

from examples.commands import arguments as shared
from examples.language.opened import open_run
from examples.language.texts import read_texts

SUMMARY = "measure a run on text it has not seen"
EPILOG = """\
examples:
  python -m examples evaluate runs/captions --text test_2016_flickr.lc.norm.tok.en.gz

what the numbers mean:
  perplexity         e to the mean cost of a token in nats; the end of a line is a token, and so
                     is an unknown word
  loss               the cost itself
  cut lines, tokens  lines longer than what the run reads (--max-tokens of its training), and their
                     tokens beyond it: those, and the ends of those lines, are not measured
  accuracy           share of the tokens that are the likeliest, in %
  unknown            share of the tokens that are not in the vocabulary, in %. Perplexities compare
                     only on the same tokens and the same vocabulary
"""


def add_arguments(parser) -> None:
    """Adds the options of `evaluate`."""
    shared.add_run(parser)
    parser.add_argument("--text", required=True, metavar="FILE", help="the text")
    shared.number(parser, "--max-texts", None, "the first N lines (default: all)")
    parser.add_argument("--json", metavar="FILE", help="write the numbers")


def run(arguments) -> None:
    """Prints the perplexity."""
    opened = open_run(arguments.run)
    path = shared.check_writable(arguments.json)
    lines = read_texts(arguments.text, arguments.max_texts)
    began = time.monotonic()
    measured = opened.numbers(lines)
    length = measured["length"]
    print(f"text: {length}")
    numbers = {
        "lines": len(lines),
        "cut_lines": length.cut_texts,
        "cut_tokens": length.cut_tokens,
        "tokens": measured["tokens"],
        "perplexity": measured["perplexity"],
        "loss": measured["loss"],
        "accuracy": 100 * measured["accuracy"],
        "unknown": 100 * measured["unknown"] / measured["tokens"],
        "seconds": time.monotonic() - began,
    }
    for name, value in numbers.items():
        name = name.replace("_", " ")
        print(f"{name:<18} {value:.3f}" if isinstance(value, float) else f"{name:<18} {value:,}")
    if path is not None:
        path.write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")

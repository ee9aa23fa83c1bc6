"""Automatic choices on sampled sizes: is what the library chooses ever the slower form?

    python -m benchmarks choices
    python -m benchmarks choices --only additive --cells 150 --seed 2 --threads 1

A cell is a choice, sizes drawn evenly on a logarithmic scale, a way to run it (eagerly, in a graph
that knows the sizes and in one that does not, under XLA likewise) and whether gradients are taken.
Both forms of a cell, the library's choice and the plain one, live in a process of their own and
take turns; compared are medians of the CPU time, which other work on the machine disturbs less. A
cell that looks slower is measured again with three times the rounds. Cells whose plain form would
take more than `--memory` are left out.

* additive: `BahdanauAttention`'s scores, beside `blockwise=False`;
* dot: `Attention("scaled_dot")`, beside all scores at once;
* heads: `MultiHeadAttention`, beside all scores at once;
* windows: `LocalAttention`, beside all keys for all queries;
* entmax: alpha 1.5 by sorting, beside bisection;
* tokens: the best few tokens of a vocabulary in two stages, beside a plain top-k.
"""

import math
import random
import statistics

from benchmarks import report as reports
from benchmarks.arguments import add_number
from benchmarks.harness import Case, Side

REPEATS = 7
RUNS = ("eager", "graph", "unknown sizes", "XLA", "XLA, unknown sizes")
SLOWER = 1.1
WORST = 12  # cells in the table

#: The sizes of each choice and their ranges; "values" bounds the product of those marked True.
SIZES = {
    "additive": {
        "batch": (1, 4096, True),
        "queries": (1, 1024, True),
        "keys": (5, 4096, True),
        "width": (32, 1024, True),
    },
    "dot": {
        "batch": (1, 4096, True),
        "queries": (1, 8192, True),
        "keys": (5, 8192, True),
        "width": (16, 128, False),
    },
    "heads": {
        "batch": (1, 512, True),
        "queries": (1, 4096, True),
        "keys": (5, 4096, True),
        "heads": (1, 8, True),
        "width": (8, 64, False),
    },
    "windows": {
        "batch": (1, 64, True),
        "queries": (2, 4096, True),
        "keys": (5, 4096, True),
        "width": (16, 128, False),
        "window": (3, 129, False),
    },
    "entmax": {"batch": (1, 2**16, True), "keys": (2, 4096, True)},
    "tokens": {"batch": (1, 512, True), "keys": (64, 50_000, True), "count": (1, 20, False)},
}
#: Arrays of so many values that the plain form holds at a time, forward and with gradients.
HELD = {"additive": (2, 4), "entmax": (30, 40)}
MOST_VALUES = {"additive": 2**30}


def add_arguments(parser) -> None:
    """Adds this suite's flags to its parser; the shared ones are there already."""
    parser.add_argument("--only", choices=SIZES, nargs="+", default=list(SIZES))
    add_number(parser, "--cells", 150, "cells of each choice")
    add_number(parser, "--seed", 1, "seed of the sample")
    add_number(parser, "--memory", 2000, "MB that the plain form of a cell may take")
    parser.set_defaults(threads=1)


def run(arguments, command: str, progress) -> dict:
    """Measures the sample of each choice and returns the filled report."""
    title = (
        f"Automatic choices beside the plain form: {arguments.cells} cells each, "
        f"{arguments.threads} threads, CPU time, median of {arguments.repeats} rounds"
    )
    settings = {"seed": arguments.seed, "cells": arguments.cells, "threads": arguments.threads}
    report = reports.new_report("choices", title, command, settings)
    report["columns"] = ["cell", "run", "chosen", "plain", "ratio", "plain holds"]
    for choice in dict.fromkeys(arguments.only):
        cells = sample(choice, arguments.cells, arguments.seed)
        kept = [cell for cell in cells if cell["bytes"] <= arguments.memory * 1e6]
        rows = measure(kept, arguments, progress)
        fill(report, choice, rows, len(cells) - len(kept))
    return report


def sample(choice: str, count: int, seed: int) -> list[dict]:
    """Returns cells of one choice, the same for the same seed."""
    draw, cells = random.Random(f"{choice} {seed}"), []
    while len(cells) < count:
        sizes = {
            name: round(math.exp(draw.uniform(math.log(low), math.log(high))))
            for name, (low, high, _) in SIZES[choice].items()
        }
        values = math.prod(sizes[name] for name, (*_, counts) in SIZES[choice].items() if counts)
        if values > MOST_VALUES.get(choice, 2**27):
            continue
        gradient = draw.random() < 0.5 and choice != "tokens"
        held = HELD.get(choice, (3, 6))[gradient]
        way = draw.choice(RUNS)
        cells.append(
            {"choice": choice, "sizes": sizes, "run": way, "gradient": gradient}
            | {"bytes": 4 * held * values}
        )
    return cells


def measure(cells, arguments, progress) -> list[dict]:
    """Returns the cells with the CPU time of both forms."""
    rows = []
    forms = [Case(form, "", {}) for form in ("chosen", "plain")]
    with Side(forms[0], arguments.threads) as chosen, Side(forms[1], arguments.threads) as plain:
        for number, cell in enumerate(cells):
            progress(f"{cell['choice']}, cell {number + 1} of {len(cells)}")
            for side, is_plain in ((chosen, False), (plain, True)):
                options = {name: cell[name] for name in ("choice", "sizes", "run", "gradient")}
                options["plain"] = is_plain
                side.case = Case("plain" if is_plain else "chosen", f"{__name__}:side", options)
                side.build()
                side.call(arguments.warmup)
            row = cell | take_turns(chosen, plain, arguments.repeats)
            if row["ratio"] > SLOWER:
                row = cell | take_turns(chosen, plain, 3 * arguments.repeats)
            rows.append(row)
    return rows


def take_turns(chosen, plain, repeats: int) -> dict:
    """Returns the medians of the CPU time of both forms, called in turn, and their ratio."""
    seconds = {"chosen": [], "plain": []}
    for _ in range(repeats):
        for name, side in (("chosen", chosen), ("plain", plain)):
            seconds[name] += side.call_for_cpu_time()
    medians = {name: statistics.median(numbers) for name, numbers in seconds.items()}
    return medians | {"ratio": medians["chosen"] / medians["plain"]}


def fill(report: dict, choice: str, rows: list[dict], left_out: int) -> None:
    """Adds the worst cells of one choice to the table, and what holds for all of them."""
    report["rows"] += rows
    worst = sorted(rows, key=lambda row: -row["ratio"])
    for row in worst[:WORST]:
        sizes = " ".join(f"{name} {size:,}" for name, size in row["sizes"].items())
        report["lines"].append(
            [
                f"{choice}: {sizes}",
                row["run"] + (", gradients" if row["gradient"] else ""),
                reports.seconds_text(row["chosen"]),
                reports.seconds_text(row["plain"]),
                f"{row['ratio']:.2f}",
                reports.bytes_text(row["bytes"]),
            ]
        )
    if not rows:
        report["notes"].append(f"{choice}: no cell was measured.")
        return
    slower = [row for row in rows if row["ratio"] > SLOWER]
    middle = statistics.median(row["ratio"] for row in rows)
    report["notes"].append(
        f"{choice}: {len(rows)} cells, {left_out} left out for their memory; ratio at the median "
        f"{middle:.2f}, at worst {worst[0]['ratio']:.2f}, above {SLOWER} in {len(slower)}."
    )


def side(choice, sizes, run, gradient, plain):
    """Returns a function that computes one cell in one form."""
    import tensorflow as tf

    function, shapes = FUNCTIONS[choice](plain, **sizes)
    inputs = [tf.random.stateless_normal(shape, seed=(1, 2)) for shape in shapes]
    function(*[tensor[:1] for tensor in inputs])  # makes the weights

    def step(*inputs):
        if not gradient:
            return tf.reduce_sum(function(*inputs))
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            total = tf.reduce_sum(function(*inputs) ** 2)
        gradients = tape.gradient(total, inputs)
        return tf.add_n([tf.reduce_sum(tf.convert_to_tensor(part)) for part in gradients])

    if run != "eager":
        known = "unknown sizes" not in run
        signature = None if known else [_open(tensor.shape) for tensor in inputs]
        step = tf.function(step, signature, jit_compile=run.startswith("XLA"), autograph=False)
    return lambda: float(step(*inputs))


def _open(shape):
    import tensorflow as tf

    return tf.TensorSpec([*[None] * (len(shape) - 1), shape[-1]], "float32")


def _additive(plain, batch, queries, keys, width):
    from keras_attention import AdditiveScorer

    scorer = AdditiveScorer(width, blockwise=False if plain else "auto")
    scorer.build((None, None, width), (None, None, width))

    def function(query, key):  # projected already: what is compared is the scores
        return scorer.score(query, key)

    return function, [(batch, queries, width), (batch, keys, width)]


def _all_at_once():
    from keras_attention.kernels import blocked_dot

    blocked_dot.can_skip_stored_scores = lambda *arguments: False


def _dot(plain, batch, queries, keys, width):
    from keras_attention import Attention

    if plain:
        _all_at_once()
    return Attention("scaled_dot"), [(batch, queries, width), (batch, keys, width)]


def _heads(plain, batch, queries, keys, heads, width):
    from keras_attention import MultiHeadAttention

    if plain:
        _all_at_once()
    layer = MultiHeadAttention(heads, width)
    return layer, [(batch, queries, heads * width), (batch, keys, heads * width)]


def _windows(plain, batch, queries, keys, width, window):
    from keras_attention import LocalAttention

    class DenseLocalAttention(LocalAttention):
        def _should_score_all_keys(self, *arguments):
            return True

    layer_class = DenseLocalAttention if plain else LocalAttention
    layer = layer_class(window // 2 * 2 + 1, ("monotonic", "predictive")[batch % 2])
    return layer, [(batch, queries, width), (batch, keys, width)]


def _entmax(plain, batch, keys):
    from keras_attention import EntmaxNormalizer

    # Beside 1.5 the threshold is found by bisection.
    return EntmaxNormalizer(1.500001 if plain else 1.5), [(batch, keys)]


def _tokens(plain, batch, keys, count):
    from keras import ops

    from keras_attention.search.chunked_top_k import chunked_top_k

    function = ops.top_k if plain else chunked_top_k
    return lambda logits: function(logits, count)[0], [(batch, keys)]


FUNCTIONS = {
    "additive": _additive,
    "dot": _dot,
    "heads": _heads,
    "windows": _windows,
    "entmax": _entmax,
    "tokens": _tokens,
}

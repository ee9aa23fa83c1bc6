"""Speed and memory of one attention layer, forward and backward, beside Keras' own layers.

    python -m benchmarks attention
    python -m benchmarks attention --score additive --batch 1 --queries 1024 --keys 1024

Additive: `BahdanauAttention(units)` beside `keras.layers.AdditiveAttention`, which has no
projections, so that ours computes two matrix products more. Dot: `LuongAttention("dot")` beside
`keras.layers.Attention`. The loss is the sum of the outputs; gradients are taken with respect to
query, value and all weights. Every side in graph mode and under XLA. Extra memory is the peak
resident set of a fresh process minus what it held before the first call.
"""

import numpy as np

from benchmarks import report as reports
from benchmarks.arguments import add_number
from benchmarks.harness import Case, measure_memory, measure_times

REPEATS = 11
SCORES = ("additive", "dot")
MODES = ("graph", "XLA")


def add_arguments(parser) -> None:
    """Adds this suite's flags to its parser; the shared ones are there already."""
    sizes = parser.add_argument_group("sizes")
    for flag, default, text in (
        ("--batch", 8, "rows of the batch"),
        ("--queries", 256, "query positions"),
        ("--keys", 256, "key positions"),
        ("--units", 256, "width of query, key and hidden layer"),
    ):
        add_number(sizes, flag, default, text)
    parser.add_argument(
        "--score",
        choices=SCORES,
        nargs="+",
        default=list(SCORES),
        help="which scores to compare (default: both)",
    )
    add_number(parser, "--memory-repeats", 3, "fresh processes a side; the memory is their median")
    parser.add_argument("--no-memory", action="store_true", help="measure time only")


def run(arguments, command: str, progress) -> dict:
    """Measures all sides, one score after the other, and returns the filled report."""
    options = {
        "batch": arguments.batch,
        "queries": arguments.queries,
        "keys": arguments.keys,
        "units": arguments.units,
    }
    settings = {**options, "dtype": "float32", "threads": arguments.threads}
    title = (
        f"Attention, forward and backward: batch {arguments.batch}, {arguments.queries} queries x "
        f"{arguments.keys} keys, {arguments.units} units, float32, {arguments.threads} threads, "
        f"median of {arguments.repeats} rounds"
    )
    report = reports.new_report("attention", title, command, settings)
    report["columns"] = ["side", "a call", "quartiles", "fastest", "speed, Keras = 1"]
    report["columns"] += ["extra memory", "memory, Keras = 1", "first call"]
    for score in dict.fromkeys(arguments.score):
        sides = cases(score, options)
        times = measure_times(
            sides,
            arguments.repeats,
            threads=arguments.threads,
            warmup=arguments.warmup,
            progress=progress,
        )
        memory = {}
        if not arguments.no_memory:
            memory = measure_memory(
                sides, arguments.memory_repeats, threads=arguments.threads, progress=progress
            )
        fill(report, score, times, memory)
    report["notes"].append("The first call includes tracing and compiling.")
    return report


def cases(score: str, options: dict) -> list[Case]:
    """Returns the four sides of one score in the order in which they take turns."""
    return [
        Case(
            side_name(score, owner, mode),
            "benchmarks.attention:attention_side",
            {**options, "score": score, "owner": owner, "jit_compile": mode == "XLA"},
        )
        for mode in MODES
        for owner in ("ours", "Keras")
    ]


def side_name(score: str, owner: str, mode: str) -> str:
    """Returns what the table calls a side."""
    return f"{score}, {owner}, {mode}"


def fill(report: dict, score: str, times: dict[str, dict], memory: dict[str, dict]) -> None:
    """Adds the rows and the table's lines of one score to `report`."""
    for mode in MODES:
        peer = side_name(score, "Keras", mode)
        for name in (side_name(score, "ours", mode), peer):
            row = {"name": name, **times[name], **memory.get(name, {})}
            row["speed_ratio"] = times[peer]["median_seconds"] / row["median_seconds"]
            if name in memory:
                held = memory[peer]["median_extra_bytes"]
                row["memory_ratio"] = row["median_extra_bytes"] / held if held > 0 else None
            report["rows"].append(row)
            report["lines"].append(_line(row))


def _line(row):
    memory, share = row.get("median_extra_bytes"), row.get("memory_ratio")
    return [
        row["name"],
        reports.seconds_text(row["median_seconds"]),
        reports.range_text(*row["quartile_seconds"]),
        reports.seconds_text(row["fastest_seconds"]),
        f"{row['speed_ratio']:.2f}",
        "-" if memory is None else reports.bytes_text(memory),
        "-" if share is None else f"{share:.2f}",
        reports.seconds_text(row["first_call_seconds"]),
    ]


def attention_side(batch, queries, keys, units, score, owner, jit_compile):
    """Returns a function that makes one forward and backward pass of one layer."""
    import keras
    import tensorflow as tf

    from keras_attention import BahdanauAttention, LuongAttention

    generator = np.random.default_rng(1)
    query = tf.constant(generator.normal(size=(batch, queries, units)), "float32")
    value = tf.constant(generator.normal(size=(batch, keys, units)), "float32")
    keras.utils.set_random_seed(1)
    if owner == "Keras":
        layer = keras.layers.AdditiveAttention if score == "additive" else keras.layers.Attention
        layer = layer()
        layer.build([query.shape, value.shape])
        attend = lambda query, value: layer([query, value])  # noqa: E731
    else:
        layer = BahdanauAttention(units) if score == "additive" else LuongAttention("dot")
        layer.build(query.shape, value.shape)
        attend = layer
    weights = [weight.value for weight in layer.trainable_weights]

    @tf.function(jit_compile=jit_compile)
    def step(query, value):
        with tf.GradientTape() as tape:
            tape.watch([query, value])
            loss = tf.reduce_sum(attend(query, value))
        return loss, tape.gradient(loss, [query, value, *weights])

    return lambda: float(step(query, value)[0])

"""Speed and memory of one attention layer, forward and backward, beside Keras' own layers.

    python -m benchmarks attention
    python -m benchmarks attention --score additive --batch 1 --queries 1024 --keys 1024

Additive: `BahdanauAttention(units)` beside `keras.layers.AdditiveAttention`, which has no
projections, so that ours computes two matrix products more. Dot: `LuongAttention("dot")` beside
`keras.layers.Attention`. The loss is the sum of the outputs; gradients are taken with respect to
query, value and all weights. Every side in graph mode and under XLA. Extra memory is the peak
resident set of a fresh process minus what it held before the first call; under XLA some 100 to 200
MB of it are the compiler's.

The long part measures memory alone, where the dense forms need many GB: additive scores of 1,024
queries and keys, and dot attention by blocks at 8,192, batch 1. `--long-peers` adds Keras' layers
to it; the additive one needs 16 GB.
"""

import numpy as np

from benchmarks import report as reports
from benchmarks.arguments import add_number
from benchmarks.harness import Case, measure_memory, measure_times

REPEATS = 11
SCORES = ("additive", "dot")
MODES = ("graph", "XLA")
#: The sizes of the long part.
LONG = {
    "additive": {"batch": 8, "queries": 1024, "keys": 1024, "units": 256},
    "dot": {"batch": 1, "queries": 8192, "keys": 8192, "units": 64},
}


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
    parser.add_argument("--no-long", action="store_true", help="leave the long part out")
    parser.add_argument("--long-peers", action="store_true", help="measure Keras there, too")


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
        if not (arguments.no_memory or arguments.no_long):
            sides = long_cases(score, arguments.long_peers)
            memory = measure_memory(
                sides, arguments.memory_repeats, threads=arguments.threads, progress=progress
            )
            fill_long(report, score, memory)
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


def long_cases(score: str, with_peers: bool) -> list[Case]:
    """Returns the sides of a score's long part, ours by blocks."""
    sizes = LONG[score]
    ours = "attention" if score == "additive" else "long_dot"
    options = {**sizes, "score": score}
    cases = []
    for mode in MODES:
        jit = {"jit_compile": mode == "XLA"}
        name = long_name(score, "ours", mode)
        factory = f"benchmarks.attention:{ours}_side"
        cases.append(Case(name, factory, {**options, "owner": "ours", **jit}))
        if with_peers:
            name = long_name(score, "Keras", mode)
            factory = "benchmarks.attention:attention_side"
            cases.append(Case(name, factory, {**options, "owner": "Keras", **jit}))
    return cases


def long_name(score: str, owner: str, mode: str) -> str:
    """Returns what the table calls a side of the long part."""
    sizes = LONG[score]
    return f"{score} {sizes['queries']:,} x {sizes['keys']:,}, {owner}, {mode}"


def fill_long(report: dict, score: str, memory: dict[str, dict]) -> None:
    """Adds the rows and lines of a score's long part, and what the dense form holds."""
    for name, result in memory.items():
        peer = memory.get(long_name(score, "Keras", name.rsplit(", ", 1)[1]))
        row = {"name": name, **result, "memory_ratio": None}
        if peer is not None:
            row["memory_ratio"] = row["median_extra_bytes"] / peer["median_extra_bytes"]
        report["rows"].append(row)
        text = reports.bytes_text(row["median_extra_bytes"])
        share = "-" if row["memory_ratio"] is None else f"{row['memory_ratio']:.2f}"
        report["lines"].append([name, "-", "-", "-", "-", text, share, "-"])
    sizes = LONG[score]
    held = 4 * sizes["batch"] * sizes["queries"] * sizes["keys"]
    what = "score matrix"
    if score == "additive":
        held, what = held * sizes["units"], "tensor of all pairs"
    report["notes"].append(
        f"The {what} of {score} {sizes['queries']:,} x {sizes['keys']:,} takes "
        f"{reports.bytes_text(held)}."
    )


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


def long_dot_side(batch, queries, keys, units, score, owner, jit_compile):
    """Returns a function that makes one forward and backward pass of dot attention by blocks."""
    import tensorflow as tf

    from keras_attention.kernels.blocked_dot import blockwise_dot_attention

    generator = np.random.default_rng(1)
    query = tf.constant(generator.normal(size=(batch, queries, units)), "float32")
    value = tf.constant(generator.normal(size=(batch, keys, units)), "float32")

    @tf.function(jit_compile=jit_compile)
    def step(query, value):
        with tf.GradientTape() as tape:
            tape.watch([query, value])
            loss = tf.reduce_sum(blockwise_dot_attention(query, value, value))
        return loss, tape.gradient(loss, [query, value])

    return lambda: float(step(query, value)[0])

"""Time and memory of windowed attention at two lengths: do both grow like the length?

    python -m benchmarks windows
    python -m benchmarks windows --layers local-p --short 1024 --long 4096 --window 21

`LocalAttention` with monotonic (local-m) and predicted (local-p) positions, and `SelfAttention`
with a window, forward and backward; as many queries as keys. The loss is the sum of the squared
outputs; gradients are taken with respect to all inputs and weights. Every side in graph mode and
under XLA. The two lengths of a side take turns. Extra memory is the peak resident set of a fresh
process minus what it held before the first call.
"""

import numpy as np

from benchmarks import report as reports
from benchmarks.arguments import add_number
from benchmarks.harness import Case, measure_memory, measure_times

REPEATS = 11
LAYERS = ("local-m", "local-p", "self")
MODES = ("graph", "XLA")


def add_arguments(parser) -> None:
    """Adds this suite's flags to its parser; the shared ones are there already."""
    sizes = parser.add_argument_group("sizes")
    for flag, default, text in (
        ("--batch", 1, "rows of the batch"),
        ("--short", 4096, "positions of the short sequence"),
        ("--long", 16384, "positions of the long one"),
        ("--window", 65, "positions in a window, odd"),
        ("--units", 64, "width of all tensors"),
    ):
        add_number(sizes, flag, default, text)
    parser.add_argument(
        "--layers", choices=LAYERS, nargs="+", default=list(LAYERS), help="default: all three"
    )
    add_number(parser, "--memory-repeats", 3, "fresh processes a side; the memory is their median")
    parser.add_argument("--no-memory", action="store_true", help="measure time only")


def run(arguments, command: str, progress) -> dict:
    """Measures one layer and mode after the other and returns the filled report."""
    options = {name: getattr(arguments, name) for name in ("batch", "window", "units")}
    lengths = arguments.short, arguments.long
    settings = {**options, "lengths": lengths, "dtype": "float32", "threads": arguments.threads}
    title = (
        f"Windows, forward and backward: window {arguments.window}, batch {arguments.batch}, "
        f"{arguments.units} units, float32, {arguments.threads} threads, "
        f"median of {arguments.repeats} rounds"
    )
    report = reports.new_report("windows", title, command, settings)
    report["columns"] = ["side", "length", "a call", "quartiles", "time, short = 1"]
    report["columns"] += ["extra memory", "memory, short = 1", "first call"]
    for layer in dict.fromkeys(arguments.layers):
        for mode in MODES:
            sides = cases(layer, mode, lengths, options)
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
            fill(report, sides, times, memory)
    growth = arguments.long / arguments.short
    report["notes"].append(f"Growing like the length would be {growth:.2f} in time and memory.")
    return report


def cases(layer: str, mode: str, lengths, options: dict) -> list[Case]:
    """Returns the sides of one layer and mode, the short one first."""
    return [
        Case(
            f"{layer}, {mode}, {length:,}",
            "benchmarks.windows:window_side",
            {**options, "layer": layer, "length": length, "jit_compile": mode == "XLA"},
        )
        for length in lengths
    ]


def fill(report: dict, sides: list[Case], times: dict[str, dict], memory: dict[str, dict]) -> None:
    """Adds the rows and the table's lines of one layer and mode to `report`."""
    short = sides[0].name
    for side in sides:
        row = {"name": side.name, **times[side.name], **memory.get(side.name, {})}
        row["time_ratio"] = row["median_seconds"] / times[short]["median_seconds"]
        if memory:
            held = memory[short]["median_extra_bytes"]
            row["memory_ratio"] = row["median_extra_bytes"] / held if held > 0 else None
        report["rows"].append(row)
        report["lines"].append(_line(row))


def _line(row):
    memory, share = row.get("median_extra_bytes"), row.get("memory_ratio")
    layer, mode, length = row["name"].split(", ")
    return [
        f"{layer}, {mode}",
        length,
        reports.seconds_text(row["median_seconds"]),
        reports.range_text(*row["quartile_seconds"]),
        f"{row['time_ratio']:.2f}",
        "-" if memory is None else reports.bytes_text(memory),
        "-" if share is None else f"{share:.2f}",
        reports.seconds_text(row["first_call_seconds"]),
    ]


def window_side(batch, length, window, units, layer, jit_compile):
    """Returns a function that makes one forward and backward pass of one layer."""
    import keras
    import tensorflow as tf

    from keras_attention import LocalAttention, SelfAttention

    generator = np.random.default_rng(1)
    keras.utils.set_random_seed(1)
    count = 1 if layer == "self" else 2
    inputs = [
        tf.constant(generator.normal(size=(batch, length, units)), "float32") for _ in range(count)
    ]
    if layer == "self":
        attention = SelfAttention(units, window=window)
    else:
        mode = "monotonic" if layer == "local-m" else "predictive"
        attention = LocalAttention(window, mode)
    attention.build(*[tensor.shape for tensor in inputs])
    weights = [weight.value for weight in attention.trainable_weights]

    @tf.function(jit_compile=jit_compile)
    def step(*inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            loss = tf.reduce_sum(attention(*inputs) ** 2)
        gradients = tape.gradient(loss, [*inputs, *weights])
        # A gradient of rows and their places becomes a tensor, as an optimizer would need it.
        return loss, [tf.convert_to_tensor(gradient) for gradient in gradients]

    return lambda: float(step(*inputs)[0])

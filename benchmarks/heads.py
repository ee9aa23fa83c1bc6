"""Speed of multi-head attention, forward and backward, beside Keras' and PyTorch's.

    python -m benchmarks heads
    python -m benchmarks heads --queries 2048 --keys 2048 --batch 1
    python -m benchmarks heads --dtype bfloat16

`MultiHeadAttention` beside `keras.layers.MultiHeadAttention`, both in graph mode and under XLA, and
beside a PyTorch module around `scaled_dot_product_attention` (eager, with its fused kernel). All
have four projections without biases, the same weights, no mask and no dropout, and do not return
their weights. The loss is the sum of the outputs; gradients are taken with respect to query, value
and the projections. Where queries and keys are as many, query and value are one tensor. In bfloat16
the Keras layers have the policy `mixed_bfloat16` and PyTorch autocast.
"""

import numpy as np

from benchmarks import report as reports
from benchmarks.arguments import add_number
from benchmarks.harness import BenchmarkError, Case, measure_times

REPEATS = 11
MODES = ("graph", "XLA")
PEER = "PyTorch, eager"
RATIOS = ("keras_ratio", "torch_ratio")


def add_arguments(parser) -> None:
    """Adds this suite's flags to its parser; the shared ones are there already."""
    sizes = parser.add_argument_group("sizes")
    for flag, default, text in (
        ("--batch", 16, "rows of the batch"),
        ("--queries", 512, "query positions"),
        ("--keys", 512, "key positions"),
        ("--width", 512, "width of query, value and context; the heads divide it"),
        ("--heads", 8, "heads"),
    ):
        add_number(sizes, flag, default, text)
    parser.add_argument(
        "--dtype",
        choices=["float32", "bfloat16"],
        default="float32",
        help="dtype of the products; weights are float32 (default: %(default)s)",
    )


def run(arguments, command: str, progress) -> dict:
    """Measures all sides and returns the filled report."""
    names = ("batch", "queries", "keys", "width", "heads", "dtype")
    options = {name: getattr(arguments, name) for name in names}
    if arguments.width % arguments.heads:
        text = f"--width {arguments.width} is not a multiple of --heads {arguments.heads}"
        raise BenchmarkError(text)
    title = (
        f"Multi-head attention, forward and backward: batch {arguments.batch}, "
        f"{arguments.queries} queries x {arguments.keys} keys, width {arguments.width}, "
        f"{arguments.heads} heads, {arguments.dtype}, {arguments.threads} threads, "
        f"median of {arguments.repeats} rounds"
    )
    settings = {**options, "threads": arguments.threads}
    report = reports.new_report("heads", title, command, settings)
    results = measure_times(
        cases(options),
        arguments.repeats,
        threads=arguments.threads,
        warmup=arguments.warmup,
        progress=progress,
    )
    fill(report, results)
    return report


def cases(options: dict) -> list[Case]:
    """Returns the five sides in the order in which they take turns."""
    sides = [
        Case(
            f"{owner}, {mode}",
            "benchmarks.heads:keras_side",
            {**options, "owner": owner, "jit_compile": mode == "XLA"},
        )
        for mode in MODES
        for owner in ("ours", "Keras")
    ]
    return [*sides, Case(PEER, "benchmarks.heads:torch_side", options, needs=("torch",))]


def fill(report: dict, results: dict[str, dict]) -> None:
    """Writes the rows, the table's lines and the notes into `report`."""
    report["columns"] = ["side", "a call", "quartiles", "fastest"]
    report["columns"] += ["speed, Keras = 1", "speed, PyTorch = 1", "first call"]
    peer = results.get(PEER, {}).get("median_seconds")
    for name, result in results.items():
        if "missing" in result:
            report["rows"].append({"name": name, "missing": result["missing"]})
            report["lines"].append([name, result["missing"]])
            continue
        median = result["median_seconds"]
        keras_name = name.replace("ours", "Keras")
        row = {"name": name, **result, "torch_ratio": peer / median if peer else None}
        row["keras_ratio"] = None
        if name != PEER:
            row["keras_ratio"] = results[keras_name]["median_seconds"] / median
        report["rows"].append(row)
        report["lines"].append(
            [
                name,
                reports.seconds_text(median),
                reports.range_text(*result["quartile_seconds"]),
                reports.seconds_text(result["fastest_seconds"]),
                *("-" if row[key] is None else f"{row[key]:.2f}" for key in RATIOS),
                reports.seconds_text(result["first_call_seconds"]),
            ]
        )
    report["notes"].append("Keras is compared within one mode. The first call includes compiling.")


def arrays(batch, queries, keys, width):
    """Returns query, value and four square kernels, the same for every side."""
    generator = np.random.default_rng(1)
    query = generator.normal(size=(batch, queries, width))
    value = query if queries == keys else generator.normal(size=(batch, keys, width))
    kernels = generator.normal(size=(4, width, width)) * width**-0.5
    return [array.astype("float32") for array in (query, value, kernels)]


def keras_side(batch, queries, keys, width, heads, owner, jit_compile, dtype="float32"):
    """Returns a function that makes one forward and backward pass of a Keras layer."""
    import keras
    import tensorflow as tf

    from keras_attention import MultiHeadAttention

    query, value, kernels = arrays(batch, queries, keys, width)
    kind = MultiHeadAttention if owner == "ours" else keras.layers.MultiHeadAttention
    policy = dtype if dtype == "float32" else f"mixed_{dtype}"
    layer = kind(heads, width // heads, use_bias=False, dtype=policy)
    layer.build(query.shape, value.shape)
    pairs = zip(kernels, layer.weights, strict=True)
    layer.set_weights([kernel.reshape(weight.shape) for kernel, weight in pairs])
    query = tf.constant(query)
    value = query if queries == keys else tf.constant(value)
    weights = [weight.value for weight in layer.trainable_weights]

    @tf.function(jit_compile=jit_compile)
    def step(query, value):
        value = query if queries == keys else value
        with tf.GradientTape() as tape:
            tape.watch([query, value])
            loss = tf.reduce_sum(tf.cast(layer(query, value), "float32"))
        return loss, tape.gradient(loss, [query, value, *weights])

    return lambda: float(step(query, value)[0])


def torch_side(batch, queries, keys, width, heads, dtype="float32"):
    """Returns a function that makes one forward and backward pass with PyTorch in eager mode."""
    import os

    import torch
    from torch.nn.functional import linear, scaled_dot_product_attention

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    query, value, kernels = arrays(batch, queries, keys, width)
    query = torch.from_numpy(query).requires_grad_()
    value = query if queries == keys else torch.from_numpy(value).requires_grad_()
    weights = [torch.from_numpy(kernel.T.copy()).requires_grad_() for kernel in kernels]

    def split(tensor, weight):
        return linear(tensor, weight).unflatten(-1, (heads, -1)).transpose(1, 2)

    def work():
        for tensor in (query, value, *weights):
            tensor.grad = None
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bfloat16"):
            sides = zip((query, value, value), weights, strict=False)
            contexts = scaled_dot_product_attention(*(split(*side) for side in sides))
            outputs = linear(contexts.transpose(1, 2).flatten(2), weights[3])
        loss = outputs.float().sum()
        loss.backward()
        return loss.item()

    return work

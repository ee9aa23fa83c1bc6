"""Speed of a training step: RNNsearch, ours in graph mode and under XLA, beside eager PyTorch.

    python -m benchmarks train
    python -m benchmarks train --repeats 31 --json train.json

A step is forward, backward, clipping by global norm and Adam, in float32, on a batch of full
sentences (no padding), the same ids on every side. Ours is `examples.models.rnnsearch` with the
step of `examples.training.steps`; the peer is `benchmarks/torch_rnnsearch.py`, the same function
(a test copies the weights and compares logits). A token is a target token.

For orientation, on a machine of two cores with AVX512 the step of 28 GFLOP has a floor near
0.12 s in float32; a plain version took 0.27 s under XLA and 0.35 s in eager PyTorch.
"""

import numpy as np

from benchmarks import report as reports
from benchmarks.arguments import add_number
from benchmarks.harness import Case, measure_times
from examples.memory import keep_freed_memory

REPEATS = 15
PEER = "PyTorch, eager"
SIDES = {"xla": "ours, XLA", "graph": "ours, graph", "torch": PEER}
SYSTEM = "RNNsearch"
CLIP_NORM = 1.0
LEARNING_RATE = 0.001


def add_arguments(parser) -> None:
    """Adds this suite's sizes to its parser; the shared flags are there already."""
    sizes = parser.add_argument_group("sizes")
    for flag, default, text in (
        ("--batch", 64, "sentence pairs in a step"),
        ("--source-length", 20, "words of a source sentence"),
        ("--target-length", 20, "words of a target sentence"),
        ("--width", 256, "units of embedding, GRU, attention and maxout alike"),
        ("--vocabulary", 8000, "words in each of the two vocabularies"),
    ):
        add_number(sizes, flag, default, text)
    parser.add_argument(
        "--default-malloc",
        action="store_true",
        help="let the C library give freed memory back (default: every side keeps it, as "
        "`python -m examples train` does)",
    )
    parser.add_argument(
        "--sides",
        choices=SIDES,
        nargs="+",
        default=list(SIDES),
        help="which sides take part (default: all)",
    )


def run(arguments, command: str, progress) -> dict:
    """Measures all sides and returns the filled report."""
    options = {
        "batch": arguments.batch,
        "source_length": arguments.source_length,
        "target_length": arguments.target_length,
        "width": arguments.width,
        "vocabulary": arguments.vocabulary,
        "keep_memory": not arguments.default_malloc,
    }
    settings = {"system": SYSTEM, **options, "dtype": "float32", "threads": arguments.threads}
    title = (
        f"{SYSTEM} training step: batch {arguments.batch}, lengths {arguments.source_length} and "
        f"{arguments.target_length}, width {arguments.width}, vocabulary {arguments.vocabulary:,}, "
        f"float32, {arguments.threads} threads, median of {arguments.repeats} rounds"
    )
    report = reports.new_report("train", title, command, settings)
    wanted = {SIDES[side] for side in arguments.sides}
    results = measure_times(
        [case for case in cases(options) if case.name in wanted],
        arguments.repeats,
        threads=arguments.threads,
        warmup=arguments.warmup,
        progress=progress,
    )
    fill(report, results, tokens=arguments.batch * arguments.target_length)
    kept = "gives back" if arguments.default_malloc else "keeps"
    report["notes"].append(f"On every side the C library {kept} freed memory.")
    return report


def cases(options: dict) -> list[Case]:
    """Returns the sides in the order in which they take turns."""
    ours = "benchmarks.train:keras_side"
    return [
        Case(SIDES["xla"], ours, {**options, "jit_compile": True}),
        Case(SIDES["graph"], ours, {**options, "jit_compile": False}),
        Case(PEER, "benchmarks.train:torch_side", options, needs=("torch",)),
    ]


def fill(report: dict, results: dict[str, dict], tokens: int) -> None:
    """Writes the rows, the table's lines and the notes into `report`."""
    report["columns"] = ["side", "a step", "quartiles", "fastest", "target tokens/s"]
    report["columns"] += ["speed, PyTorch = 1", "first call"]
    peer = results.get(PEER, {}).get("median_seconds")
    for name, result in results.items():
        if "missing" in result:
            report["rows"].append({"name": name, "missing": result["missing"]})
            report["lines"].append([name, result["missing"]])
            report["notes"].append(f"Without {name} there is no ratio to compare.")
            continue
        median = result["median_seconds"]
        row = {
            "name": name,
            **result,
            "tokens_per_second": tokens / median,
            "speed_ratio": peer / median if peer else None,
        }
        report["rows"].append(row)
        report["lines"].append(
            [
                name,
                reports.seconds_text(median),
                reports.range_text(*result["quartile_seconds"]),
                reports.seconds_text(result["fastest_seconds"]),
                f"{row['tokens_per_second']:,.0f}",
                "-" if peer is None else f"{row['speed_ratio']:.2f}",
                reports.seconds_text(result["first_call_seconds"]),
            ]
        )
    report["notes"].append("The first call includes tracing and compiling.")


def example_batch(batch, source_length, target_length, vocabulary):
    """Returns ids `(source, target, labels)` of full sentences, the same on every side."""
    generator = np.random.default_rng(1)
    source = generator.integers(4, vocabulary, (batch, source_length), dtype="int32")
    labels = generator.integers(4, vocabulary, (batch, target_length), dtype="int32")
    source[:, -1] = labels[:, -1] = 3
    start = np.full((batch, 1), 2, "int32")
    return source, np.concatenate([start, labels[:, :-1]], axis=1), labels


def keras_side(
    batch, source_length, target_length, width, vocabulary, jit_compile, keep_memory=True
):
    """Returns a function that makes one training step with this project."""
    if keep_memory:
        keep_freed_memory()
    import keras
    import tensorflow as tf

    from examples.models import rnnsearch
    from examples.training.steps import TrainingStep

    keras.utils.set_random_seed(1)
    model = rnnsearch.build(
        vocabulary, vocabulary, units=width, embedding_dim=width, maxout_units=width
    )
    optimizer = keras.optimizers.Adam(LEARNING_RATE)
    step = TrainingStep(model, optimizer, clip_norm=CLIP_NORM, jit_compile=jit_compile)
    arrays = example_batch(batch, source_length, target_length, vocabulary)
    source, target, labels = (tf.constant(array) for array in arrays)

    def work():
        result = step({"source": source, "target": target}, labels)
        return float(result["loss_sum"]) / float(result["count"])

    return work


def torch_side(batch, source_length, target_length, width, vocabulary, keep_memory=True):
    """Returns a function that makes one training step with PyTorch in eager mode."""
    if keep_memory:
        keep_freed_memory()
    import os

    import torch

    from benchmarks.torch_rnnsearch import TorchRNNsearch, training_step

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.manual_seed(1)
    model = TorchRNNsearch(vocabulary, width)
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE, eps=1e-7, fused=True)
    arrays = example_batch(batch, source_length, target_length, vocabulary)
    source, target, labels = (torch.from_numpy(array.astype("int64")) for array in arrays)
    return lambda: training_step(model, optimizer, source, target, labels, CLIP_NORM)

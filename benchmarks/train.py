"""Speed of a training step: a system of the examples, ours and in PyTorch.

    python -m benchmarks train
    python -m benchmarks train --model transformer --dtypes float32 bfloat16
    python -m benchmarks train --model convs2s --repeats 31 --json train.json
    python -m benchmarks train --sides xla fit --steps 20 --shapes 3

A step is forward, backward, clipping by global norm and Adam, on a batch of full sentences (no
padding), the same ids on every side. Ours is the model of `examples.models` with a step written
by hand, `benchmarks.custom_step`, in graph mode and under XLA, or with `compile`, `fit` and the
callback `XLASteps`. The peers are
`benchmarks.torch_models`, the same functions (tests copy the weights and compare logits), in eager
mode and compiled by `torch.compile`. In bfloat16 ours has the policy `mixed_bfloat16` and PyTorch
autocast: products in bfloat16, weights and updates in float32. A token is a target token.

For orientation, on a machine of two cores with AVX512 the RNNsearch step of 28 GFLOP has a floor
near 0.12 s in float32; a plain version took 0.27 s under XLA and 0.35 s in eager PyTorch.
"""

import dataclasses
import statistics
from collections.abc import Callable

import numpy as np

from benchmarks import report as reports
from benchmarks.arguments import add_number
from benchmarks.harness import BenchmarkError, Case, measure_times, summary
from examples.memory import keep_freed_memory

REPEATS = 15
DTYPES = {"float32": "", "bfloat16": ", bfloat16"}
OURS = {"xla": "ours, XLA", "graph": "ours, graph", "fit": "ours, fit, XLA"}
PEERS = {"torch": "PyTorch, eager", "compiled": "PyTorch, compiled"}
PEER = PEERS["torch"]
CLIP_NORM = 1.0
LEARNING_RATE = 0.001


@dataclasses.dataclass(frozen=True)
class System:
    """A model that is measured.

    Attributes:
        title: Its name, with the sizes that no flag sets.
        ours: Callable of `(vocabulary, width, dtype)` that returns the Keras model.
        torch: Callable of `(vocabulary, width)` that returns the PyTorch module.
    """

    title: str
    ours: Callable
    torch: Callable


def our_rnnsearch(vocabulary, width, dtype):
    """Returns RNNsearch of `width` units throughout."""
    from examples.models import rnnsearch

    sizes = {"units": width, "embedding_dim": width, "maxout_units": width}
    return rnnsearch.build(vocabulary, vocabulary, **sizes, dtype=dtype)


def torch_rnnsearch(vocabulary, width):
    """Returns the same in PyTorch."""
    from benchmarks.torch_models.rnnsearch import TorchRNNsearch

    return TorchRNNsearch(vocabulary, width)


def our_transformer(vocabulary, width, dtype):
    """Returns a Transformer of 3 and 3 layers, 4 heads, an inner width of 4 times `width`."""
    from examples.models import transformer

    sizes = {"layers": 3, "units": width, "heads": 4, "feed_forward_dim": 4 * width}
    return transformer.build(vocabulary, vocabulary, **sizes, dropout=0.0, dtype=dtype)


def torch_transformer(vocabulary, width):
    """Returns the same in PyTorch."""
    from benchmarks.torch_models.transformer import TorchTransformer

    return TorchTransformer(vocabulary, width, heads=4, hidden=4 * width, layers=3)


def our_convs2s(vocabulary, width, dtype):
    """Returns ConvS2S of 4 and 4 blocks of kernel size 3."""
    from examples.models import convs2s

    sizes = {"embedding_dim": width, "units": width, "kernel_size": 3}
    sizes |= {"encoder_layers": 4, "decoder_layers": 4}
    return convs2s.build(vocabulary, vocabulary, **sizes, dropout=0.0, dtype=dtype)


def torch_convs2s(vocabulary, width):
    """Returns the same in PyTorch."""
    from benchmarks.torch_models.convs2s import TorchConvS2S

    return TorchConvS2S(vocabulary, width, layers=4, kernel=3)


SYSTEMS = {
    "rnnsearch": System("RNNsearch", our_rnnsearch, torch_rnnsearch),
    "transformer": System("Transformer, 3 + 3 layers, 4 heads", our_transformer, torch_transformer),
    "convs2s": System("ConvS2S, 4 + 4 blocks, kernel 3", our_convs2s, torch_convs2s),
}


def add_arguments(parser) -> None:
    """Adds this suite's sizes to its parser; the shared flags are there already."""
    parser.add_argument(
        "--model",
        dest="system",
        choices=SYSTEMS,
        default="rnnsearch",
        help="which model (default: %(default)s)",
    )
    sizes = parser.add_argument_group("sizes")
    for flag, default, text in (
        ("--batch", 64, "sentence pairs in a step"),
        ("--source-length", 20, "words of a source sentence"),
        ("--target-length", 20, "words of a target sentence"),
        ("--width", 256, "units of the embeddings and of all layers alike"),
        ("--vocabulary", 8000, "words in each of the two vocabularies"),
        ("--steps", 1, "steps in a measured call, which is one epoch of fit"),
        ("--shapes", 1, "lengths that take turns, each three words shorter than the one before"),
    ):
        add_number(sizes, flag, default, text)
    parser.add_argument(
        "--default-malloc",
        action="store_true",
        help="let the C library give freed memory back (default: every side keeps it, as "
        "`python -m examples train` does)",
    )
    parser.add_argument(
        "--dtypes",
        choices=DTYPES,
        nargs="+",
        default=["float32"],
        help="dtypes of the products; every side is measured in each (default: float32)",
    )
    parser.add_argument(
        "--sides",
        choices=[*OURS, *PEERS],
        nargs="+",
        default=["xla", "graph", "torch"],
        help="which sides take part (default: xla graph torch)",
    )


def run(arguments, command: str, progress) -> dict:
    """Measures all sides and returns the filled report."""
    options = {
        "system": arguments.system,
        "batch": arguments.batch,
        "source_length": arguments.source_length,
        "target_length": arguments.target_length,
        "width": arguments.width,
        "vocabulary": arguments.vocabulary,
        "steps": arguments.steps,
        "shapes": arguments.shapes,
        "keep_memory": not arguments.default_malloc,
    }
    shortest = min(arguments.source_length, arguments.target_length)
    if 3 * (arguments.shapes - 1) >= shortest:
        raise BenchmarkError(
            f"--shapes {arguments.shapes} needs sentences of more than {3 * arguments.shapes - 3} "
            f"words. Received: {shortest}"
        )
    title = SYSTEMS[arguments.system].title
    settings = {**options, "dtypes": arguments.dtypes, "threads": arguments.threads}
    title = (
        f"{title} training step: batch {arguments.batch}, lengths {arguments.source_length} and "
        f"{arguments.target_length}, width {arguments.width}, vocabulary {arguments.vocabulary:,}, "
        f"{arguments.threads} threads, median of {arguments.repeats} rounds"
    )
    report = reports.new_report("train", title, command, settings)
    results = measure_times(
        cases(options, arguments.sides, arguments.dtypes),
        arguments.repeats,
        threads=arguments.threads,
        warmup=arguments.warmup,
        progress=progress,
    )
    for result in results.values():
        if "seconds" in result and arguments.steps > 1:
            result["seconds"] = [seconds / arguments.steps for seconds in result["seconds"]]
            result.update(summary(result["seconds"]))
    length = statistics.mean(arguments.target_length - 3 * n for n in range(arguments.shapes))
    fill(report, results, tokens=arguments.batch * length)
    kept = "gives back" if arguments.default_malloc else "keeps"
    report["notes"].append(f"On every side the C library {kept} freed memory.")
    return report


def cases(options: dict, sides=("xla", "graph", "torch"), dtypes=("float32",)) -> list[Case]:
    """Returns the sides in the order in which they take turns."""
    found = []
    for dtype in dtypes:
        for side in sides:
            name = (OURS | PEERS)[side] + DTYPES[dtype]
            given = {**options, "dtype": dtype}
            if side in OURS:
                given["mode"] = side
                found.append(Case(name, "benchmarks.train:keras_side", given))
            else:
                given["compiled"] = side == "compiled"
                found.append(Case(name, "benchmarks.train:torch_side", given, needs=("torch",)))
    return found


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
    report["notes"] += best_against_best(results)
    report["notes"].append("The first call includes tracing and compiling.")


def best_against_best(results: dict[str, dict]) -> list[str]:
    """Returns a sentence for each kind of peer: its fastest dtype beside our fastest side."""

    def fastest(kinds):
        medians = {
            name: result["median_seconds"]
            for name, result in results.items()
            if name.startswith(tuple(kinds)) and "median_seconds" in result
        }
        return min(medians.items(), key=lambda item: item[1], default=None)

    ours, notes = fastest(OURS.values()), []
    for kind in PEERS.values():
        peer = fastest([kind])
        if ours and peer:
            ratio = peer[1] / ours[1]
            notes.append(
                f"The fastest of ours ({ours[0]}) is {ratio:.2f} times as fast as the "
                f"fastest of {kind} ({peer[0]})."
            )
    return notes


def example_batch(batch, source_length, target_length, vocabulary):
    """Returns ids `(source, target, labels)` of full sentences, the same on every side."""
    generator = np.random.default_rng(1)
    source = generator.integers(4, vocabulary, (batch, source_length), dtype="int32")
    labels = generator.integers(4, vocabulary, (batch, target_length), dtype="int32")
    source[:, -1] = labels[:, -1] = 3
    start = np.full((batch, 1), 2, "int32")
    return source, np.concatenate([start, labels[:, :-1]], axis=1), labels


def example_batches(batch, source_length, target_length, vocabulary, shapes, steps):
    """Returns the batches of `steps` steps; `shapes` lengths take turns."""
    lengths = [(source_length - 3 * n, target_length - 3 * n) for n in range(shapes)]
    different = [example_batch(batch, *pair, vocabulary) for pair in lengths]
    return [different[n % shapes] for n in range(steps)]


def keras_side(
    batch,
    source_length,
    target_length,
    width,
    vocabulary,
    mode="xla",
    keep_memory=True,
    system="rnnsearch",
    dtype="float32",
    steps=1,
    shapes=1,
):
    """Returns a function that makes `steps` training steps with this project."""
    if keep_memory:
        keep_freed_memory()
    import keras
    import tensorflow as tf

    from benchmarks.custom_step import CustomStep
    from keras_attention import TokenCrossentropy
    from keras_attention.callbacks import XLASteps

    keras.utils.set_random_seed(1)
    policy = None if dtype == "float32" else f"mixed_{dtype}"
    model = SYSTEMS[system].ours(vocabulary, width, policy)
    arrays = example_batches(batch, source_length, target_length, vocabulary, shapes, steps)
    batches = [
        ({"source": tf.constant(source), "target": tf.constant(target)}, tf.constant(labels))
        for source, target, labels in arrays
    ]
    if mode == "fit":
        optimizer = keras.optimizers.Adam(LEARNING_RATE, global_clipnorm=CLIP_NORM)
        model.compile(optimizer, TokenCrossentropy(), jit_compile=True)
        ids = tf.TensorSpec([None, None], "int32")
        specs = ({"source": ids, "target": ids}, ids)
        data = tf.data.Dataset.from_generator(lambda: batches, output_signature=specs)
        data = data.cache().prefetch(2)
        steps = XLASteps()
        return lambda: model.fit(data, verbose=0, callbacks=[steps]).history["loss"][0]

    optimizer = keras.optimizers.Adam(LEARNING_RATE)
    step = CustomStep(model, optimizer, CLIP_NORM, jit_compile=mode == "xla")

    def work():
        results = [step(inputs, labels) for inputs, labels in batches]
        return statistics.mean(float(loss) for loss, _ in results)

    return work


def torch_side(
    batch,
    source_length,
    target_length,
    width,
    vocabulary,
    compiled=False,
    keep_memory=True,
    system="rnnsearch",
    dtype="float32",
    steps=1,
    shapes=1,
):
    """Returns a function that makes `steps` training steps with PyTorch, eager or compiled."""
    if keep_memory:
        keep_freed_memory()
    import os

    import torch

    from benchmarks.torch_models.training import adam, make_step

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.manual_seed(1)
    model = SYSTEMS[system].torch(vocabulary, width)
    optimizer = adam(model, LEARNING_RATE)
    model = torch.compile(model) if compiled else model
    step = make_step(model, optimizer, CLIP_NORM, bfloat16=dtype == "bfloat16")
    arrays = example_batches(batch, source_length, target_length, vocabulary, shapes, steps)
    batches = [[torch.from_numpy(ids.astype("int64")) for ids in triple] for triple in arrays]
    return lambda: [step(*ids) for ids in batches][-1]

"""Speed of a training step: a system of the examples, ours and in PyTorch.

    python -m benchmarks train
    python -m benchmarks train --model transformer --dtypes float32 bfloat16
    python -m benchmarks train --model convs2s --repeats 31 --json train.json
    python -m benchmarks train --sides xla fit --steps 20 --shapes 3
    python -m benchmarks train --model han --sentences 50 --repeats 9

A step is forward, backward, clipping by global norm and Adam, on a full batch (no padding), the
same arrays on every side; `benchmarks.training_systems` has the models and their batches. Ours is
the model of `examples.models` with a step written by hand, `benchmarks.custom_step`, in graph mode
and under XLA, or with `compile`, `fit` and the callback `XLASteps`. The peers are
`benchmarks.torch_models`, the same functions (tests copy the weights and compare logits), in eager
mode and compiled by `torch.compile`. In bfloat16 ours has the policy `mixed_bfloat16` and PyTorch
autocast: products in bfloat16, weights and updates in float32.

For orientation, on a machine of two cores with AVX512 the RNNsearch step of 28 GFLOP has a floor
near 0.12 s in float32; a plain version took 0.27 s under XLA and 0.35 s in eager PyTorch.
"""

import statistics

from benchmarks import report as reports
from benchmarks.arguments import add_number, positive
from benchmarks.harness import BenchmarkError, Case, measure_times, summary
from benchmarks.training_systems import SYSTEMS
from examples.memory import keep_freed_memory

REPEATS = 15
DTYPES = {"float32": "", "bfloat16": ", bfloat16"}
OURS = {"xla": "ours, XLA", "graph": "ours, graph", "fit": "ours, fit, XLA"}
PEERS = {"torch": "PyTorch, eager", "compiled": "PyTorch, compiled"}
PEER = PEERS["torch"]
CLIP_NORM = 1.0
LEARNING_RATE = 0.001
SIZES = {
    "batch": "sentence pairs, images, documents or texts in a step",
    "source_length": "words of a source sentence, or of a document's sentence",
    "target_length": "words of a target sentence, of a caption or of a text",
    "sentences": "sentences of a document",
    "side": "points on a side of an image",
    "width": "units of the embeddings and of all layers alike, or what these are fractions of",
    "vocabulary": "words in each vocabulary",
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
    sizes = parser.add_argument_group("sizes", "Each model has its own defaults.")
    for name, text in SIZES.items():
        help_text = f"{text} (default: {_list_defaults(name)})"
        sizes.add_argument(
            f"--{name.replace('_', '-')}", type=positive, metavar="N", help=help_text
        )
    for flag, default, text in (
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


def _list_defaults(name):
    """Returns the defaults of a size, each with the models that have it."""
    found: dict[int, list[str]] = {}
    for system, row in SYSTEMS.items():
        if name in row.sizes:
            found.setdefault(row.sizes[name], []).append(system)
    return "; ".join(f"{size} of {', '.join(systems)}" for size, systems in found.items())


def run(arguments, command: str, progress) -> dict:
    """Measures all sides and returns the filled report."""
    system = SYSTEMS[arguments.system]
    sizes = system.choose_sizes({name: getattr(arguments, name) for name in SIZES})
    shapes = shorten(sizes, arguments.shapes)
    options = {
        "system": arguments.system,
        **sizes,
        "steps": arguments.steps,
        "shapes": arguments.shapes,
        "keep_memory": not arguments.default_malloc,
    }
    settings = {**options, "dtypes": arguments.dtypes, "threads": arguments.threads}
    listed = ", ".join(f"{name.replace('_', ' ')} {size:,}" for name, size in sizes.items())
    title = (
        f"{system.title}, training step: {listed}, {arguments.threads} threads, median of "
        f"{arguments.repeats} rounds"
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
    fill(report, results, statistics.mean(map(system.count, shapes)), system.unit)
    kept = "gives back" if arguments.default_malloc else "keeps"
    report["notes"].append(f"On every side the C library {kept} freed memory.")
    return report


def shorten(sizes: dict[str, int], shapes: int) -> list[dict[str, int]]:
    """Returns the sizes of `shapes` batches, each three words shorter than the one before.

    Raises:
        BenchmarkError: If no word would be left.
    """
    lengths = {name: size for name, size in sizes.items() if name.endswith("_length")}
    if 3 * (shapes - 1) >= min(lengths.values()):
        raise BenchmarkError(
            f"--shapes {shapes} needs sentences of more than {3 * shapes - 3} words. "
            f"Received: {min(lengths.values())}"
        )
    return [
        {**sizes, **{name: length - 3 * n for name, length in lengths.items()}}
        for n in range(shapes)
    ]


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


def fill(report: dict, results: dict[str, dict], tokens: float, unit: str) -> None:
    """Writes the rows, the table's lines and the notes into `report`."""
    report["columns"] = ["side", "a step", "quartiles", "fastest", f"{unit}/s"]
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


def example_batches(system: str, sizes: dict[str, int], shapes: int, steps: int):
    """Returns the batches of `steps` steps; `shapes` lengths take turns."""
    different = [SYSTEMS[system].batch(each) for each in shorten(sizes, shapes)]
    return [different[n % shapes] for n in range(steps)]


def _any_length(tensor):
    """Returns the spec of a tensor with axes of any size, but for an image's sides and channels."""
    import tensorflow as tf

    shape = tensor.shape[1:] if tensor.dtype.is_floating else [None] * (tensor.shape.rank - 1)
    return tf.TensorSpec([None, *shape], tensor.dtype)


def keras_side(
    mode="xla",
    keep_memory=True,
    system="rnnsearch",
    dtype="float32",
    steps=1,
    shapes=1,
    **sizes,
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
    model, ignored = SYSTEMS[system].ours(sizes, policy), SYSTEMS[system].ignore_class
    batches = keras.tree.map_structure(tf.constant, example_batches(system, sizes, shapes, steps))
    if mode == "fit":
        optimizer = keras.optimizers.Adam(LEARNING_RATE, global_clipnorm=CLIP_NORM)
        classes = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        loss = TokenCrossentropy() if ignored == 0 else classes
        loss = {"logits": loss} if isinstance(model.output, dict) else loss
        model.compile(optimizer, loss, jit_compile=True)
        specs = keras.tree.map_structure(_any_length, batches[0])
        data = tf.data.Dataset.from_generator(lambda: batches, output_signature=specs)
        data = data.cache().prefetch(2)
        steps = XLASteps()
        return lambda: model.fit(data, verbose=0, callbacks=[steps]).history["loss"][0]

    optimizer = keras.optimizers.Adam(LEARNING_RATE)
    step = CustomStep(model, optimizer, CLIP_NORM, jit_compile=mode == "xla", ignore_class=ignored)

    def work():
        results = [step(inputs, labels) for inputs, labels in batches]
        return statistics.mean(float(loss) for loss, _ in results)

    return work


def torch_side(
    compiled=False,
    keep_memory=True,
    system="rnnsearch",
    dtype="float32",
    steps=1,
    shapes=1,
    **sizes,
):
    """Returns a function that makes `steps` training steps with PyTorch, eager or compiled."""
    if keep_memory:
        keep_freed_memory()
    import os

    import torch

    from benchmarks.torch_models.training import adam, as_tensors, make_step

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.manual_seed(1)
    model, ignored = SYSTEMS[system].torch(sizes), SYSTEMS[system].ignore_class
    optimizer = adam(model, LEARNING_RATE)
    model = torch.compile(model) if compiled else model
    step = make_step(model, optimizer, CLIP_NORM, dtype == "bfloat16", ignored)
    batches = [as_tensors(*batch) for batch in example_batches(system, sizes, shapes, steps)]
    return lambda: [step(*batch) for batch in batches][-1]

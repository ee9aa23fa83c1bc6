"""Speed of a training step of the Neural Turing Machine, and how it grows.

    python -m benchmarks ntm
    python -m benchmarks ntm --batches 32 --no-growth --repeats 31
    python -m benchmarks ntm --batches --growth-slots 128 4096 --growth-lengths 20

The task is copying, at the paper's sizes: memory 128 x 20, an LSTM of 100 units, one read and one
write head, 20 vectors and so 41 time steps of 9 inputs. A step is forward, backward, clipping of
every element to [-10, 10] and centered RMSProp, in float32, on the same batch on every side. Ours
is `NTM` in a functional model; the peers in `benchmarks/torch_models/ntm.py` are the same function,
written plainly and tuned (a test copies the weights and compares logits); an LSTM of 256 units is
the floor, a network that has no memory to look at. Two epsilons differ: Keras adds 1e-4 inside the
root of RMSProp, PyTorch its square root outside. The work is the same.

The growing part measures ours under XLA, for more slots at the first length and for longer
sequences at the first number of slots. Extra memory is the peak resident set of a fresh process
minus what it held before the first call; some 400 MB of it are what the compiler used and the C
library kept. So the table also says what each further slot or vector takes, in time and in
memory: those columns stay level where growth is linear.
"""

import numpy as np

from benchmarks import report as reports
from benchmarks.arguments import add_number, positive
from benchmarks.harness import Case, measure_memory, measure_times
from examples.memory import keep_freed_memory

REPEATS = 15
#: Units of the sizes that the growing part changes.
GROWTH_UNITS = {"memory_size": "slots", "length": "vectors"}
PEER, TUNED, COMPILED = "PyTorch, eager", "PyTorch, eager, tuned", "PyTorch, compiled"
SIDES = {
    "xla": "ours, XLA",
    "graph": "ours, graph",
    "torch": PEER,
    "tuned": TUNED,
    "compiled": COMPILED,
    "lstm": "Keras LSTM(256), XLA",
}
DEFAULT_SIDES = ("xla", "graph", "torch", "tuned", "lstm")
BITS = 8
LEARNING_RATE, CLIP, RHO, MOMENTUM, EPSILON = 1e-4, 10.0, 0.95, 0.9, 1e-4


def add_arguments(parser) -> None:
    """Adds this suite's flags to its parser; the shared ones are there already."""
    sizes = parser.add_argument_group("sizes")
    for flag, default, text in (
        ("--length", 20, "vectors to copy; a sequence is twice as long and 1"),
        ("--memory-size", 128, "memory slots"),
        ("--word-size", 20, "numbers in a slot"),
        ("--units", 100, "units of the controller, an LSTM"),
        ("--floor-units", 256, "units of the LSTM without a memory"),
        ("--growth-batch", 4, "sequences in a step of the growing part"),
    ):
        add_number(sizes, flag, default, text)
    for flag, default, text in (
        ("--batches", [1, 32], "sequences in a step, one comparison each; none to leave it out"),
        ("--growth-slots", [128, 512, 2048, 4096], "slots of the growing part"),
        ("--growth-lengths", [20, 80, 320], "vectors of the growing part"),
    ):
        sizes.add_argument(
            flag,
            type=positive,
            nargs="*",
            default=default,
            metavar="N",
            help=f"{text} (default: {' '.join(map(str, default))})",
        )
    parser.add_argument(
        "--sides",
        choices=SIDES,
        nargs="+",
        default=list(DEFAULT_SIDES),
        help="which sides take part (default: all but compiled, which needs a C++ compiler and "
        "minutes)",
    )
    add_number(parser, "--memory-repeats", 3, "fresh processes a side; the memory is their median")
    parser.add_argument("--no-memory", action="store_true", help="measure time only")
    parser.add_argument("--no-growth", action="store_true", help="leave the growing part out")


def run(arguments, command: str, progress) -> dict:
    """Measures one batch size after the other, then growth, and returns the filled report."""
    names = ("length", "memory_size", "word_size", "units")
    options = {name: getattr(arguments, name) for name in names}
    settings = {**options, "batches": arguments.batches, "floor_units": arguments.floor_units}
    settings |= {"dtype": "float32", "threads": arguments.threads}
    title = (
        f"Neural Turing Machine, training step: memory {arguments.memory_size} x "
        f"{arguments.word_size}, "
        f"LSTM {arguments.units}, length {arguments.length}, float32, {arguments.threads} threads, "
        f"median of {arguments.repeats} rounds"
    )
    report = reports.new_report("ntm", title, command, settings)
    report["columns"] = ["side", "a step", "quartiles", "steps/s", "speed, PyTorch = 1"]
    report["columns"] += ["time, first = 1", "a further one", "extra memory", "a further one"]
    report["columns"] += ["first call"]

    def times(sides):
        return measure_times(
            sides,
            arguments.repeats,
            threads=arguments.threads,
            warmup=arguments.warmup,
            progress=progress,
        )

    for batch in dict.fromkeys(arguments.batches):
        sides = cases({**options, "batch": batch}, arguments.sides, arguments.floor_units)
        fill(report, batch, times(sides))
    for kind in () if arguments.no_growth else ("memory_size", "length"):
        sizes = arguments.growth_slots if kind == "memory_size" else arguments.growth_lengths
        sides = growth_cases({**options, "batch": arguments.growth_batch}, kind, sizes)
        memory = {}
        if sides and not arguments.no_memory:
            memory = measure_memory(
                sides, arguments.memory_repeats, threads=arguments.threads, progress=progress
            )
        fill_growth(report, kind, sides, times(sides), memory)
    report["notes"].append("On every side the C library keeps freed memory.")
    report["notes"].append("The first call includes tracing and compiling.")
    return report


def cases(options: dict, wanted, floor_units: int) -> list[Case]:
    """Returns the sides of one batch size in the order in which they take turns."""
    ours, theirs = "benchmarks.ntm:keras_side", "benchmarks.ntm:torch_side"
    needs = {"needs": ("torch",)}
    floor = {**options, "floor_units": floor_units}
    sides = {
        "xla": Case(SIDES["xla"], ours, {**options, "jit_compile": True}),
        "graph": Case(SIDES["graph"], ours, {**options, "jit_compile": False}),
        "torch": Case(PEER, theirs, options, **needs),
        "tuned": Case(TUNED, theirs, {**options, "tuned": True}, **needs),
        "compiled": Case(COMPILED, theirs, {**options, "tuned": True, "compiled": True}, **needs),
        "lstm": Case(f"Keras LSTM({floor_units}), XLA", ours, {**floor, "jit_compile": True}),
    }
    return [side for name, side in sides.items() if name in wanted]


def growth_cases(options: dict, kind: str, sizes) -> list[Case]:
    """Returns ours under XLA for every size, the smallest first."""
    word = GROWTH_UNITS[kind]
    return [
        Case(
            f"ours, XLA, {size:,} {word}",
            "benchmarks.ntm:keras_side",
            {**options, kind: size, "jit_compile": True},
        )
        for size in sorted(set(sizes))
    ]


def fill(report: dict, batch: int, results: dict[str, dict]) -> None:
    """Adds the rows and the table's lines of one batch size to `report`."""
    peer = results.get(PEER, {}).get("median_seconds")
    for side, result in results.items():
        row = {"name": f"batch {batch}, {side}", **result}
        report["rows"].append(row)
        if "missing" in result:
            report["lines"].append([row["name"], result["missing"]])
            continue
        median = row["median_seconds"]
        row |= {"steps_per_second": 1 / median, "speed_ratio": peer / median if peer else None}
        report["lines"].append(_line(row))


def fill_growth(report: dict, kind: str, sides: list[Case], times: dict, memory: dict) -> None:
    """Adds the rows and the table's lines of one kind of growth to `report`."""
    before = first = None
    for side in sides:
        row = {"name": side.name, **times[side.name], **memory.get(side.name, {})}
        row["size"] = side.options[kind]
        row["steps_per_second"] = 1 / row["median_seconds"]
        first = first or row
        row["size_ratio"] = row["size"] / first["size"]
        for found, name in (("median_seconds", "time"), ("median_extra_bytes", "memory")):
            if found in row:
                row[f"{name}_ratio"] = row[found] / first[found] if first[found] > 0 else None
                if before:
                    more = row["size"] - before["size"]
                    row[f"{name}_of_a_further_one"] = (row[found] - before[found]) / more
        report["rows"].append(row)
        report["lines"].append(_line(row))
        before = row
    if len(sides) > 1:
        report["notes"].append(
            f"Growing like the {GROWTH_UNITS[kind]} would be {row['size_ratio']:.4g} at the end."
        )


def _line(row):
    def cell(name, text):
        return "-" if row.get(name) is None else text(row[name])

    return [
        row["name"],
        reports.seconds_text(row["median_seconds"]),
        reports.range_text(*row["quartile_seconds"]),
        f"{row['steps_per_second']:,.1f}",
        cell("speed_ratio", "{:.2f}".format),
        cell("time_ratio", "{:.2f}".format),
        cell("time_of_a_further_one", lambda seconds: f"{seconds * 1e6:.1f} us"),
        cell("median_extra_bytes", reports.bytes_text),
        cell("memory_of_a_further_one", lambda count: f"{count / 1e3:.1f} kB"),
        reports.seconds_text(row["first_call_seconds"]),
    ]


def example_batch(batch: int, length: int):
    """Returns inputs and targets of copying, the same on every side.

    Inputs `(batch, 2 * length + 1, BITS + 1)`: the bits, a step that carries a flag on the last
    channel, and blanks while the targets `(batch, length, BITS)`, the same bits, are due.
    """
    bits = np.random.default_rng(1).integers(0, 2, (batch, length, BITS))
    inputs = np.zeros((batch, 2 * length + 1, BITS + 1), "float32")
    inputs[:, :length, :BITS] = bits
    inputs[:, length, BITS] = 1
    return inputs, bits.astype("float32")


def build_model(length, memory_size, word_size, units, floor_units=None):
    """Returns our machine, or the LSTM that is the floor, as a model that gives logits."""
    import keras

    from keras_attention.ntm import NTM, NTMCell

    inputs = keras.Input((2 * length + 1, BITS + 1))
    if floor_units is None:
        controller = keras.layers.LSTMCell(units)
        layer = NTM(NTMCell(BITS, memory_size, word_size, controller, activation=None))
        return keras.Model(inputs, layer(inputs))
    cell = keras.layers.LSTMCell(floor_units)
    hidden = keras.layers.RNN(cell, return_sequences=True)(inputs)
    return keras.Model(inputs, keras.layers.Dense(BITS)(hidden))


def keras_side(batch, length, memory_size, word_size, units, jit_compile, floor_units=None):
    """Returns a function that makes one training step with Keras."""
    keep_freed_memory()
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(1)
    model = build_model(length, memory_size, word_size, units, floor_units)
    optimizer = keras.optimizers.RMSprop(
        LEARNING_RATE, RHO, MOMENTUM, EPSILON, centered=True, clipvalue=CLIP
    )
    optimizer.build(model.trainable_variables)
    inputs, targets = (tf.constant(array) for array in example_batch(batch, length))

    @tf.function(jit_compile=jit_compile)
    def step(inputs, targets):
        with tf.GradientTape() as tape:
            logits = model(inputs, training=True)[:, -length:]
            loss = keras.ops.mean(keras.ops.binary_crossentropy(targets, logits, from_logits=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    return lambda: float(step(inputs, targets))


def torch_side(batch, length, memory_size, word_size, units, tuned=False, compiled=False):
    """Returns a function that makes one training step with PyTorch."""
    keep_freed_memory()
    import os

    import torch

    from benchmarks.torch_models.ntm import PlainNTM, TorchNTM, train_step

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.manual_seed(1)
    model = (TorchNTM if tuned else PlainNTM)(BITS + 1, BITS, units, memory_size, word_size)
    optimizer = torch.optim.RMSprop(
        model.parameters(), LEARNING_RATE, RHO, EPSILON**0.5, momentum=MOMENTUM, centered=True
    )
    if compiled:
        model.step = torch.compile(model.step)
    inputs, targets = (torch.from_numpy(array) for array in example_batch(batch, length))
    return lambda: train_step(model, optimizer, inputs, targets, CLIP)

"""`python -m examples plot` for the tasks of the Neural Turing Machine."""

import pathlib

from examples.algorithms.opened import open_run
from examples.algorithms.options import add_sizes, sizes_of
from examples.algorithms.train import TEST_SEED
from examples.commands import arguments as shared
from examples.tasks.streams import Stream
from keras_attention import plotting

SUMMARY = "draw what a model writes, and where its heads look"
EPILOG = """\
examples:
  python -m examples plot runs/copy --output-dir pictures
  python -m examples plot runs/copy --output-dir pictures --size length=120

Writes outputs.png, the targets above the outputs for several sizes (the largest it was trained
on, and beyond), and, for a machine with a memory, memory_1.png, memory_2.png, ...: the weights
of the heads over time.
"""
BEYOND = (1.0, 1.5, 2.5, 6.0)


def add_arguments(parser) -> None:
    """Adds the options of `plot`."""
    shared.add_run(parser)
    add_sizes(parser)
    parser.add_argument(
        "--output-dir", required=True, metavar="DIR", help="directory for the pictures"
    )


def run(arguments) -> None:
    """Writes the pictures and says where."""
    opened = open_run(arguments.run)
    given = sizes_of(arguments.size, opened.task)
    directory = pathlib.Path(arguments.output_dir)
    directory.mkdir(parents=True, exist_ok=True)
    drawn = [given] if given else _sizes(opened)
    examples = [_example(opened, sizes) for sizes in drawn]
    outputs = [opened.outputs(example.inputs) for example in examples]
    titles = [", ".join(f"{name} {ends[1]}" for name, ends in sizes.items()) for sizes in drawn]
    due = [example.due[0] > 0 for example in examples]
    figure = plotting.plot_bits(
        [example.targets[0][kept] for example, kept in zip(examples, due, strict=True)],
        [output[0][kept] for output, kept in zip(outputs, due, strict=True)],
        titles=titles,
    )
    _save(figure, directory / "outputs.png")
    for number, (example, output, title) in enumerate(
        zip(examples, outputs, titles, strict=True), 1
    ):
        history = opened.history(example.inputs)
        if history is None:
            continue
        figure = plotting.plot_memory_use(
            example.inputs[0],
            output[0] * example.due[0][:, None],
            history["write_weights"][0],
            history["read_weights"][0],
            memory_matrix=history["memory"][0, -1],
            title=f"{opened.task.title}: {title}",
        )
        _save(figure, directory / f"memory_{number}.png")


def _sizes(opened):
    """The sizes to draw: the largest of training, and larger ones."""
    found = []
    for factor in BEYOND:
        sizes = {name: (round(high * factor),) * 2 for name, (_, high) in opened.sizes.items()}
        try:
            opened.task.time(**{name: ends[0] for name, ends in sizes.items()})
        except ValueError:
            continue
        found.append(sizes)
    return found


def _example(opened, sizes):
    return Stream(opened.task, 1, 1, TEST_SEED, **sizes).example(1, 0)


def _save(figure, path):
    figure.savefig(path, dpi=150)
    print(path)

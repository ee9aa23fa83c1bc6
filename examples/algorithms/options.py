"""What `python -m examples train` asks for a task of the Neural Turing Machine."""

from examples.commands import arguments as shared
from examples.tasks import TASKS

#: Appended for a look at whether everything runs: nothing is learned in so little time.
QUICK_TRAINING = "--epochs 1 --epoch-size 20 --no-xla"
QUICK_EVALUATION = "--sequences 8"
DESCRIPTION = "It learns an algorithm from random sequences, made while it trains."
EPILOG = """\
examples:
  the copy task, in a minute or two of training:
    python -m examples train {0} --task copy --run runs/copy
  as the paper trains it, one sequence at a time:
    python -m examples train {0} --task copy --run runs/paper --batch-size 1 \\
        --optimizer rmsprop --learning-rate 1e-4
  short sequences first, and only up to 10:
    python -m examples train {0} --task copy --run runs/short --size length=1:10 --curriculum 10
  until it makes hardly an error:
    python -m examples train {0} --task repeat-copy --run runs/repeat --epochs 500 \\
        --stop-at-metric 0.05
"""
OPTIMIZERS = ("adam", "rmsprop")


def add_data(parser) -> None:
    """Adds the options of the data."""
    data = parser.add_argument_group("the task")
    data.add_argument(
        "--task", choices=tuple(TASKS), default="copy", help="what to learn (default: %(default)s)"
    )
    add_sizes(data)
    shared.number(
        data,
        "--curriculum",
        None,
        "begin with the smallest sizes and reach the full range after N epochs "
        "(default: the full range at once)",
    )
    shared.number(data, "--batch-size", 2, "sequences in a batch, all of one length")
    shared.number(data, "--epoch-size", 1000, "sequences in an epoch, after which it is measured")
    shared.number(data, "--num-buckets", 2, "lengths to pad to; each is compiled once")


def add_sizes(group) -> None:
    """Adds `--size`, which may be given for each size of a task."""
    sizes = ", ".join(f"{name}: {' '.join(task.sizes)}" for name, task in TASKS.items())
    group.add_argument(
        "--size",
        action="append",
        default=[],
        metavar="NAME=LOW:HIGH",
        help=f"range of a size (default: the paper's; {sizes})",
    )


def add_training(training) -> None:
    """Adds the options of the training that only these tasks have, or with other defaults."""
    shared.number(training, "--epochs", 30, "epochs at most")
    training.add_argument(
        "--monitor",
        choices=("bits", "bit_error"),
        default="bits",
        help="what decides which weights are best: bits a sequence, or the share of wrong bits "
        "(default: %(default)s)",
    )
    training.add_argument(
        "--optimizer",
        choices=OPTIMIZERS,
        default="adam",
        help="rmsprop is that of Graves 2013: centred, with momentum (default: %(default)s)",
    )
    shared.number(training, "--learning-rate", 2e-3, "its rate", shared.positive_number)
    shared.number(
        training,
        "--clip-norm",
        0.0,
        "largest norm of the gradient, instead of --clip-value; 0 for none",
        shared.not_negative,
    )
    shared.number(
        training,
        "--clip-value",
        10.0,
        "largest absolute value of an element of the gradient, as in the paper; 0 for none",
        shared.not_negative,
    )


def sizes_of(texts: list[str], task) -> dict[str, tuple[int, int]]:
    """Returns the sizes that `--size` gave, by name.

    Raises:
        UsageError: If one is not `NAME=LOW:HIGH` or `NAME=N`, or the task has no such size.
    """
    sizes = {}
    for text in texts:
        name, _, ends = text.partition("=")
        low, _, high = ends.partition(":")
        try:
            sizes[name] = (int(low), int(high or low))
            task.ranges(**{name: sizes[name]})
        except ValueError as error:
            known = " or ".join(f"{known}=1:9" for known in task.sizes)
            detail = f" {error}" if name in task.sizes and low.isdigit() else ""
            raise shared.UsageError(
                f"--size expects a range such as {known} for the task {task.name}.{detail} "
                f"Received: --size {text}"
            ) from None
    return sizes

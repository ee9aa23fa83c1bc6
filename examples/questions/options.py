"""What `python -m examples train` asks for question answering over stories."""

import argparse

from examples.commands import arguments as shared
from examples.commands.arguments import UsageError
from examples.questions.stories import JOINT

#: Appended for a look at whether everything runs: nothing is learned in so little time.
QUICK_TRAINING = "--epochs 1 --no-xla"
QUICK_EVALUATION = ""
DESCRIPTION = (
    "It reads stories with questions, the bAbI tasks or yours in their format; of each task every "
    "tenth training story is held out as dev data."
)
EPILOG = """\
examples:
  the first bAbI task, from the archive as it is, or from the folder it holds:
    python -m examples train {0} --stories babi_en_1k.tar.xz --task 1 --run runs/task1
    python -m examples train {0} --stories tasks_1-20_v1-2/en --task 1 --run runs/task1
  from the official archive, which has them in six folders (en, en-10k, hn, shuffled, ...):
    python -m examples train {0} --stories tasks_1-20_v1-2.tar.gz:en --task 1 --run runs/task1
  all tasks together, larger, as the paper has it, by the schedule of its authors' code:
    python -m examples train {0} --stories babi_en_1k.tar.xz --units 50 --epochs 90 \\
        --lr-decay-every 15 --learning-rate 0.005 --linear-epochs 30 --linear-patience 30 \\
        --run runs/joint
  your own stories:
    python -m examples train {0} --stories mine.txt --run runs/mine
"""
#: The names of the optimizers and their rates.
OPTIMIZERS = {"sgd": 0.01, "adam": 1e-3}


def task(text: str) -> str:
    """The type of `--task`: a number, or "joint"."""
    if text == JOINT or (text.isdecimal() and int(text)):
        return text if text == JOINT else str(int(text))
    raise argparse.ArgumentTypeError(f"expected the number of a task, or joint, got {text!r}")


def add_data(parser) -> None:
    """Adds the options of the data."""
    data = parser.add_argument_group("data")
    data.add_argument(
        "--stories",
        nargs="+",
        metavar="PATH",
        help="folder or tar archive of the bAbI tasks, ARCHIVE:FOLDER where it has them in several "
        "folders, or files of stories in their format",
    )
    data.add_argument(
        "--task",
        type=task,
        default=JOINT,
        metavar="N",
        help="number of a task, or joint for all there are (default: %(default)s)",
    )
    shared.number(data, "--batch-size", 32, "questions in a batch")


def add_training(training) -> None:
    """Adds the options of the training that only these systems have, or with other defaults."""
    shared.number(training, "--epochs", 120, "epochs at most, the linear start counted")
    training.add_argument(
        "--monitor",
        choices=("choice", "error", "crossentropy"),
        default="choice",
        help="what decides which weights are best on the dev data: the answers that are wrong, "
        "or their cross-entropy; choice is the error, then the cross-entropy, and never weights "
        "without softmax "
        "(default: %(default)s)",
    )
    training.add_argument(
        "--linear-start",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="begin without the softmax over memories (default: on)",
    )
    shared.number(
        training, "--linear-epochs", 20, "epochs after which the softmax comes back at the latest"
    )
    shared.number(
        training, "--linear-patience", 5, "or after N epochs that did not lower the dev loss"
    )
    training.add_argument(
        "--optimizer",
        choices=tuple(OPTIMIZERS),
        default="sgd",
        help="sgd descends the cost summed over a batch, as the paper does (default: %(default)s)",
    )
    shared.number(
        training,
        "--learning-rate",
        None,
        "its rate; half as much during the linear start "
        f"(default: {', '.join(f'{name} {rate:g}' for name, rate in OPTIMIZERS.items())})",
        shared.positive_number,
    )
    text = "epochs with softmax after which the rate is halved, again and again"
    shared.number(training, "--lr-decay-every", 25, text)
    shared.number(
        training,
        "--clip-norm",
        40.0,
        "largest norm of the gradient, 0 for any: of each matrix for sgd, of all together for adam",
        shared.not_negative,
    )


def check(arguments: argparse.Namespace) -> None:
    """Raises `UsageError` if options do not go together."""
    if not arguments.stories:
        raise UsageError(
            "There is nothing to read. Name the bAbI tasks, a folder or a tar archive, or files "
            "in their format, with --stories."
        )
    if arguments.linear_start and arguments.monitor != "choice":
        raise UsageError(
            "A linear start needs --monitor choice, or the best weights might be some without "
            "softmax. Leave --monitor out, or add --no-linear-start. "
            f"Received: --monitor {arguments.monitor}"
        )

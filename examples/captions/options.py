"""What `python -m examples train` asks for a captioner of scenes."""

import argparse

from examples.captions.scenes import LARGEST_GRID
from examples.commands import arguments as shared
from examples.commands.arguments import UsageError
from examples.models.encoders.picture import find_backbone

#: Appended for a look at whether everything runs: nothing is learned in so little time.
QUICK_TRAINING = "--epochs 1 --epoch-size 64 --no-xla"
QUICK_EVALUATION = "--scenes 64"
DESCRIPTION = (
    "It learns to caption scenes of handwritten digits, which are composed from the pictures of "
    "MNIST while it trains; the last 5,000 training pictures are held out for dev scenes."
)
EPILOG = """\
examples:
  the four files of MNIST in a folder, as they are published:
    python -m examples train {0} --mnist mnist --run runs/captions
  hard attention, which draws where it looks and learns by REINFORCE:
    python -m examples train show-attend-tell --mnist mnist --attention hard --run runs/hard
  a network of keras.applications with your weights, not trained further:
    python -m examples train {0} --mnist mnist --backbone VGG16 --backbone-weights \\
        vgg16_notop.weights.h5 --run runs/vgg

What is minimized is the mean loss of a word, plus --doubly-stochastic, or --reinforce and
--entropy, times means over captions. The paper weighs these against the sum over a caption's
words: divide its lambdas by the mean number of words of a caption, the end mark counted. Its
penalty of 1 is --doubly-stochastic 0.25 for --digits 2:4, which are 4 words in the mean.
"""
GUIDED_EPILOG = """\
examples:
  a captioner learns to see digits; then a sentence says which of them the caption is about:
    python -m examples train show-attend-tell --mnist mnist --run runs/captions
    python -m examples train {0} --mnist mnist --pictures-from runs/captions --run runs/guided
  more digits on a scene:
    python -m examples train show-attend-tell --mnist mnist --digits 2:6 --run runs/full
    python -m examples train {0} --mnist mnist --digits 1:6 \\
        --pictures-from runs/full --run runs/guided-full

Some scenes need to hold a single digit: from those it learns where to look. What is minimized is
the mean loss of a word, less --entropy times the mean entropy of a caption's look.
"""
EPILOGS = {"text-guided": GUIDED_EPILOG}


def digits(text: str) -> str:
    """The type of `--digits`: `LOW:HIGH`, or one number; returned as `LOW:HIGH`."""
    low, _, high = text.partition(":")
    try:
        low, high = int(low), int(high or low)
    except ValueError:
        low = high = 0
    if not 1 <= low <= high:
        raise argparse.ArgumentTypeError(f"expected a range such as 2:4, got {text!r}")
    return f"{low}:{high}"


def digits_of(text: str) -> tuple[int, int]:
    """Returns the fewest and the most digits that `--digits` gave.

    Example:

    >>> digits_of("2:4")
    (2, 4)
    """
    low, high = text.split(":")
    return int(low), int(high)


def add_data(parser) -> None:
    """Adds the options of the data."""
    data = parser.add_argument_group("data")
    data.add_argument(
        "--mnist", metavar="DIR", help="folder of the four IDX files of MNIST, gzipped or not"
    )
    data.add_argument(
        "--grid",
        type=int,
        choices=range(1, LARGEST_GRID + 1),
        default=3,
        help="cells on a side of a scene; a digit is in one of them (default: %(default)s)",
    )
    data.add_argument(
        "--digits",
        type=digits,
        default="2:4",
        metavar="LOW:HIGH",
        help="digits on a scene (default: %(default)s)",
    )
    shared.number(data, "--batch-size", 64, "scenes in a batch")
    shared.number(data, "--epoch-size", 6400, "scenes in an epoch, after which it is measured")
    shared.number(data, "--dev-size", 1024, "dev scenes")


def add_training(training) -> None:
    """Adds the options of the training that only these systems have, or with other defaults."""
    shared.number(training, "--epochs", 16, "epochs at most")
    training.add_argument(
        "--pictures-from",
        metavar="RUN",
        help="run of another captioner whose picture network this one begins with (default: a "
        "random one)",
    )
    training.add_argument(
        "--monitor",
        choices=("perplexity", "accuracy", "located"),
        default="perplexity",
        help="what decides which weights are best on the dev scenes: the perplexity, the words "
        "that are right, or looks at the right place (default: %(default)s)",
    )
    shared.number(training, "--learning-rate", 2e-3, "Adam's first rate", shared.positive_number)
    shared.number(training, "--lr-decay-start", 10, "epochs after which the rate is halved")
    shared.number(training, "--lr-decay-every", 2, "epochs from one halving to the next")
    text = "largest norm of the gradient, 0 for any"
    shared.number(training, "--clip-norm", 5.0, text, shared.not_negative)


def check(arguments: argparse.Namespace) -> None:
    """Raises `UsageError` if options do not go together."""
    if not arguments.mnist:
        raise UsageError("There is nothing to read. Name the folder of MNIST with --mnist.")
    most = arguments.grid**2
    if digits_of(arguments.digits)[1] > most:
        raise UsageError(
            f"A scene of {arguments.grid} x {arguments.grid} cells holds at most {most} digits. "
            f"Received: --digits {arguments.digits}"
        )
    if arguments.epoch_size < arguments.batch_size or arguments.dev_size < arguments.batch_size:
        raise UsageError(
            "An epoch and the dev scenes hold at least one batch. Lower --batch-size. Received: "
            f"--batch-size {arguments.batch_size} --epoch-size {arguments.epoch_size} --dev-size "
            f"{arguments.dev_size}"
        )
    if arguments.backbone is None and arguments.backbone_weights:
        raise UsageError("--backbone-weights are those of a --backbone. Name it.")
    if arguments.backbone is not None:
        try:
            find_backbone(arguments.backbone)
        except ValueError as error:
            raise UsageError(str(error)) from None

"""What `python -m examples train` asks for recognizing digits."""

from examples.commands import arguments as shared
from examples.digits import options

#: Appended for a look at whether everything runs: nothing is learned in so little time.
QUICK_TRAINING = "--max-examples 200 --epochs 1 --no-xla"
QUICK_EVALUATION = "--max-examples 100"
DESCRIPTION = (
    "It reads the MNIST files, handwritten digits; the last 5,000 training pictures are held out "
    "as dev data. It chooses where to look, and learns that from being right."
)
EPILOG = """\
examples:
  python -m examples train {0} --mnist mnist --run runs/digits
  fewer glimpses, of two scales:
    python -m examples train {0} --mnist mnist --glimpses 3 --scales 2 --run runs/three
"""
check = options.check


def add_data(parser) -> None:
    """Adds the options of the data."""
    options.add_data(parser, batch_size=100)


def add_training(training) -> None:
    """Adds the options of the training that only these systems have, or with other defaults."""
    options.add_training(training, epochs=60, rate=1e-3, clip_norm=5.0)
    training.add_argument(
        "--monitor",
        choices=("accuracy", "crossentropy"),
        default="accuracy",
        help="what decides which weights are best on the dev pictures (default: %(default)s)",
    )
    shared.number(
        training,
        "--reward-weight",
        0.01,
        "weight of the reward, from which it learns where to look",
        shared.not_negative,
    )

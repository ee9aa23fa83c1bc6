"""What `python -m examples train` asks for drawing digits."""

from examples.digits import options

#: Appended for a look at whether everything runs: nothing is learned in so little time.
QUICK_TRAINING = "--max-examples 200 --epochs 1 --steps 2 --no-xla"
QUICK_EVALUATION = "--max-examples 100"
DESCRIPTION = (
    "It reads the MNIST files, handwritten digits; the last 5,000 training pictures are held out "
    "as dev data. A pixel is ink with the probability of its grey, drawn anew in every epoch."
)
EPILOG = """\
examples:
  python -m examples train {0} --mnist mnist --run runs/drawn
  a small one, for a first look:
    python -m examples train {0} --mnist mnist --steps 5 --units 64 --max-examples 5000 \\
        --epochs 3 --run runs/try
"""
check = options.check


def add_data(parser) -> None:
    """Adds the options of the data."""
    options.add_data(parser, batch_size=100)


def add_training(training) -> None:
    """Adds the options of the training that only these systems have, or with other defaults."""
    options.add_training(training, epochs=30, rate=1e-3, clip_norm=10.0)
    training.add_argument(
        "--monitor",
        choices=("bound",),
        default="bound",
        help="what decides which weights are best on the dev pictures",
    )

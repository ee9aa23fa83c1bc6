"""What every command on handwritten digits asks for."""

from examples.commands import arguments as shared
from examples.commands.arguments import UsageError

FILES = "folder of the four MNIST files, train-images-idx3-ubyte.gz and so on"


def add_data(parser, batch_size: int) -> None:
    """Adds the options of the training data, with a default of the batch size."""
    data = parser.add_argument_group("data")
    data.add_argument("--mnist", metavar="DIR", help=FILES)
    shared.number(
        data, "--max-examples", None, "take the first N pictures of each part (default: all)"
    )
    shared.number(data, "--batch-size", batch_size, "pictures in a batch")


def add_training(training, epochs: int, rate: float, clip_norm: float) -> None:
    """Adds the options of the training, with these defaults."""
    shared.number(training, "--epochs", epochs, "epochs at most")
    shared.number(training, "--learning-rate", rate, "rate of Adam", shared.positive_number)
    shared.number(
        training,
        "--plateau",
        None,
        "halve it after N epochs that were not the best (default: do not)",
    )
    shared.number(
        training, "--clip-norm", clip_norm, "largest norm of the gradient", shared.positive_number
    )


def check(arguments) -> None:
    """Raises `UsageError` if no pictures are named."""
    if not arguments.mnist:
        raise UsageError(f"There is nothing to look at. Name the {FILES}, with --mnist DIR.")


def add_part(parser, default: str = "test") -> None:
    """Adds which pictures a run is asked about."""
    parser.add_argument("--mnist", metavar="DIR", help=f"{FILES} (default: where it has learned)")
    parser.add_argument(
        "--part",
        choices=("test", "dev", "train"),
        default=default,
        help="test pictures, or of the training files the last 5,000 or the others "
        "(default: %(default)s)",
    )
    shared.number(parser, "--max-examples", None, "the first N of them (default: all)")

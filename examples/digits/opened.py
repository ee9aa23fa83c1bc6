"""Where a run on digits finds its pictures."""

from examples.commands.arguments import UsageError
from examples.digits.batches import read_rows
from keras_attention.export.runs import Run


def read_part(arguments, run: Run):
    """Returns the pictures that a command names, as `read_rows` does.

    Args:
        arguments: Its options `mnist`, `part` and `max_pictures`.
        run: The run, which says where it has learned.

    Raises:
        UsageError: If neither names a folder.
        DataError: If the files are not those of MNIST.
    """
    folder = arguments.mnist or (run.settings.get("training") or {}).get("mnist")
    if not folder:
        raise UsageError("There are no pictures. Name the folder of the MNIST files with --mnist.")
    return read_rows(folder, arguments.part, arguments.max_examples)

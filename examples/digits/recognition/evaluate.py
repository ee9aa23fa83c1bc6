"""`python -m examples evaluate` for recognizing digits."""

from examples.digits.measuring import add_arguments, measure
from examples.digits.recognition.opened import open_run

__all__ = ["EPILOG", "SUMMARY", "add_arguments", "run"]

SUMMARY = "measure a run on pictures it has not seen"
EPILOG = """\
examples:
  python -m examples evaluate runs/digits               the 10,000 test pictures
  python -m examples evaluate runs/digits --part dev    those it was chosen by

what the numbers mean:
  error              share of the digits that are taken for another one, in %
  loss               -log of the probability of the right digit, in nats

The first glimpse is of the middle of the picture, the others are where the model means to look.
"""


def run(arguments) -> None:
    """Prints the error."""
    measure(arguments, open_run(arguments.run), told)


def told(measured: dict) -> dict:
    """Returns the error in percent, and the loss."""
    return {"error": 100 * (1 - measured["accuracy"]), "loss": measured["crossentropy"]}

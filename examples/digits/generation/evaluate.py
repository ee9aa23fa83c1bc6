"""`python -m examples evaluate` for drawing digits."""

from examples.digits.generation.opened import open_run
from examples.digits.measuring import add_arguments, measure

__all__ = ["EPILOG", "SUMMARY", "add_arguments", "run"]

SUMMARY = "measure a run on pictures it has not seen"
EPILOG = """\
examples:
  python -m examples evaluate runs/drawn               the 10,000 test pictures
  python -m examples evaluate runs/drawn --part dev    those it was chosen by

what the numbers mean:
  bound              what a picture costs at most, -log p in nats, with one draw of the latent
                     numbers; the smaller, the better
  reconstruction     the part of it that the pixels cost, given the latent numbers
  kl                 the part of it that the latent numbers cost

Pixels are 0 or 1, drawn by their grey and always the same.
"""


def run(arguments) -> None:
    """Prints the bound."""
    measure(arguments, open_run(arguments.run), told)


def told(measured: dict) -> dict:
    """Returns the bound and its two parts."""
    bound, kl = measured["bound"], measured["kl"]
    return {"bound": bound, "reconstruction": bound - kl, "kl": kl}

"""`python -m examples score`, for runs of translators."""

import sys

from examples.commands import by_run

SUMMARY = "compute log p(target | source) of given pairs"
NOTE = ""


def for_arguments(text_arguments):
    """Returns the command as the recipe of the run has it."""
    return by_run.part(sys.modules[__name__], text_arguments)


def add_arguments(parser) -> None:
    """Adds the options of the command."""
    parser.add_argument(
        "--tokens",
        action="store_true",
        help="then a tab and the log-probability of each token, the EOS token last",
    )


def finish(recipe, options, arguments) -> None:
    """Prints a line a pair, in the order of the files."""
    for log_probs in recipe.score(**options):
        described = " ".join(f"{one:.4f}" for one in log_probs)
        print(f"{sum(log_probs):.4f}" + (f"\t{described}" if arguments.tokens else ""))

"""`python -m examples score`: how likely given targets are, pair by pair."""

from examples.commands import arguments as shared
from examples.translation.arguments import add_files, files_of
from examples.translation.opened import open_run, trained_format
from examples.translation.translating import PairScorer

SUMMARY = "tell log p(target | source) of given pairs"
EPILOG = """\
examples:
  python -m examples score runs/mine --pairs phrases.tsv
  python -m examples score runs/mine --source test.de --target test.en --tokenizer

A line for a pair: the log-probability in nats of the target and its end mark, not divided by the
length. Cho et al. 2014 give such numbers to a translation system that looks up phrases.
"""


def add_arguments(parser) -> None:
    """Adds the options of `score`."""
    shared.add_run(parser)
    add_files(parser, "scored", default_format="that of the training, or tsv")
    parser.add_argument(
        "--tokenizer",
        action="store_true",
        help="then a tab and the log-probability of each token, the end mark last",
    )


def run(arguments) -> None:
    """Prints a line a pair, in the order of the files; a line that is no pair is refused."""
    opened = open_run(arguments.run)
    files = files_of(arguments, "scored", default_form=trained_format(opened))
    if not files:
        raise shared.UsageError("Name what is to be scored: --pairs, or --source and --target.")
    pairs = files.read_whole()
    scorer = PairScorer(opened.model, opened.source_tokenizer, opened.target_tokenizer)
    for tokens in scorer.log_probs(pairs):
        told = " ".join(f"{one:.4f}" for one in tokens)
        print(f"{sum(tokens):.4f}" + (f"\t{told}" if arguments.tokenizer else ""))

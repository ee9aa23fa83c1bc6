"""What `python -m examples train` asks for a translator."""

from examples.commands import arguments as shared
from examples.translation.arguments import add_files
from examples.translation.optimizing import OPTIMIZERS, SCHEDULES
from keras_attention.export.tokenizers import TOKENIZER_CLASSES

#: Appended for a look at whether everything runs: nothing is learned in so little time.
QUICK_TRAINING = "--max-examples 256 --epochs 1 --no-xla --num-buckets 1"
QUICK_EVALUATION = "--max-examples 32 --beam-width 1 --max-length 12"
DESCRIPTION = "Without data it learns to write dates as ISO 8601."
EPILOG = """\
examples:
  the embedded dates, a small model, in some minutes:
    python -m examples train {0} --run runs/dates --units 128
  a quick look, on a few of them:
    python -m examples train {0} --run runs/try --units 32 --max-examples 2000 --epochs 2
  your own sentence pairs, in SentencePiece subwords:
    python -m examples train {0} --run runs/mine --source train.de --target train.en \\
        --dev-source dev.de --dev-target dev.en --dropout 0.3 --max-minutes 60
  pairs in many files, more than fit into memory:
    python -m examples train {0} --run runs/large --shards 'data/*.tsv.gz' \\
        --epoch-batches 10000 --dev-pairs dev.tsv
  go on after an interruption, or train longer:
    python -m examples train {0} --run runs/mine --resume
    python -m examples train {0} --run runs/mine --resume --max-minutes 120
"""


def add_data(parser) -> None:
    """Adds the options of the data."""
    add_files(parser, "training", hint=" (default: the embedded dates)")
    add_files(parser, "dev", "dev-", hint=" (default: a share of the training data)")
    _add_shards(parser.add_argument_group("training data larger than memory, instead"))
    _add_reading(parser.add_argument_group("reading the data"))


def _add_shards(data):
    data.add_argument(
        "--shards",
        nargs="+",
        metavar="FILE",
        help="files or quoted patterns: source<TAB>target a line, plain or .gz, or *.tfrecord of "
        "tf.train.Example with the bytes features source and target; read while training, needs "
        "--epoch-batches and dev files (default: none)",
    )
    text = "batches in an epoch; each epoch begins with other shards (default: none, for --shards)"
    shared.number(data, "--epoch-batches", None, text)
    text = "pairs of shards among which the next one is drawn"
    shared.number(data, "--shuffle-buffer", 20_000, text)
    text = "first pairs of the shards, from which tokenizers and batch shapes are made"
    shared.number(data, "--sample-pairs", 200_000, text)


def _add_reading(data):
    text = "share of the sources held out with all their targets where no dev files are named"
    shared.number(data, "--validation-fraction", 0.02, text, shared.share)
    shared.number(
        data,
        "--max-examples",
        None,
        "take only the first N pairs of each part, to try things out (default: all)",
    )
    data.add_argument(
        "--invalid-lines",
        choices=("skip", "refuse"),
        default="skip",
        help="what to do with empty, overlong or undecodable lines; all are counted, the first "
        "of each kind told by line number (default: %(default)s)",
    )
    data.add_argument(
        "--tokenizer",
        choices=tuple(TOKENIZER_CLASSES),
        help="what a token is; words are what stands between spaces (default: characters for "
        "the dates, sentencepiece for your files)",
    )
    for side in ("source", "target"):
        data.add_argument(
            f"--{side}-tokenizer",
            choices=tuple(TOKENIZER_CLASSES),
            help=f"what a token of the {side} is (default: what --tokenizer says)",
        )
    data.add_argument(
        "--joint-vocabulary",
        action="store_true",
        help="one tokenizer made from both sides, for both (default: one each)",
    )
    shared.number(
        data,
        "--vocabulary-size",
        None,
        "ids of each side at most (default: 8000 for subwords, else no limit)",
        shared.int_at_least(5),
    )
    shared.number(data, "--min-frequency", 1, "characters or words seen less often are unknown")
    data.add_argument(
        "--lowercase", action="store_true", help="lower-case both sides (default: keep)"
    )
    for side in ("source", "target"):
        shared.number(
            data,
            f"--max-{side}-tokens",
            None,
            f"leave out pairs with a longer {side}, and say so (default: no limit)",
        )
    shared.number(data, "--batch-size", 64, "pairs in a batch")
    shared.number(
        data,
        "--batch-tokens",
        None,
        "as many pairs in a batch as have N tokens on their longer side, padding counted, "
        "instead of --batch-size (default: do not)",
    )
    text = "batch shapes at most; each is compiled once, more have less padding"
    shared.number(data, "--num-buckets", 6, text)


def add_training(training) -> None:
    """Adds the options of the training that only a translator has, or with other defaults."""
    shared.number(training, "--epochs", 10, "passes over the data at most")
    training.add_argument(
        "--monitor",
        choices=("perplexity", "exact_match", "bleu", "wer"),
        default="perplexity",
        help="what decides which weights are best: of the dev data, or greedy outputs of dev texts "
        "(default: %(default)s)",
    )
    text = "dev texts, the first ones, whose outputs --monitor reads after every epoch"
    shared.number(training, "--monitor-texts", 500, text)
    _add_optimizer(training)
    shared.number(
        training, "--clip-norm", 1.0, "largest norm of the gradient", shared.positive_number
    )
    shared.number(
        training,
        "--label-smoothing",
        0.0,
        "share of the target given to all other tokens; 0.1 is usual",
        shared.fraction,
    )


def _add_optimizer(training):
    training.add_argument(
        "--optimizer",
        choices=tuple(OPTIMIZERS),
        default="adam",
        help="sgd is plain, nesterov has momentum 0.99 (default: %(default)s)",
    )
    rates = ", ".join(f"{rate:g} for {name}" for name, rate in OPTIMIZERS.items())
    shared.number(
        training,
        "--learning-rate",
        None,
        f"the first one; for --schedule inverse-sqrt a factor on it (default: {rates}; 1 for it)",
        shared.positive_number,
    )
    shared.number(
        training,
        "--beta-2",
        None,
        "of adam (default: 0.999; 0.98 for --schedule inverse-sqrt)",
        shared.fraction,
    )
    training.add_argument(
        "--schedule",
        choices=SCHEDULES,
        default="constant",
        help="plateau lowers the rate when --monitor stops improving, halving halves it after so "
        "many epochs; inverse-sqrt is the Transformer's, for a system with --units (default: %(default)s)",
    )
    shared.number(
        training,
        "--plateau-factor",
        None,
        "what --schedule plateau multiplies the rate by; the ConvS2S paper's is 0.1 (default: 0.5)",
        shared.share,
    )
    text = "epochs without a new best before it does (default: 2)"
    shared.number(training, "--plateau-patience", None, text)
    shared.number(
        training,
        "--decay-epochs",
        None,
        "the last epochs of --epochs, in which the rate falls to nothing in a line; stop the run "
        "by nothing else then (default: none)",
        shared.positive_number,
    )
    shared.number(
        training, "--warmup", None, "updates until inverse-sqrt's highest rate (default: 4000)"
    )
    shared.number(
        training,
        "--lr-decay-start",
        None,
        "epochs at the full rate of --schedule halving (default: 5)",
        shared.positive_number,
    )
    shared.number(
        training,
        "--lr-decay-every",
        None,
        "epochs from one halving to the next (default: 1)",
        shared.positive_number,
    )

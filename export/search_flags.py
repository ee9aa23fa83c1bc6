"""The command-line flags of a search, and the `SearchOptions` made from them."""

import argparse
import pathlib

import tensorflow as tf

from keras_attention.export._argparse_types import (
    non_negative_int,
    positive_int,
    positive_int_up_to,
)
from keras_attention.export.length_limits import (
    MAX_SOURCE_LENGTH,
    choose_max_length,
    count_learned_positions,
)
from keras_attention.export.runs import Run
from keras_attention.export.search_options import SearchOptions
from keras_attention.export.tokenizers.base import EOS_ID, SPECIAL_TOKENS, UNKNOWN_ID
from keras_attention.search import (
    AverageLengthPenalty,
    BeamOptions,
    Constraints,
    GNMTLengthPenalty,
    SpecialIds,
)

MAX_NGRAM_SIZE = 2**31 - 1


def parse_length_penalty(text: str) -> AverageLengthPenalty | GNMTLengthPenalty:
    """Returns the length penalty that `--length-penalty` names: "average", or an alpha."""
    if text == "average":
        return AverageLengthPenalty()
    try:
        return GNMTLengthPenalty(float(text))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected average or a number from -10 to 10, got {text!r}"
        ) from None


def add_search_flags(parser: argparse.ArgumentParser, *, for_export: bool = True) -> None:
    """Adds the flags of the search options to a parser.

    Args:
        parser: The parser.
        for_export: Whether the flags of exports alone, `--max-source-length`, `--return-tree`,
            `--stream` and `--phrases`, are among them.

    Example:

    >>> parser = argparse.ArgumentParser()
    >>> add_search_flags(parser)
    >>> parser.parse_args(["--beam-width", "8"]).beam_width
    8
    """
    group = parser.add_argument_group("search")

    def add(name, kind, metavar, text, default=None, **options):
        group.add_argument(name, type=kind, metavar=metavar, help=text, default=default, **options)

    add(
        "--beam-width",
        positive_int,
        "N",
        "hypotheses to keep and to return (default: %(default)s)",
        SearchOptions.beam_width,
    )
    add(
        "--length-penalty",
        parse_length_penalty,
        "ALPHA",
        "rank by log p / ((5 + length) / 6)^ALPHA; 0.6 is usual, larger favors longer outputs; "
        "or average, to rank by log p / length (default: rank by log p)",
    )
    add(
        "--coverage-penalty",
        float,
        "BETA",
        "penalty for source tokens without attention; 0.2 is usual (default: none)",
    )
    add(
        "--max-length",
        positive_int,
        "N",
        "maximum output length in tokens, EOS included (default: twice the longest target of the "
        "training, or 128; at most the positions that the decoder has learned)",
    )
    add(
        "--min-length",
        non_negative_int,
        "N",
        "minimum output length in tokens, EOS included (default: %(default)s)",
        0,
    )
    add(
        "--no-repeat-ngram-size",
        positive_int_up_to(MAX_NGRAM_SIZE),
        "N",
        "no n-gram of N tokens occurs twice in an output",
    )
    add(
        "--repetition-penalty",
        float,
        "FACTOR",
        "divide or multiply the logits of tokens in the output, whichever makes them less "
        "probable; 1.2 is usual (default: %(default)s, none)",
        1.0,
    )
    group.add_argument(
        "--replace-unknown",
        nargs="?",
        const=True,
        default=False,
        metavar="DICTIONARY",
        help="write each unknown word as the source word that it attended to, or as its "
        "translation in DICTIONARY, a file of source words and translations, a tab between them; "
        "for word tokenizers",
    )
    text = "target tokens that are never produced, such as <unk>"
    add("--suppress-tokens", str, "TOKEN", text, (), nargs="+")
    text = "target tokens that end an output, beside EOS"
    add("--end-tokens", str, "TOKEN", text, (), nargs="+")
    if for_export:
        add(
            "--max-source-length",
            positive_int_up_to(MAX_SOURCE_LENGTH),
            "N",
            "maximum source length in tokens; longer sources are truncated (default: 512, or the "
            "positions that the encoder has learned, if that is less)",
        )
        group.add_argument(
            "--return-tree",
            action="store_true",
            help="write the signature beam_tree too, which returns the hypotheses of each step",
        )
        group.add_argument(
            "--stream",
            action="store_true",
            help="write signatures too that return text as it becomes certain, for the development "
            "server",
        )
        group.add_argument(
            "--phrases",
            action="store_true",
            help="write the signature translate_with_phrases too, whose requests name phrases that "
            "each output contains",
        )


def make_search_options(arguments: argparse.Namespace, run: Run) -> SearchOptions:
    """Returns the search options that the flags ask for.

    Args:
        arguments: What a parser with the flags of `add_search_flags` has parsed.
        run: The run of the translator. By default outputs have at most twice as many tokens as
            the longest target of its training.

    Raises:
        ValueError: If an option does not fit the model or its tokenizers.
    """
    trained = (run.settings.get("lengths") or {}).get("target")
    max_length = arguments.max_length or choose_max_length(run.model, trained)
    learned = count_learned_positions(run.model).get("target", max_length)
    if max_length > learned:
        raise ValueError(
            f"--max-length expects at most {learned}, the positions that the decoder of "
            f"{run.directory} has learned. Received: --max-length {max_length}"
        )
    return SearchOptions(
        beam_width=arguments.beam_width,
        max_length=max_length,
        max_source_length=getattr(arguments, "max_source_length", None) or "auto",
        length_penalty=arguments.length_penalty,
        constraints=Constraints(
            min_length=arguments.min_length,
            suppress_ids=_find_token_ids("suppress", arguments, run.target_tokenizer),
            no_repeat_ngram_size=arguments.no_repeat_ngram_size,
            special_ids=SpecialIds(
                end_id=(EOS_ID, *_find_token_ids("end", arguments, run.target_tokenizer))
            ),
            repetition_penalty=arguments.repetition_penalty,
        ),
        options=BeamOptions(
            coverage_penalty=arguments.coverage_penalty,
            return_tree=getattr(arguments, "return_tree", False),
        ),
        stream=getattr(arguments, "stream", False),
        phrases=getattr(arguments, "phrases", False),
        replace_unknown=_read_dictionary(arguments.replace_unknown),
    )


def _read_dictionary(path):
    """Returns the words of a dictionary file and their translations; True and False stay."""
    if isinstance(path, bool):
        return path
    try:
        lines = pathlib.Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"--replace-unknown cannot read {path}: {error}") from None
    words = {}
    for number, line in enumerate(lines, start=1):
        columns = [column.strip() for column in line.split("\t")]
        if line.strip() and (len(columns) != 2 or not all(columns) or len(columns[0].split()) > 1):
            raise ValueError(
                "--replace-unknown expects a source word, a tab and its translation on each line. "
                f"Received: line {number} of {path}: {line!r}"
            )
        if line.strip():
            words.setdefault(*columns)
    if not words:
        raise ValueError(f"--replace-unknown expects a file with words. Received: {path}, empty")
    return words


def _find_token_ids(kind, arguments, tokenizer):
    """Returns the ids of the target tokens that the flag `--{kind}-tokens` names."""
    pieces = getattr(arguments, f"{kind}_tokens")
    if not pieces:
        return ()
    names = [
        name.decode()
        for name in tokenizer.ids_to_tokens(tf.range(tokenizer.vocabulary_size)).numpy()
    ]
    for piece in pieces:
        if piece not in names[UNKNOWN_ID:]:
            raise ValueError(
                f"--{kind}-tokens expects tokens of the target's vocabulary, such as "
                f"{SPECIAL_TOKENS[UNKNOWN_ID]}. Received: {piece!r}"
            )
    return tuple(number for number, name in enumerate(names) if name in pieces)

"""Texts that are longer than what a translator has learned positions for.

Beyond a table of positions a graph, whose lengths are not known while it is traced, takes the
last of them for every token: nothing fails, and the answers are wrong. So sources are cut
before, which is reported, and pairs that are to be scored are refused.
"""

import sys

import keras
import numpy as np

from examples.data.encoding import count_tokens
from examples.data.parallel import Corpus
from examples.data.report import BadLine, DataError, Report
from keras_attention.export.length_limits import count_learned_positions
from keras_attention.export.runs import SIDES, Run

MOST_NAMED = 5


def find_source_limit(model: keras.Model) -> int | None:
    """Returns the most tokens of a source, the EOS token not counted; None for any number."""
    learned = count_learned_positions(model).get("source")
    return None if learned is None else learned - 1


def find_pair_limits(*models: keras.Model) -> dict[str, int]:
    """Returns the limits of `encode_pairs` within which all of some models have positions.

    Args:
        models: Translators.

    Returns:
        Dict with the keys "max_source_length" and "max_target_length", or one, or none.
    """
    learned = [count_learned_positions(model) for model in models]
    return {
        f"max_{side}_length": min(one[side] for one in learned if side in one)
        for side in SIDES
        if any(side in one for one in learned)
    }


def report_cut_sources(run: Run, texts: list[str], names: list[str]) -> None:
    """Prints a note that names the texts of which a translator reads the first tokens only.

    Args:
        run: The run of the translator.
        texts: The sources.
        names: What each of them is called, such as "line 3".
    """
    limit = find_source_limit(run.model)
    if limit is None:
        return
    lengths = count_tokens(run.source_tokenizer, texts)
    cut = [
        f"{name} ({length:,} tokens)"
        for name, length in zip(names, lengths, strict=True)
        if length > limit
    ]
    if cut:
        more = f", and {len(cut) - MOST_NAMED:,} more" if len(cut) > MOST_NAMED else ""
        print(
            f"note: the encoder has learned {limit + 1:,} positions, and the EOS token takes one: "
            f"only the first {limit:,} tokens are read of {', '.join(cut[:MOST_NAMED])}{more}.",
            file=sys.stderr,
        )


def check_pairs(model: keras.Model, source, target, pairs) -> None:
    """Raises unless a translator has learned positions for both sides of every pair.

    Args:
        model: A translator.
        source, target: Its tokenizers.
        pairs: A `Corpus`, whose line numbers are named, or a list of `(source, target)`
            texts, whose places are counted from 1.

    Raises:
        DataError: If there is a longer one.
    """
    learned = count_learned_positions(model)
    if not learned:
        return
    corpus = isinstance(pairs, Corpus)
    name = pairs.name if corpus else "pair"
    lines = pairs.lines if corpus else range(1, len(pairs) + 1)
    report = Report()
    for side, tokenizer, texts in zip(
        SIDES, (source, target), zip(*pairs, strict=True), strict=True
    ):
        limit = learned.get(side, np.inf)
        for line, length in zip(lines, count_tokens(tokenizer, texts), strict=True):
            if length + 1 > limit:
                detail = f"{length + 1:,} with the EOS token, learned are {limit:,}"
                report.add(BadLine(name, line, f"too many {side} tokens", detail))
    if report.left_out:
        described = "; ".join(str(bad) for bad in report.examples())
        raise DataError(
            "The model has not learned as many positions as these pairs need: "
            f"{', '.join(f'{count:,} {reason}' for reason, count in report.counts.items())}. "
            f"{described}. Shorten them or leave them out."
        )

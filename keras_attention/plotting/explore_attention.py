"""Pages to explore attention weights: alignments of sentence pairs, and heads of layers."""

from collections.abc import Iterable, Sequence

import numpy.typing as npt

from keras_attention.plotting import _figures
from keras_attention.plotting._explorer_page import (
    ExplorerPage,
    encode_weights,
    make_page,
    make_token_list,
)
from keras_attention.plotting._text_layout import format_title
from keras_attention.plotting.alignment import check_examples, validate_alignment_weights
from keras_attention.plotting.heads import validate_head_weights


def explore_alignments(
    examples: Iterable[tuple[npt.ArrayLike, Sequence[str | bytes], Sequence[str | bytes]]],
    *,
    titles: Sequence[str] | None = None,
    title: str | None = None,
) -> ExplorerPage:
    """Returns a page with the tokens of sentence pairs; a token shows what it attends to.

    Point at a target token, tap it or reach it with the arrow keys: the source tokens are shaded
    by its weights, which are written as numbers. A source token shows in the same way which target
    tokens attend to it. A click or Enter keeps a token selected, Escape ends that. Source and
    target can also be shown side by side with lines between them.

    Args:
        examples: Sequence of `(weights, source_tokens, target_tokens)`, each as in
            `plot_alignment`; their lengths may differ.
        titles: Optional sequence of str, one per example, to choose it by.
        title: Optional str, the heading.

    Returns:
        An `ExplorerPage`; the page holds weights to a precision of 1/65535. The full color means
        four times the mean weight of the example, or the largest weight if that is more.

    Raises:
        ValueError: If there is no example, an example is not valid for `plot_alignment`, or
            the number of titles differs.

    Example:

    >>> weights = [[0.9, 0.1, 0.0], [0.0, 0.2, 0.8]]
    >>> page = explore_alignments([(weights, ["das", "Haus", "</s>"], ["house", "</s>"])])
    >>> page
    ExplorerPage('Alignments', 1 view)
    """
    owner = "explore_alignments"
    examples, titles = check_examples(owner, examples, titles)
    views = []
    for number, ((weights, source_tokens, target_tokens), name) in enumerate(
        zip(examples, titles, strict=True)
    ):
        source = make_token_list(owner, "source_tokens", source_tokens)
        target = make_token_list(owner, "target_tokens", target_tokens)
        size = len(target["tokens"]), len(source["tokens"])
        weights = validate_alignment_weights(owner, weights, size)
        views.append(
            {
                "title": format_title(owner, "titles", name) or f"Pair {number + 1}",
                "source": source,
                "target": target,
                "weights": encode_weights(weights),
                "full": _figures.choose_full_weight(weights),
            }
        )
    return make_page(owner, title, "Alignments", {"kind": "alignments", "examples": views})


def explore_heads(
    weights: npt.ArrayLike,
    query_tokens: Sequence[str | bytes],
    key_tokens: Sequence[str | bytes] | None = None,
    *,
    title: str | None = None,
) -> ExplorerPage:
    """Returns a page with a small heat map for each head, and a view of lines behind each.

    Choose a head to see lines from its queries to its keys, and point at a token, tap it or reach
    it with the arrow keys to see its weights alone, with their numbers. A slider hides weights
    below a threshold.

    Args:
        weights: Array `(heads, query, key)`, or `(layers, heads, query, key)`, of numbers from 0
            to 1, without padding; a row of zeros (nothing attended to) is allowed. The layers may
            be those of a Transformer or of ConvS2S, whose decoder layers have one head each.
        query_tokens: Sequence of `query` str (or UTF-8 bytes). A single str is a sequence of
            characters.
        key_tokens: Sequence of `key` str (or UTF-8 bytes); None if they are the queries, as in
            self-attention.
        title: Optional str, the heading.

    Returns:
        An `ExplorerPage`; the page holds weights to a precision of 1/65535. All maps share one
        color scale: the full color means four times the mean weight, or the largest weight if that
        is more.

    Raises:
        ValueError: If `weights` has a different shape, is empty, or contains numbers that are not
            finite or outside of 0 to 1.

    Example:

    >>> weights = [[[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]]]  # one layer of two heads
    >>> page = explore_heads(weights, ["house", "</s>"])
    >>> page
    ExplorerPage('Heads', 1 view)
    """
    owner = "explore_heads"
    queries = make_token_list(owner, "query_tokens", query_tokens)
    keys = queries if key_tokens is None else make_token_list(owner, "key_tokens", key_tokens)
    size = len(queries["tokens"]), len(keys["tokens"])
    array = validate_head_weights(owner, weights, *size, or_layers=True)
    view = {
        "kind": "heads",
        "queries": queries,
        "keys": keys,
        "layers": 1 if array.ndim == 3 else len(array),
        "heads": array.shape[-3],
        "weights": encode_weights(array),
        "full": _figures.choose_full_weight(array),
    }
    return make_page(owner, title, "Heads", view)

"""Pages to explore a search: an n-best list with its differences, and the tree of a beam."""

import difflib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from keras_attention.plotting import _figures
from keras_attention.plotting._explorer_page import (
    ExplorerPage,
    make_page,
    make_token_list,
    round_number,
)
from keras_attention.plotting._text_layout import format_token

#: Lower scores are those of padding, not of a hypothesis, as in `keras_attention.beam_search`.
MIN_SCORE = -9e8
ALIVE, ENDED, FELL_BEHIND = "alive", "ended", "fell behind"


def explore_hypotheses(
    hypotheses: Sequence[Sequence[str | bytes]],
    scores: npt.ArrayLike,
    token_log_probs: npt.ArrayLike | Sequence[npt.ArrayLike] | None = None,
    *,
    title: str | None = None,
) -> ExplorerPage:
    """Returns a page with an n-best list, and how each hypothesis differs from the best.

    Tokens that the best hypothesis lacks are underlined, its tokens that are missing are struck
    out; both can be read without color. The log-probability of each token is written below it, and
    improbable tokens are dark.

    Args:
        hypotheses: Sequence of sequences of str (or UTF-8 bytes), the tokens of each hypothesis
            without padding. Leave out those of length -1, the padding of `beam_search`.
        scores: Array `(hypotheses,)` of finite numbers; the page sorts by them, highest first.
        token_log_probs: Optional array `(hypotheses, target)` of numbers up to 0, 0 beyond the
            tokens of a hypothesis, as `beam_search` returns; or a sequence with an array for each
            hypothesis.
        title: Optional str, the heading.

    Returns:
        An `ExplorerPage`.

    Raises:
        ValueError: If there is no hypothesis, the numbers of hypotheses, scores or tokens disagree,
            or a score or log-probability is not finite or out of range.

    Example:

    >>> page = explore_hypotheses(
    ...     [["the", "house", "</s>"], ["a", "house", "</s>"]],
    ...     scores=[-0.4, -1.3],
    ...     token_log_probs=[[-0.3, -0.1, 0.0], [-1.2, -0.1, 0.0]],
    ... )
    >>> page
    ExplorerPage('Hypotheses', 1 view)
    """
    owner = "explore_hypotheses"
    lists = [make_token_list(owner, "hypotheses", tokens) for tokens in hypotheses]
    if not lists:
        raise ValueError(f"{owner} expects at least one hypothesis. Received: none")
    scores = _validate_numbers(owner, "scores", scores, len(lists), "hypothesis")
    rows = [None] * len(lists)
    if token_log_probs is not None:
        rows = _validate_log_probs(owner, token_log_probs, [len(one["tokens"]) for one in lists])
    order = np.argsort(-scores, kind="stable")
    best = lists[order[0]]["tokens"]
    entries = [
        {
            "score": round_number(scores[number]),
            "logProb": None if rows[number] is None else round_number(rows[number].sum()),
            "length": len(lists[number]["tokens"]),
            "isRightToLeft": lists[number]["isRightToLeft"],
            "parts": _compare_tokens(best, lists[number]["tokens"], rows[number]),
        }
        for number in order
    ]
    return make_page(owner, title, "Hypotheses", {"kind": "hypotheses", "hypotheses": entries})


def explore_beam_search(
    tokens: Sequence[Sequence[str | bytes]],
    parents: npt.ArrayLike | Sequence[npt.ArrayLike],
    scores: npt.ArrayLike | Sequence[npt.ArrayLike],
    *,
    eos_token: str | Sequence[str] = "</s>",
    title: str | None = None,
) -> ExplorerPage:
    """Returns a page with the tree of a beam search, to step through.

    Each column is a step, each entry a hypothesis that ends in its token. A hypothesis ended if
    the token is `eos_token`, and fell behind if no hypothesis of the next step continues it. The
    page says so in words and by the border. A slider chooses the step; an entry shows its
    hypothesis from the first token on.

    Args:
        tokens: Sequence of `steps` sequences of str (or UTF-8 bytes), the last token of each
            hypothesis that the step has kept; their number may differ from step to step.
        parents: Sequence of `steps` sequences of int, or an array `(steps, beams)`: the place that
            the hypothesis had in the step before. Those of the first step are ignored.
        scores: Sequence of `steps` sequences of numbers, or an array `(steps, beams)`: the scores
            of the hypotheses after the step. Those of -9e8 or less are padding and left out.
        eos_token: Str, the token that ends a hypothesis, or a sequence of several.
        title: Optional str, the heading.

    Returns:
        An `ExplorerPage`.

    Raises:
        ValueError: If there is no hypothesis in the first step, the numbers of steps and
            hypotheses differ, a score is NaN or infinite, or a parent does not exist or has ended.

    Example:

    >>> page = explore_beam_search(
    ...     tokens=[["the", "a"], ["house", "house"], ["</s>", "now"]],
    ...     parents=[[0, 0], [0, 1], [0, 0]],
    ...     scores=[[-0.3, -1.2], [-0.4, -1.3], [-0.4, -2.5]],
    ... )
    >>> page
    ExplorerPage('Beam search', 1 view)
    """
    owner = "explore_beam_search"
    tokens, parents, scores = list(tokens), list(parents), list(scores)
    if not tokens or not len(tokens) == len(parents) == len(scores):
        raise ValueError(
            f"{owner} expects `tokens`, `parents` and `scores` of the same steps, at least one. "
            f"Received: {len(tokens)}, {len(parents)} and {len(scores)} steps"
        )
    given = [eos_token] if isinstance(eos_token, str | bytes) else eos_token
    eos_tokens = {format_token(owner, "eos_token", token) for token in given}
    steps = []
    for number, row in enumerate(zip(tokens, parents, scores, strict=True)):
        nodes = _make_nodes(owner, number, *row, eos_tokens)
        if steps:
            _mark_parents_alive(owner, number, nodes, steps[-1])
        steps.append(nodes)
    if not any(steps[0]):
        raise ValueError(f"{owner} expects a hypothesis in the first step. Received: none")
    for node in filter(None, steps[-1]):
        if node["state"] == FELL_BEHIND:
            node["state"] = ALIVE
    all_tokens = [node["token"] for nodes in steps for node in nodes if node]
    is_right_to_left = make_token_list(owner, "tokens", all_tokens)["isRightToLeft"]
    view = {"kind": "beam", "steps": steps, "isRightToLeft": is_right_to_left}
    return make_page(owner, title, "Beam search", view)


def _compare_tokens(best, tokens, log_probs):
    """Returns `[token, how it differs from the best, log-probability]`, missing tokens too."""
    parts = []
    matcher = difflib.SequenceMatcher(None, best, tokens, autojunk=False)
    for kind, start, end, low, high in matcher.get_opcodes():
        if kind in ("delete", "replace"):
            parts += [[token, "missing", None] for token in best[start:end]]
        for place in range(low, high):
            number = None if log_probs is None else round_number(log_probs[place])
            parts.append([tokens[place], "same" if kind == "equal" else "added", number])
    return parts


def _validate_numbers(owner, name, array, count, what):
    """Returns a float array `(count,)` of finite numbers."""
    array = _figures.make_float_array(owner, name, array)
    if array.shape != (count,):
        raise ValueError(
            f"{owner} expects `{name}` with one number per {what}. Received: "
            f"{name}.shape={array.shape}, expected ({count},)"
        )
    if not np.isfinite(array).all():
        raise ValueError(f"{owner} expects `{name}` to be finite. Received: {name}={array}")
    return array


def _validate_log_probs(owner, rows, lengths):
    """Returns the log-probabilities of each hypothesis, without padding."""
    rows = list(rows)
    if len(rows) != len(lengths):
        raise ValueError(
            f"{owner} expects `token_log_probs` with one row per hypothesis. Received: "
            f"{len(rows)} rows, {len(lengths)} hypotheses"
        )
    trimmed = []
    for number, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        name = f"token_log_probs[{number}]"
        row = _figures.make_float_array(owner, name, row)
        if row.ndim != 1 or len(row) < length or row[length:].any():
            raise ValueError(
                f"{owner} expects `token_log_probs` with a number for each token, and 0 beyond "
                f"them. Received: {name}.shape={row.shape}, {length} tokens, "
                f"{np.count_nonzero(row[length:])} beyond them not 0"
            )
        if not np.isfinite(row).all() or (row > 1e-3).any():
            raise ValueError(
                f"{owner} expects `token_log_probs` to be finite numbers up to 0. "
                f"Received: {name}={row}"
            )
        trimmed.append(row[:length])
    return trimmed


def _make_nodes(owner, number, tokens, parents, scores, eos_tokens):
    """Returns the hypotheses of a step, None for padding; none is continued yet."""
    tokens = make_token_list(owner, f"tokens[{number}]", tokens)["tokens"]
    what = f"token of step {number}"
    scores = _validate_numbers(owner, f"scores[{number}]", scores, len(tokens), what)
    places = np.asarray(parents)
    is_whole = np.issubdtype(places.dtype, np.integer) or not tokens
    if places.shape != (len(tokens),) or not is_whole:
        raise ValueError(
            f"{owner} expects `parents` with one int per token. Received: "
            f"parents[{number}]={parents!r:.80}, {len(tokens)} tokens"
        )
    nodes = []
    for token, parent, score in zip(tokens, places.tolist(), scores, strict=True):
        state = ENDED if token in eos_tokens else FELL_BEHIND
        node = {"token": token, "parent": parent, "score": round_number(score), "state": state}
        nodes.append(node if score > MIN_SCORE else None)
    return nodes


def _mark_parents_alive(owner, number, nodes, before):
    """Marks the parents of a step's hypotheses as alive; raises for a parent that cannot be."""
    for place, node in enumerate(nodes):
        if node is None:
            continue
        parent = node["parent"]
        exists = 0 <= parent < len(before) and before[parent] is not None
        if not exists or before[parent]["state"] == ENDED:
            raise ValueError(
                f"{owner} expects each parent to be the place of a hypothesis of the step before "
                f"that has not ended. Received: parents[{number}][{place}]={parent}, "
                f"{'which has ended' if exists else f'{len(before)} hypotheses before'}"
            )
        before[parent]["state"] = ALIVE

"""SPEC section 18 in plain Python, lists and loops: what the compiled search must return.

Penalties are a `rule` of `gnmt`, `average`, `beta`; constraints are `limits` of `min_length`,
`banned`, `ngram`, `prefix` and `ends`, the ids that end a sequence.
"""

import numpy as np
from search_models import END

BANNED = (0, 2)


def score(log_prob, coverage, length, gnmt=None, average=False, beta=0.0):
    """`log p / lp + cp` in float64; `coverage` is the sum of a hypothesis' alignments."""
    penalty = ((5.0 + length) / 6.0) ** gnmt if gnmt is not None else 1.0
    penalty = float(length) if average else penalty
    return log_prob / penalty + beta * np.log(np.minimum(coverage, 1.0)).sum()


def list_permitted(tokens, vocabulary, min_length=0, banned=(), ngram=None, prefix=(), ends=(END,)):
    """Returns the ids that may follow `tokens`."""
    if len(tokens) < len(prefix):
        return [prefix[len(tokens)]]
    ids = [t for t in range(vocabulary) if t not in ({*BANNED} - {*ends}) | {*banned}]
    if len(tokens) + 1 < min_length:
        ids = [t for t in ids if t not in ends]
    if ngram:
        seen = {tuple(tokens[i : i + ngram]) for i in range(len(tokens) - ngram + 1)}
        last = tuple(tokens[len(tokens) - ngram + 1 :])
        ids = [t for t in ids if (*last, t) not in seen or len(last) < ngram - 1]
    return ids


def all_hypotheses(model, row, max_length, min_length=0, limits=None, **rule):
    """Every sequence that ends within the limit or fills it, best first: (score, log p, ids)."""
    limits = {"min_length": min_length, "ends": (END,), **(limits or {})}
    growing, found = [()], []
    for length in range(1, max_length + 1):
        longer = [(*t, n) for t in growing for n in list_permitted(t, model.vocabulary, **limits)]
        growing = [t for t in longer if t[-1] not in limits["ends"]]
        found += [t for t in longer if t[-1] in limits["ends"] or length == max_length]
    found = [score_ids(model, row, tokens, **rule) for tokens in found]
    return sorted(found, key=lambda hypothesis: -hypothesis[0])


def score_ids(model, row, ids, **rule):
    """Returns (score, log p, ids) of one sequence, stepping the model token by token."""
    total, coverage = 0.0, np.zeros(model.source)
    for position, token in enumerate(ids):
        log_probs, alignment = model.reference(row, ids[:position])
        total += log_probs[token]
        coverage += alignment
    return score(total, coverage, len(ids), **rule), total, tuple(ids)


def beam_search(
    model, row, beam, max_length, min_length=0, limits=None, stop=None, shrinking=False, **rule
):
    """Returns (score, log p, ids), best first.

    Runs to the limit, unless `stop(finished, alive, length)` says that it ends before: both are
    lists, of (score, log p, ids) and of (ids, log p), best first. In a `shrinking` beam what has
    finished and what lives are `beam` together.
    """
    limits = {"min_length": min_length, "ends": (END,), **(limits or {})}
    alive, finished = [((), 0.0)], []
    for length in range(1, max_length + 1):
        candidates = continuations(model, row, alive, limits)
        candidates.sort(key=lambda candidate: -candidate[1])
        if shrinking:
            candidates = candidates[: beam - len(finished)]
        alive, ended = choose(candidates, beam, length == max_length, ends=limits["ends"])
        finished += [score_ids(model, row, tokens, **rule) for tokens, _ in ended]
        finished = sorted(finished, key=lambda hypothesis: -hypothesis[0])[:beam]
        if stop is not None and (not alive or stop(finished, alive, length)):
            break
    return finished


def continuations(model, row, alive, limits):
    """Returns (ids, log p) of every permitted token after every live hypothesis."""
    found = []
    for tokens, total in alive:
        log_probs, _ = model.reference(row, tokens)
        ids = list_permitted(tokens, model.vocabulary, **limits)
        found += [((*tokens, t), total + log_probs[t]) for t in ids if log_probs[t] > -5e8]
    return found


def choose(candidates, beam, at_limit, again=(), reach=1, ends=(END,)):
    """Returns which of the candidates, best first, live on and which have finished.

    One that ends has finished if it is among the best `reach * beam`.

    What has finished `again`, in another group of this step, does not finish here: the next best
    take its place.
    """
    new = [c for c in candidates if not (c[0][-1] in ends and c[0] in again)]
    ended = [c for rank, c in enumerate(new) if c[0][-1] in ends and rank < reach * beam]
    growing = [c for c in candidates if c[0][-1] not in ends]
    if at_limit:
        ended += [c for c in growing if c[0] not in again][:beam]
    return growing[:beam], ended


def diverse_search(
    model,
    row,
    beam,
    num_groups,
    diversity_penalty,
    max_length,
    limits=None,
    shrinking=False,
    reach=1,
    **rule,
):
    """Vijayakumar et al. 2016: groups choose in turn. Returns (score, log p, ids), distinct.

    A group that is `shrinking` has places for what is new alone.
    """
    limits = {"ends": (END,), **(limits or {})}
    alive, finished = [[((), 0.0)]] * num_groups, [[] for _ in range(num_groups)]
    width = beam // num_groups
    for length in range(1, max_length + 1):
        taken, again = [], []
        for group in range(num_groups):
            candidates = continuations(model, row, alive[group], limits)
            candidates.sort(key=lambda c: -(c[1] - diversity_penalty * taken.count(c[0][-1])))
            if shrinking:
                new = [c for c in candidates if c[0] not in again]
                candidates = new[: width - len(finished[group])]
            growing, ended = choose(
                candidates, width, length == max_length, again, reach, limits["ends"]
            )
            alive = [*alive[:group], growing, *alive[group + 1 :]]
            taken += [tokens[-1] for tokens, _ in growing]
            again += [tokens for tokens, _ in ended]
            finished[group] += [score_ids(model, row, tokens, **rule) for tokens, _ in ended]
            finished[group] = sorted(finished[group], key=lambda h: -h[0])[:width]
    found = [hypothesis for pool in finished for hypothesis in pool]
    return sorted(found, key=lambda hypothesis: -hypothesis[0])


def pad(phrases, number=3, length=3):
    """Returns phrases of each batch element as ids `(batch, number, length)`."""
    ids = np.zeros((len(phrases), number, length), "int32")
    for row, ones in enumerate(phrases):
        for place, one in enumerate(ones):
            ids[row, place, : len(one)] = one
    return ids


def contains(ids, phrases):
    """Whether each phrase is a contiguous run of `ids`."""
    return all(
        any(tuple(ids[i : i + len(one)]) == tuple(one) for i in range(len(ids))) for one in phrases
    )

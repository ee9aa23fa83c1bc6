"""SPEC section 18 in plain Python, lists and loops: what the compiled search must return."""

import itertools

import numpy as np
from decoding_models import END

BANNED = (0, 2)


def score(log_prob, coverage, length, gnmt=None, average=False, beta=0.0):
    """`log p / lp + cp` in float64; `coverage` is the sum of a hypothesis' alignments."""
    penalty = ((5.0 + length) / 6.0) ** gnmt if gnmt is not None else 1.0
    penalty = float(length) if average else penalty
    return log_prob / penalty + beta * np.log(np.minimum(coverage, 1.0)).sum()


def all_hypotheses(model, row, max_length, min_length=0, **rule):
    """Every sequence that ends within the limit or fills it, best first: (score, log p, ids)."""
    tokens = [t for t in range(model.vocabulary) if t not in BANNED and t != END]
    found = []
    for length in range(1, max_length + 1):
        for prefix in itertools.product(tokens, repeat=length - 1):
            lasts = [END] if length >= min_length else []
            lasts += tokens if length == max_length else []
            for last in lasts:
                found.append(scored(model, row, (*prefix, last), **rule))
    return sorted(found, key=lambda hypothesis: -hypothesis[0])


def scored(model, row, ids, **rule):
    """Returns (score, log p, ids) of one sequence, stepping the model token by token."""
    total, coverage = 0.0, np.zeros(model.source)
    for position, token in enumerate(ids):
        log_probs, alignment = model.reference(row, ids[:position])
        total += log_probs[token]
        coverage += alignment
    return score(total, coverage, len(ids), **rule), total, tuple(ids)


def beam_search(model, row, beam, max_length, min_length=0, **rule):
    """Runs to the limit, without early stopping. Returns (score, log p, ids), best first."""
    alive, finished = [((), 0.0)], []
    for length in range(1, max_length + 1):
        candidates = []
        for tokens, total in alive:
            log_probs, _ = model.reference(row, tokens)
            for token in range(model.vocabulary):
                if token in BANNED or (token == END and length < min_length):
                    continue
                candidates.append(((*tokens, token), total + log_probs[token]))
        candidates.sort(key=lambda candidate: -candidate[1])
        candidates = candidates[: 2 * beam]
        alive = [c for c in candidates if c[0][-1] != END][:beam]
        ended = [c for rank, c in enumerate(candidates) if c[0][-1] == END and rank < beam]
        if length == max_length:
            ended += alive
        finished += [scored(model, row, tokens, **rule) for tokens, _ in ended]
        finished = sorted(finished, key=lambda hypothesis: -hypothesis[0])[:beam]
    return finished

"""Diverse beam search, Vijayakumar et al. 2016 (https://arxiv.org/abs/1610.02424).

    Y_g = argmax sum over its beams of  log p(y_1 .. y_t) - diversity * (times y_t was taken)

The beam is split into groups that choose one after another at each step. A token counts as
taken once for every live hypothesis of the earlier groups that ended in it at this very step
(Hamming diversity, section 4); the end mark is never counted. The term guides the choice of a
step and is forgotten: log-probabilities and scores are those of the model alone.

Each group has pools of its own, merged at the end. A sequence that several groups found is kept
once.
"""

from typing import NamedTuple

import numpy as np
from keras import ops

from keras_attention import checks
from keras_attention.decoding import hypotheses as pools
from keras_attention.decoding.steps import IMPOSSIBLE, pick


class Part(NamedTuple):
    """What one group has of a step: its pools, its rows of the logits, and its turn."""

    alive: object
    finished: object
    logits: object
    permitted: object
    turn: object


class Groups:
    """A beam as `count` groups of `width`; one group is the plain search, at no cost."""

    def __init__(self, owner, beam_width, groups, diversity):
        hint = "Choose one that divides beam_width."
        self.count = checks.positive_int(owner, "groups", groups, hint)
        if beam_width % groups:
            raise ValueError(
                f"{owner} expects `groups` to divide `beam_width`. "
                f"Received: groups={groups}, beam_width={beam_width}"
            )
        self.width = beam_width // groups
        self.diversity = float(checks.number_in_range(owner, "diversity", diversity, 0, 1e6))

    def part(self, number, search, logits, permitted, beams, taken):
        """Returns the `Part` of a group, given the tokens `taken` before it."""
        if self.count == 1:
            turn = pools.Turn(0, self.width, None, 0.0)
            return Part(search.alive, search.finished, logits, permitted, turn)
        first = number * self.width
        finished = _columns(search.finished, first, self.width)
        if beams == 1:  # every group grows from the one root
            turn = pools.Turn(0, self.width, taken, self.diversity)
            return Part(search.alive, finished, logits, permitted, turn)
        turn = pools.Turn(first, self.width, taken, self.diversity)
        alive = _columns(search.alive, first, self.width)
        here = _rows(logits, beams, first, self.width)
        if permitted.logits is logits:
            permitted = permitted._replace(logits=here)
        else:
            rows = _rows(permitted.logits, beams, first, self.width)
            permitted = permitted._replace(logits=rows)
        return Part(alive, finished, here, permitted, turn)

    def taken(self, before, alive, beam_width):
        """Returns the tokens `(batch, any)` that the groups up to this one took, -1 for none."""
        if self.count == 1:
            return None
        tokens = ops.where(alive.log_probs > pools.EXISTS, alive.codes // beam_width, -1)
        return tokens if before is None else ops.concatenate([before, tokens], axis=1)

    def joined(self, parts):
        """Returns the pools of the groups as one pool."""
        if self.count == 1:
            return parts[0]
        columns = zip(*parts, strict=True)
        return type(parts[0])(*(ops.concatenate(column, axis=1) for column in columns))

    def ranked(self, finished):
        """Returns the joined finished hypotheses, best first."""
        if self.count == 1:
            return finished
        scores, places = ops.top_k(finished.scores, finished.scores.shape[1])
        return pools.Finished(scores, *(pick(values, places) for values in finished[1:]))

    def distinct(self, result, pad_id):
        """Returns a search's result with fillers, at the end, for what stands in it twice."""
        if self.count == 1:
            return result
        nothing = {"ids": pad_id, "lengths": -1, "alignments": 0.0}
        ids, lengths = result["ids"], result["lengths"]
        same = ops.all(ops.expand_dims(ids, 2) == ops.expand_dims(ids, 1), axis=3)
        same = same & (ops.expand_dims(lengths, 2) == ops.expand_dims(lengths, 1))
        beam_width = ids.shape[1]
        earlier = ops.convert_to_tensor(np.tri(beam_width, k=-1, dtype="bool")[None])
        again = ops.any(same & earlier, axis=2)
        scores = ops.where(again, IMPOSSIBLE, result["scores"])
        _, places = ops.top_k(scores, beam_width)
        return {
            name: _picked(_where(again, nothing.get(name, IMPOSSIBLE), value), places)
            for name, value in result.items()
        }


def _columns(pool, first, width):
    return type(pool)(*(values[:, first : first + width] for values in pool))


def _rows(tensor, beams, first, width):
    """Returns the rows of some beams: `(batch * beams, n)` to `(batch * width, n)`."""
    rows, size = ops.shape(tensor)
    batch = rows // beams
    tensor = ops.reshape(tensor, (batch, beams, size))[:, first : first + width]
    return ops.reshape(tensor, (batch * width, size))


def _where(condition, replacement, values):
    for _ in range(len(values.shape) - 2):
        condition = ops.expand_dims(condition, -1)
    return ops.where(condition, replacement, values)


def _picked(values, places):
    """Returns `values[row, places[row]]` of `(batch, beam, ...)`."""
    batch, beam_width, *sizes = ops.shape(values)
    rows = ops.expand_dims(ops.arange(batch, dtype="int32"), 1) * beam_width
    flat = ops.reshape(values, (batch * beam_width, *sizes))
    return ops.take(flat, rows + ops.cast(places, "int32"), axis=0)

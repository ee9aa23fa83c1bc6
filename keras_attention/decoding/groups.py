"""Diverse beam search, Vijayakumar et al. 2016 (https://arxiv.org/abs/1610.02424).

    Y_g = argmax sum over its beams of  log p(y_1 .. y_t) - diversity * (times y_t was taken)

The beam is split into groups that choose one after another at each step. A token counts as
taken once for every live hypothesis of the earlier groups that ended in it at this very step
(Hamming diversity, section 4); the end mark is never counted. The term guides the choice of a
step and is forgotten: log-probabilities and scores are those of the model alone.

Each group has pools of its own, merged at the end. Groups may grow the same hypothesis side by
side, but none finishes what an earlier one finishes at that step: its next best takes the place,
so that no sequence is returned twice. Beams with the same sequence have the same *twin*, the first
of them.
"""

from typing import NamedTuple

from keras import ops

from keras_attention import checks
from keras_attention.decoding import hypotheses as pools
from keras_attention.decoding.steps import pick, top_k
from keras_attention.shapes import reduce_rows


class Part(NamedTuple):
    """What one group has of a step: its pools, its rows of the logits, and its turn."""

    alive: object
    finished: object
    logits: object
    permitted: object
    turn: object


class Earlier(NamedTuple):
    """What the groups before have done in this step, -1 for nothing, each `(batch, any)`.

    `tokens` are those their live hypotheses took, `ended` the codes of what they finished, with
    the twins for parents.
    """

    tokens: object
    ended: object


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

    def part(self, number, search, logits, permitted, beams, earlier):
        """Returns the `Part` of a group, given the `Earlier` groups of this step."""
        # A group passes over what others have finished: up to `2 * width` continuations each.
        count = 2 * self.width * (number + 1)
        if self.count == 1:
            turn = pools.Turn(0, self.width, count)
            return Part(search.alive, search.finished, logits, permitted, turn)
        first = number * self.width
        guided = () if earlier is None else (earlier.tokens, self.diversity)
        finished = _columns(search.finished, first, self.width)
        if beams == 1:  # every group grows from the one root
            turn = pools.Turn(0, self.width, count, *guided)
            return Part(search.alive, finished, logits, permitted, turn)
        turn = pools.Turn(first, self.width, count, *guided)
        alive = _columns(search.alive, first, self.width)
        here = _rows(logits, beams, first, self.width)
        if permitted.logits is logits:
            permitted = permitted._replace(logits=here)
        else:
            rows = _rows(permitted.logits, beams, first, self.width)
            permitted = permitted._replace(logits=rows)
        return Part(alive, finished, here, permitted, turn)

    def again(self, candidates, twins, earlier):
        """Returns which candidates an earlier group has finished, `(batch, count)`, or None."""
        if earlier is None:
            return None
        codes = ops.expand_dims(self._shared(candidates.codes, twins), 2)
        return ops.any(codes == ops.expand_dims(earlier.ended, 1), axis=2)

    def after(self, earlier, candidates, enters, alive, twins):
        """Returns the `Earlier` of the next group, given what this one has chosen."""
        if self.count == 1:
            return None
        tokens = alive.codes // (self.count * self.width)
        tokens = ops.where(alive.log_probs > pools.EXISTS, tokens, -1)
        ended = ops.where(enters, self._shared(candidates.codes, twins), -1)
        if earlier is None:
            return Earlier(tokens, ended)
        pairs = zip(earlier, (tokens, ended), strict=True)
        return Earlier(*(ops.concatenate(pair, axis=1) for pair in pairs))

    def first_twins(self, rows):
        """Returns the twins of the one root: `()` where there is one group."""
        return () if self.count == 1 else ops.zeros_like(rows)

    def twins(self, twins, alive):
        """Returns the first beam that holds the sequence of each live one, `(batch, beam)`."""
        if self.count == 1:
            return ()
        codes = self._shared(alive.codes, twins)
        real = ops.expand_dims(alive.log_probs > pools.EXISTS, 1)
        same = (ops.expand_dims(codes, 2) == ops.expand_dims(codes, 1)) & real
        places = ops.arange(codes.shape[1], dtype="int32")
        firsts = ops.where(same, places, ops.expand_dims(places, 1))
        return reduce_rows(ops.min, firsts, axis=2)

    def _shared(self, codes, twins):
        """Returns codes that are equal where whole sequences are."""
        parents = codes % (self.count * self.width)
        return codes - parents + pick(twins, parents)

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
        scores, places = top_k(finished.scores, finished.scores.shape[1])
        return pools.Finished(scores, *(pick(values, places) for values in finished[1:]))


def _columns(pool, first, width):
    return type(pool)(*(values[:, first : first + width] for values in pool))


def _rows(tensor, beams, first, width):
    """Returns the rows of some beams: `(batch * beams, n)` to `(batch * width, n)`."""
    rows, size = ops.shape(tensor)
    batch = rows // beams
    tensor = ops.reshape(tensor, (batch, beams, size))[:, first : first + width]
    return ops.reshape(tensor, (batch * width, size))

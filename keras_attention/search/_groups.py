"""Diverse beam search, Vijayakumar et al. 2016 (https://arxiv.org/abs/1610.02424).

    Y_g = argmax sum over its beams of  log p(y_1 .. y_t) - diversity * (times y_t was taken)

The beam is split into groups that choose tokens one after another at each step. A token is counted
once for every live hypothesis of the earlier groups that chose it at the same step (Hamming
diversity, section 4); EOS is never counted. The term affects only the choice of a step:
log-probabilities and scores are those of the model alone.

Each group has its own pools, merged at the end. Groups may grow the same hypothesis in parallel,
but no group finishes a hypothesis that an earlier one finishes at that step: its next best takes
the place. So no sequence is returned twice. `duplicates` maps each beam to the first beam with the
same sequence.
"""

from typing import NamedTuple

import keras
from keras import ops

from keras_attention._utils.shapes import get_shape, reduce_rows
from keras_attention.search import _hypotheses as pools
from keras_attention.search._indexing import gather_per_row, top_k
from keras_attention.search._log_probs import POSSIBLE_THRESHOLD


class GroupStep(NamedTuple):
    """The data of one group in a step: its pools, its part of the logits, and its slice."""

    alive: object
    finished: object
    logits: object
    restricted: object
    group_slice: object


class EarlierGroups(NamedTuple):
    """The choices of the earlier groups in this step, -1 for none, each `(batch, any)`.

    `tokens` are those of their live hypotheses. `ended` is `token_and_parent` of their finished
    ones, with `duplicates` applied to the parents.
    """

    tokens: object
    ended: object


class BeamGroups:
    """A beam as `count` groups of `width`; one group is the plain search, without overhead.

    Each hypothesis has `num_ends` continuations that end, one for each EOS token.
    """

    def __init__(self, beam_width, num_groups, diversity_penalty, num_ends=1):
        self.count, self.width = num_groups, beam_width // num_groups
        self.diversity_penalty = float(diversity_penalty)
        # As many continuations as a group may skip because they end, and `width` that grow.
        self.num_compared = (num_ends + 1) * self.width

    def slice_group(self, group_index, loop_state, logits, restricted, beams, earlier):
        """Returns the `GroupStep` of a group, given the `EarlierGroups` of this step."""
        # A group skips what others have finished: up to `num_compared` continuations each.
        count = self.num_compared * (group_index + 1)
        if self.count == 1:
            group_slice = pools.GroupSlice(0, self.width, count)
            return GroupStep(loop_state.alive, loop_state.finished, logits, restricted, group_slice)
        first = group_index * self.width
        guided = () if earlier is None else (earlier.tokens, self.diversity_penalty)
        finished = _slice_beams(loop_state.finished, first, self.width)
        if beams == 1:  # every group grows from the one root
            group_slice = pools.GroupSlice(0, self.width, count, *guided)
            return GroupStep(loop_state.alive, finished, logits, restricted, group_slice)
        group_slice = pools.GroupSlice(first, self.width, count, *guided)
        alive = _slice_beams(loop_state.alive, first, self.width)
        here = _slice_rows(logits, beams, first, self.width)
        if restricted.logits is logits:
            restricted = restricted._replace(logits=here)
        else:
            rows = _slice_rows(restricted.logits, beams, first, self.width)
            restricted = restricted._replace(logits=rows)
        if restricted.fusion_terms is not None:
            rows = _slice_rows(restricted.fusion_terms, beams, first, self.width)
            restricted = restricted._replace(fusion_terms=rows)
        return GroupStep(alive, finished, here, restricted, group_slice)

    def find_earlier_finished(self, candidates, duplicates, earlier):
        """Returns which candidates an earlier group has finished, `(batch, count)`, or None."""
        if earlier is None:
            return None
        token_and_parent = ops.expand_dims(
            self._canonicalize(candidates.token_and_parent, duplicates), 2
        )
        return ops.any(token_and_parent == ops.expand_dims(earlier.ended, 1), axis=2)

    def extend_earlier(self, earlier, candidates, is_finished, alive, duplicates):
        """Returns the `EarlierGroups` of the next group, after the choices of this one."""
        if self.count == 1:
            return None
        tokens = alive.token_and_parent // (self.count * self.width)
        tokens = ops.where(alive.log_probs > POSSIBLE_THRESHOLD, tokens, -1)
        ended = ops.where(
            is_finished, self._canonicalize(candidates.token_and_parent, duplicates), -1
        )
        if earlier is None:
            return EarlierGroups(tokens, ended)
        pairs = zip(earlier, (tokens, ended), strict=True)
        return EarlierGroups(*(ops.concatenate(pair, axis=1) for pair in pairs))

    def allocate_duplicates(self, rows):
        """Returns the duplicates of the single root: `()` if there is one group."""
        return () if self.count == 1 else ops.zeros_like(rows)

    def find_duplicates(self, duplicates, alive):
        """Returns the first beam with the sequence of each live one, `(batch, beam)`."""
        if self.count == 1:
            return ()
        token_and_parent = self._canonicalize(alive.token_and_parent, duplicates)
        real = ops.expand_dims(alive.log_probs > POSSIBLE_THRESHOLD, 1)
        same = (ops.expand_dims(token_and_parent, 2) == ops.expand_dims(token_and_parent, 1)) & real
        places = ops.arange(token_and_parent.shape[1], dtype="int32")
        firsts = ops.where(same, places, ops.expand_dims(places, 1))
        return reduce_rows(ops.min, firsts, axis=2)

    def _canonicalize(self, token_and_parent, duplicates):
        """Returns `token_and_parent` values that are equal if whole sequences are equal."""
        parents = token_and_parent % (self.count * self.width)
        return token_and_parent - parents + gather_per_row(duplicates, parents)

    def join_groups(self, parts):
        """Returns the pools of the groups as one pool."""
        if self.count == 1:
            return parts[0]
        return keras.tree.map_structure(lambda *column: ops.concatenate(column, axis=1), *parts)

    def sort_finished(self, finished):
        """Returns the joined finished hypotheses, best first."""
        if self.count == 1:
            return finished
        scores, places = top_k(finished.scores, finished.scores.shape[1])
        others = keras.tree.map_structure(
            lambda values: gather_per_row(values, places), finished[1:]
        )
        return pools.FinishedHypotheses(scores, *others)


def _slice_beams(pool, first, width):
    return keras.tree.map_structure(lambda values: values[:, first : first + width], pool)


def _slice_rows(tensor, beams, first, width):
    """Returns the rows of some beams: `(batch * beams, n)` to `(batch * width, n)`."""
    rows, size = get_shape(tensor)
    batch = rows // beams
    tensor = ops.reshape(tensor, (batch, beams, size))[:, first : first + width]
    return ops.reshape(tensor, (batch * width, size))

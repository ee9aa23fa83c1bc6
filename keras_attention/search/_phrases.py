"""Must-contain phrases: runs of ids that every hypothesis of a batch element has to contain.

Dynamic beam allocation, Post and Vilar 2018 (https://arxiv.org/abs/1804.06609), sections 3.2 and
3.3, with sorts over all candidates like Hu et al. 2019 (https://aclanthology.org/N19-1090):

    left(y) = sum of |phrase| over the unmet phrases - longest open match
    bank(y) = C - left(y),    C = sum of |phrase| over all phrases

A step compares the best continuations over all hypotheses, the best one of each hypothesis, and its
next token of each unmet phrase. The `beam` places are divided evenly among the `C + 1` banks: in
each round every bank, from the last on, gets `max(1, beam // (C + 1))` of its best candidates. So
unused places go to other banks, and without phrases this is a plain beam search. Candidates for
which `left(y)` exceeds the remaining positions come last: they complete all phrases only if
some of them overlap. So a beam always keeps hypotheses that can be completed.

Matches are tracked as by the Shift-And algorithm (Baeza-Yates and Gonnet 1992), all at once:

    matched[p, k] = (k = 0 or previous matched[p, k - 1]) and token = phrase[p, k]

Phrases may thus overlap themselves and each other: `a a a b` contains `a a b`.
"""

from typing import NamedTuple

import numpy as np
from keras import ops

from keras_attention._utils.flat_beams import gather_beams
from keras_attention._utils.shapes import get_shape, reduce_rows
from keras_attention.search._argument_tensors import check_rows, get_static_value, to_int32_tensor
from keras_attention.search._end_ids import is_end
from keras_attention.search._hypotheses import Candidates
from keras_attention.search._indexing import gather_per_row, top_k
from keras_attention.search._log_probs import IMPOSSIBLE, POSSIBLE_THRESHOLD


class Phrases(NamedTuple):
    """The phrases of a search.

    `ids` are int32 `(batch, phrases, length + 1)`, of which the first `lengths` `(batch, phrases)`
    count; at least one column of padding follows. A phrase of length 0 is none.
    """

    ids: object
    lengths: object
    owner: str
    pad_id: int
    end_ids: tuple
    is_static: bool  # whether the ids can be read, outside of a graph

    @classmethod
    def from_constraints(cls, owner, batch, constraints):
        """Returns the phrases of a search, or None if there are none.

        Raises:
            ValueError: If the ids do not fit, or a phrase has an id that a search never produces.
        """
        if constraints.phrases is None:
            return None
        special_ids = constraints.special_ids
        hint = "int ids (batch, num_phrases, phrase_length)"
        ids = to_int32_tensor(owner, "phrases", constraints.phrases, 3, hint)
        check_rows(owner, "phrases", ids, batch)
        if None in ids.shape[1:]:
            raise ValueError(
                f"{owner} expects `phrases` whose number and length are static. Pad them. "
                f"Received: phrases.shape={tuple(ids.shape)}"
            )
        if 0 in ids.shape[1:]:
            return None
        values = get_static_value(ids)
        if values is not None:
            _check_values(owner, values, constraints)
        is_counted = ops.cast(ids != special_ids.pad_id, "int32")
        lengths = ops.sum(ops.cumprod(is_counted, axis=2), axis=2)
        padding = ((0, 0), (0, 0), (0, 1))
        ids = ops.pad(ids, padding, constant_values=special_ids.pad_id)
        is_static = values is not None
        return cls(ids, lengths, owner, special_ids.pad_id, special_ids.end_ids, is_static)

    def mask_unknown_ids(self, vocabulary):
        """Replaces ids outside of the vocabulary by padding; raises if the ids are concrete.

        No hypothesis contains padding, so such a phrase is never met.
        """
        if self.is_static:
            values = get_static_value(self.ids)
            wrong = np.argwhere(values >= vocabulary)
            if len(wrong):
                row, phrase, place = wrong[0]
                raise ValueError(
                    f"{self.owner} expects `phrases` with ids below {vocabulary}, the vocabulary "
                    f"of the logits. Received: phrases[{row}, {phrase}, {place}]="
                    f"{values[row, phrase, place]}"
                )
        is_valid = (self.ids >= 0) & (self.ids < vocabulary)
        return self._replace(ids=ops.where(is_valid, self.ids, self.pad_id))

    def check_search(self, options, limits, prefix):
        """Raises if the options of the beam or the length limits do not allow the phrases.

        Args:
            options: The `BeamOptions`.
            limits: Int32 `(batch,)`, the maximum number of tokens of each element.
            prefix: The `Prefix` of the search, or None.
        """
        if options.num_groups > 1 or options.stopping == "shrinking":
            raise ValueError(
                f"{self.owner} with `phrases` expects num_groups=1 and a `stopping` other than "
                f"'shrinking', because the phrases divide the beam. Received: "
                f"num_groups={options.num_groups}, stopping={options.stopping!r}"
            )
        limits = get_static_value(limits)
        if limits is None or not self.is_static or not len(limits):
            return
        matched, room = self.start(len(limits)), limits
        if prefix is not None:
            if prefix.static_lengths is None:
                return
            taken = np.minimum(prefix.static_lengths, limits)
            room = limits - taken
            for place in range(taken.max()):
                after = self.append_step(matched, prefix.ids[:, place : place + 1])
                matched = ops.where((place < taken)[:, None, None], after, matched)
        left = get_static_value(self.count_left(matched)[0])
        rows = np.flatnonzero(left > room)
        if len(rows):
            raise ValueError(
                f"{self.owner} expects `phrases` that together fit within the length limit and "
                f"after the prefix. Increase `max_length`, or merge phrases that overlap. "
                f"Received: {left[rows[0]]} phrase tokens for {room[rows[0]]} positions in batch "
                f"element {rows[0]}"
            )

    def start(self, batch):
        """Returns what an empty hypothesis of each element has matched, `(batch, phrases, length)`.

        This is boolean: whether the last `k + 1` ids are the first `k + 1` of a phrase. The last
        place of a phrase stays True: then the phrase is met.
        """
        _, phrases, width = self.ids.shape
        return ops.zeros((batch, phrases, width - 1), dtype="bool")

    def append_step(self, matched, tokens, parents=None, beams=1):
        """Returns what hypotheses have matched after a step, `(batch * beam, phrases, length)`.

        Args:
            matched: The same before the step, with `batch * beams` rows.
            tokens: Int32 `(batch, beam)`.
            parents: Int32 `(batch, beam)`, the beam that each hypothesis grew from.
            beams: Static int.
        """
        if parents is not None:
            matched = gather_beams(matched, parents, beams)
        batch, beam = get_shape(tokens)
        _, phrases, length = matched.shape
        matched = ops.reshape(matched, (batch, beam, 1, phrases, length))
        matched = self.match(matched, ops.expand_dims(tokens, 2))
        return ops.reshape(matched, (batch * beam, phrases, length))

    def match(self, matched, tokens):
        """Returns the matches after each token, boolean `(batch, beams, count, phrases, length)`.

        Args:
            matched: Boolean `(batch, beams, 1, phrases, length)`.
            tokens: Int32 `(batch, beams, count)`.
        """
        ids = ops.expand_dims(self.ids, (1, 2))[..., :-1]
        is_open = ops.concatenate([ops.ones_like(matched[..., :1]), matched[..., :-1]], axis=-1)
        grown = is_open & (ids == ops.expand_dims(tokens, (3, 4)))
        places = ops.arange(ids.shape[-1], dtype="int32")
        is_last = places == ops.expand_dims(self.lengths, (1, 2, 4)) - 1
        return grown | (matched & is_last)

    def count_matched(self, matched):
        """Returns the longest match of each phrase, int32: `(..., length)` to `(...)`."""
        counts = np.arange(1, matched.shape[-1] + 1, dtype="int32")
        return reduce_rows(ops.max, ops.where(matched, counts, 0), axis=-1)

    def count_left(self, matched):
        """Returns how many tokens suffice to complete all phrases, and how many are necessary.

        Args:
            matched: Boolean `(batch, ..., phrases, length)`.

        Returns:
            Two int32 tensors `(batch, ...)`: `left`, which counts unmet phrases as if they could
            not overlap, and the longest rest of a phrase. They are 0 where all phrases are met.
        """
        counts = self.count_matched(matched)
        between = tuple(range(1, len(matched.shape) - 2))
        lengths = ops.expand_dims(self.lengths, between) if between else self.lengths
        is_unmet = counts < lengths
        open_match = reduce_rows(ops.max, ops.where(is_unmet, counts, 0), axis=-1)
        left = ops.sum(ops.where(is_unmet, lengths, 0), axis=-1) - open_match
        return left, reduce_rows(ops.max, lengths - counts, axis=-1)

    def begin_step(self, matched, batch, beams, remaining):
        """Returns the `PhraseStep` of a step that leaves `remaining` `(batch,)` positions."""
        _, phrases, width = self.ids.shape
        matched = ops.reshape(matched, (batch, beams, 1, phrases, width - 1))
        return PhraseStep(self, matched, ops.expand_dims(remaining, 1))


class PhraseStep(NamedTuple):
    """The phrases in one step: the candidates that they add, and how they divide the beam.

    `matched` is `(batch, beams, 1, phrases, length)`, before the step. `remaining` `(batch, 1)` are
    the positions after it.
    """

    phrases: Phrases
    matched: object
    remaining: object

    def append_next_tokens(self, ids, logits):
        """Returns logits and ids, with the next token of each unmet phrase in the last columns.

        A column without a token, or with one of a later column, has padding, which is forbidden.

        Args:
            ids: Int32 `(rows, width)`, the most probable tokens.
            logits: Float32 `(rows, vocabulary)`.
        """
        num_phrases = self.matched.shape[3]
        counts = self.phrases.count_matched(self.matched[:, :, 0])  # (batch, beams, phrases)
        places = ops.arange(self.phrases.ids.shape[2], dtype="int32")
        is_next = places == ops.expand_dims(counts, 3)
        next_ids = ops.sum(ops.where(is_next, ops.expand_dims(self.phrases.ids, 1), 0), axis=3)
        next_ids = ops.reshape(next_ids, (get_shape(ids)[0], num_phrases))
        width = ids.shape[1]
        ids = ops.concatenate([ids, next_ids], axis=1)
        is_later = ~np.tri(width + num_phrases, num_phrases, -width, dtype="bool")
        same = ops.expand_dims(ids, 2) == ops.expand_dims(next_ids, 1)
        is_repeated = ops.any(same & ops.convert_to_tensor(is_later), axis=2)
        ids = ops.where(is_repeated, self.phrases.pad_id, ids)
        return gather_per_row(logits, ids), ids

    def select(self, totals, token_and_parent, beam_width, count):
        """Returns the `Candidates` of a step, the best of each bank first.

        Args:
            totals: Float32 `(batch, beams * width)`, the log-probabilities of the continuations;
                the last columns of each hypothesis are those of `append_next_tokens`.
            token_and_parent: Int32, likewise.
            beam_width: Static int, the factor of `token_and_parent`.
            count: Static int, the number of the best continuations over all hypotheses.
        """
        batch, beams = get_shape(self.matched)[:2]
        width = totals.shape[1] // beams
        num_phrases = self.matched.shape[3]
        tokens = ops.reshape(token_and_parent // beam_width, (batch, beams, width))
        matched = self.phrases.match(self.matched, tokens)
        left, necessary = (
            ops.reshape(one, (batch, beams * width)) for one in self.phrases.count_left(matched)
        )
        ended = is_end(token_and_parent // beam_width, self.phrases.end_ids)
        room = ops.where(ended, 0, self.remaining)
        totals = ops.where(necessary > room, IMPOSSIBLE, totals)
        growing = ops.reshape(ops.where(ended, IMPOSSIBLE, totals), (batch, beams, width))
        best = growing >= reduce_rows(ops.max, growing, axis=2, keepdims=True)
        is_phrase = ops.arange(width, dtype="int32") >= width - num_phrases
        is_compared = ops.reshape(best | is_phrase, (batch, beams * width))
        is_compared = is_compared | (totals >= top_k(totals, count)[0][:, -1:])
        totals = ops.where(is_compared, totals, IMPOSSIBLE)
        compared = min(beams * width, count + beams * (1 + num_phrases))
        totals, places = top_k(totals, compared)
        token_and_parent, left = (gather_per_row(x, places) for x in (token_and_parent, left))
        ended = is_end(token_and_parent // beam_width, self.phrases.end_ids)
        orders = self._order(left, beam_width, ended)
        orders = (ops.where(totals > POSSIBLE_THRESHOLD, one, IMPOSSIBLE) for one in orders)
        order, growing_order = orders
        _, places = top_k(order, compared)
        return Candidates(
            *(gather_per_row(x, places) for x in (totals, token_and_parent)),
            gather_per_row(ended, places),
            gather_per_row(growing_order, places),
        )

    def _order(self, left, beam_width, ended):
        """Returns two orders of candidates, float32 `(batch, count)`; larger ones come first.

        The first is that of all candidates, the second that of those that grow. Candidates of the
        same bank and round have the same value, so a stable sort keeps them best first.
        """
        count = left.shape[1]
        banks = ops.sum(self.phrases.lengths, axis=1, keepdims=True) + 1
        places = ops.maximum(beam_width // banks, 1)  # of a bank, in each round
        num_banks = self.phrases.ids.shape[1] * (self.phrases.ids.shape[2] - 1) + 1
        bank = ops.one_hot(left, num_banks, dtype="int32")
        growing = ops.expand_dims(ops.cast(ops.logical_not(ended), "int32"), 2)
        late = count * ops.cast(left > self.remaining, "int32")  # after all rounds of the others
        orders = []
        for counted in (bank, bank * growing):
            ranks = ops.sum(bank * (ops.cumsum(counted, axis=1) - counted), axis=2)
            rounds = ranks // places + late
            orders.append(-ops.cast(rounds * num_banks + left, "float32"))
        return orders


def _check_values(owner, values, constraints):
    """Raises if phrases have ids that no hypothesis can contain."""
    special_ids = constraints.special_ids
    is_pad, width = values == special_ids.pad_id, values.shape[2]
    lengths = np.max(np.where(is_pad, 0, np.arange(width) + 1), axis=2, initial=0)
    counted = np.arange(width) < lengths[..., None]
    never = [special_ids.start_id, *special_ids.end_ids, *constraints.suppress_ids]
    wrong = np.argwhere(counted & (is_pad | (values < 0) | np.isin(values, never)))
    if len(wrong):
        row, phrase, place = wrong[0]
        raise ValueError(
            f"{owner} expects `phrases` that a hypothesis can contain: without BOS, EOS, ids of "
            f"`suppress_ids` and negative ids, padded after the ids only. Received: "
            f"phrases[{row}, {phrase}, {place}]={values[row, phrase, place]}"
        )

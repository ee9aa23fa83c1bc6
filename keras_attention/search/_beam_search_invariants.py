"""The invariants of a beam search, a method for each: the checks of `check_beam_search`."""

import dataclasses

import keras
import numpy as np
from keras import ops

from keras_attention.search import _enumeration
from keras_attention.search._checked_step import CheckedStep
from keras_attention.search._log_probs import POSSIBLE_THRESHOLD
from keras_attention.search.beam import beam_search
from keras_attention.search.beam_options import BeamOptions
from keras_attention.search.constraints import Constraints, SpecialIds
from keras_attention.search.greedy import greedy_search
from keras_attention.search.penalties import GNMTLengthPenalty, convert_penalty

MAX_ENUMERATED = 100  # the maximum number of enumerated sequences


class SearchInputs:
    """The inputs of a search; `select_rows` selects batch elements of them."""

    def __init__(self, state, memory, memory_mask, take_rows=None):
        self.state, self.memory, self.memory_mask = state, memory, memory_mask
        self.take_rows = take_rows

    def select_rows(self, rows, batch):
        state, mask = _take_rows(self.state, rows, batch), _take_rows(self.memory_mask, rows, batch)
        if self.take_rows is not None:
            return SearchInputs(state, self.take_rows(self.memory, rows), mask)
        return SearchInputs(state, _take_rows(self.memory, rows, batch), mask)


@dataclasses.dataclass(frozen=True)
class BeamSearchInvariants:
    """Each method raises AssertionError if an invariant does not hold."""

    step: object
    special_ids: SpecialIds
    tolerance: float
    max_length: int = 6
    beam_width: int = 3
    length_penalty: object = None
    options: BeamOptions = BeamOptions()

    def __post_init__(self):
        penalty = convert_penalty(
            "check_beam_search", "length_penalty", self.length_penalty, GNMTLengthPenalty
        )
        object.__setattr__(self, "length_penalty", penalty)

    def bind_step(self, inputs):
        return CheckedStep("check_beam_search", self.step, inputs.state, inputs.memory)

    def search(self, inputs):
        return _to_numpy(self.run_search(inputs.state, inputs.memory, inputs.memory_mask))

    def run_search(self, state, memory, memory_mask):
        return beam_search(
            self.step,
            state,
            memory,
            max_length=self.max_length,
            beam_width=self.beam_width,
            length_penalty=self.length_penalty,
            constraints=Constraints(special_ids=self.special_ids),
            options=dataclasses.replace(self.options, memory_mask=memory_mask),
        )

    def check_teacher_forcing(self, inputs, found):
        """Scores each hypothesis alone, one per batch element, as in training."""
        worst = 0.0
        for place in range(found["ids"].shape[1]):
            here = {name: value[:, place : place + 1] for name, value in found.items()}
            real = here["lengths"] >= 0
            log_probs, by_token, alignments = self._score_teacher_forced(
                inputs, here["ids"], here["lengths"]
            )
            scores = self._scores(inputs, log_probs, alignments, here["lengths"])
            expected = {
                "log_probs": log_probs,
                "scores": scores,
                "token_log_probs": by_token,
                "alignments": alignments,
            }
            for name, value in expected.items():
                is_real = real.reshape(real.shape + (1,) * (value.ndim - 2))
                difference = np.where(is_real, _relative_difference(here[name], value), 0.0)
                if not difference.max(initial=0.0) <= self.tolerance:
                    row = np.argwhere(~(difference <= self.tolerance))[0][0]
                    raise AssertionError(
                        f"check_beam_search found {name} that differ from those of feeding the "
                        f"returned ids to `step`. In batch element {row}, place {place}, ids "
                        f"{here['ids'][row, 0].tolist()}: "
                        f"{_format_values(here[name][row])} from the search, "
                        f"{_format_values(value[row])} teacher-forced"
                    )
            worst = max(
                worst, np.where(real, _relative_difference(here["log_probs"], log_probs), 0).max()
            )
            self._check_alignments(here["alignments"], inputs.memory_mask)
        return float(worst)

    def _check_alignments(self, alignments, memory_mask):
        sums = alignments.sum(axis=-1)
        if alignments.min(initial=0.0) < 0.0 or sums.max(initial=0.0) > 1.0 + self.tolerance:
            raise AssertionError(
                f"check_beam_search expects alignments of at least 0 that sum to at most 1. "
                f"Received: smallest {alignments.min():.3g}, largest sum {sums.max():.5g}"
            )
        if memory_mask is not None:
            outside = ~ops.convert_to_numpy(memory_mask)[:, None, None, :]
            if np.where(outside, alignments, 0.0).any():
                raise AssertionError(
                    "check_beam_search expects alignments of exactly 0 where `memory_mask` is "
                    f"False. Received: {np.where(outside, alignments, 0.0).max():.3g}"
                )

    def check_well_formed(self, found):
        max_length, pad_id = self.max_length, self.special_ids.pad_id
        end_ids = {*self.special_ids.end_ids}
        for row, (all_ids, lengths) in enumerate(zip(found["ids"], found["lengths"], strict=True)):
            real = [tuple(i[:n].tolist()) for i, n in zip(all_ids, lengths, strict=True) if n >= 0]
            padded = np.arange(max_length) >= lengths[:, None]
            ends = [
                end_ids.isdisjoint(ids[:-1]) and (len(ids) == max_length or ids[-1] in end_ids)
                for ids in real
            ]
            banned = {pad_id, self.special_ids.start_id} - end_ids
            broken = {
                "the same hypothesis twice": len(set(real)) < len(real),
                "hypotheses that are not sorted": (np.diff(found["scores"][row]) > 0).any(),
                "padding before a hypothesis": (lengths[: len(real)] < 0).any(),
                "ids after the end": (all_ids[padded] != pad_id).any(),
                "a hypothesis that does not end with EOS": not all(ends),
                "padding or BOS inside a hypothesis": any(banned & set(i) for i in real),
            }
            for text, wrong in broken.items():
                if wrong:
                    raise AssertionError(f"check_beam_search found {text}, element {row}: {real}")

    def check_early_stopping(self, inputs, found):
        if self.options.stopping != "exact":
            return
        options = dataclasses.replace(self.options, stopping="limit")
        late = dataclasses.replace(self, options=options).search(inputs)
        self.assert_same("stopping early changes the answer", inputs, found, late)

    def check_batch_independence(self, inputs, found):
        batch = len(found["ids"])
        backwards = [*reversed(range(batch)), 0] if batch else []
        for rows in ([0], backwards) if batch else ():
            part = inputs.select_rows(rows, batch)
            expected = {name: value[rows] for name, value in found.items()}
            text = f"the batch elements {rows} alone have other results than in their batch"
            self.assert_same(text, part, self.search(part), expected)

    def check_greedy(self, inputs):
        greedy = greedy_search(
            self.step,
            inputs.state,
            inputs.memory,
            max_length=self.max_length,
            constraints=Constraints(special_ids=self.special_ids),
        )
        greedy = _to_numpy(greedy)
        plain = BeamOptions(reorder_cache=self.options.reorder_cache)
        narrow = dataclasses.replace(self, beam_width=1, length_penalty=None, options=plain)
        greedy = {name: value[:, None] for name, value in greedy.items()}
        exists = greedy["log_probs"] > POSSIBLE_THRESHOLD
        greedy["lengths"] = np.where(exists, greedy["lengths"], -1)
        greedy["scores"] = greedy["log_probs"]
        text = "a beam of 1 differs from the greedy search"
        narrow.assert_same(text, inputs, narrow.search(inputs), greedy)

    def check_exhaustive(self, inputs):
        checked_step = self.bind_step(inputs)
        logits, _, _ = checked_step(
            ops.full((checked_step.batch,), self.special_ids.start_id, "int32"),
            checked_step.leaves,
        )
        end_ids, pad_id = self.special_ids.end_ids, self.special_ids.pad_id
        special = {self.special_ids.start_id, pad_id, *end_ids}
        tokens = sorted(set(range(logits.shape[1])) - special)
        length = _enumeration.choose_enumerable_length(
            len(tokens), len(end_ids), MAX_ENUMERATED, self.max_length
        )
        if length == 0:
            return
        ids, lengths = _enumeration.enumerate_sequences(tokens, end_ids, pad_id, length)
        shape = (checked_step.batch, *ids.shape)
        ids, lengths = np.broadcast_to(ids, shape), np.broadcast_to(lengths, shape[:2])
        log_probs, _, alignments = self._score_teacher_forced(inputs, ids, lengths)
        scores = self._scores(inputs, log_probs, alignments, lengths)
        exists = log_probs > POSSIBLE_THRESHOLD
        scores = np.where(exists, scores, -1e9)
        order = np.argsort(-scores, axis=1, kind="stable")
        expected = {
            "ids": np.where(exists[..., None], ids, pad_id),
            "lengths": np.where(exists, lengths, -1),
            "log_probs": np.where(exists, log_probs, -1e9),
            "scores": scores,
        }
        expected = {
            name: np.stack([row[o] for row, o in zip(value, order, strict=True)])
            for name, value in expected.items()
        }
        options = dataclasses.replace(self.options, stopping="exact", num_groups=1)
        wide = dataclasses.replace(
            self, beam_width=ids.shape[1], max_length=length, options=options
        )
        text = "a wide beam is not the list of all sequences"
        self.assert_same(text, inputs, wide.search(inputs), expected)

    def check_compiled(self, inputs, found, jit_compile):
        if keras.backend.backend() != "tensorflow":
            return
        import tensorflow as tf

        for jit in (False, True) if jit_compile else (False,):
            function = tf.function(self.run_search, autograph=False, jit_compile=jit)
            result = function(inputs.state, inputs.memory, inputs.memory_mask)
            name = "under XLA" if jit else "in a graph"
            text = f"a search {name} differs from an eager one"
            self.assert_same(text, inputs, _to_numpy(result), found)

    def assert_same(self, text, inputs, found, expected):
        """Raises unless two results agree, except for hypotheses of almost equal scores."""
        wrong = ~(_relative_difference(found["scores"], expected["scores"]) <= self.tolerance)
        self._raise_at(wrong, text, found, expected)
        alike = (found["ids"] == expected["ids"]).all(axis=-1)
        alike &= found["lengths"] == expected["lengths"]
        for name in {"log_probs", "token_log_probs", "alignments"} & set(found) & set(expected):
            wrong = ~(_relative_difference(found[name], expected[name]) <= self.tolerance)
            wrong = wrong.reshape(*alike.shape, -1).any(axis=2)
            self._raise_at(wrong & alike, text, found, expected)
        if not alike.all():  # two hypotheses have almost equal scores, or a score is wrong
            for result in (found, expected):
                lies = self._find_inconsistent(inputs, result)
                self._raise_at(lies & ~alike, text, found, expected)

    def _find_inconsistent(self, inputs, result):
        """Returns True where a score differs from that of teacher forcing, `(batch, beam)`."""
        ids, lengths = result["ids"], result["lengths"]
        log_probs, _, alignments = self._score_teacher_forced(inputs, ids, lengths)
        scores = self._scores(inputs, log_probs, alignments, lengths)
        return ~(_relative_difference(result["scores"], scores) <= self.tolerance) & (lengths >= 0)

    def _score_teacher_forced(self, inputs, ids, lengths):
        return _enumeration.score_teacher_forced(
            self.bind_step(inputs), ids, lengths, self.special_ids.start_id
        )

    def _scores(self, inputs, log_probs, alignments, lengths):
        return _enumeration.apply_penalties(
            log_probs,
            alignments,
            lengths,
            self.length_penalty,
            self.options.coverage_penalty,
            inputs.memory_mask,
        )

    def _raise_at(self, wrong, text, found, expected):
        if wrong.any():
            row, place = np.argwhere(wrong)[0]
            pair = [
                f"{x['ids'][row, place].tolist()} with {x['log_probs'][row, place]:.6g}, score "
                f"{x['scores'][row, place]:.6g}"
                for x in (found, expected)
            ]
            raise AssertionError(
                f"check_beam_search found that {text}. In batch element {row}, place {place}: "
                f"{pair[0]}; expected {pair[1]}"
            )


def _take_rows(tree, rows, batch):
    """Returns the selected batch elements of every tensor whose first axis is the batch."""

    def take(leaf):
        shape = getattr(leaf, "shape", ())
        if len(shape) == 0 or shape[0] != batch:
            return leaf
        return ops.take(ops.convert_to_tensor(leaf), np.asarray(rows, "int32"), axis=0)

    return keras.tree.map_structure(take, tree)


def _to_numpy(result):
    return {name: ops.convert_to_numpy(value) for name, value in result.items()}


def _relative_difference(one, other):
    return np.abs(one - other) / np.maximum(1.0, np.abs(other))


def _format_values(values):
    return np.array2string(np.ravel(values)[:8], precision=6)

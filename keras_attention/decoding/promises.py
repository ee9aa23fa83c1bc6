"""What a beam search promises, a method for each promise: what `check_beam_search` runs."""

import sys

import keras
import numpy as np
from keras import ops

from keras_attention.decoding import oracle, steps
from keras_attention.decoding.beam import beam_search
from keras_attention.decoding.greedy import greedy_search
from keras_attention.decoding.hypotheses import EXISTS

ENUMERATED = 100  # at most so many sequences are enumerated


class Inputs:
    """What a search is given; `rows` of it on demand."""

    def __init__(self, state, memory, memory_mask, take_rows=None):
        self.state, self.memory, self.memory_mask = state, memory, memory_mask
        self.take_rows = take_rows

    def rows(self, rows, batch):
        state, mask = _taken(self.state, rows, batch), _taken(self.memory_mask, rows, batch)
        if self.take_rows is not None:
            return Inputs(state, self.take_rows(self.memory, rows), mask)
        return Inputs(state, _taken(self.memory, rows, batch), mask)


class Promises:
    """Each method raises AssertionError where a promise is broken."""

    def __init__(self, step, reorder, tolerance, special):
        self.step, self.reorder = step, reorder
        self.tolerance, self.special = tolerance, special

    def run(self, inputs):
        return steps.CheckedStep("check_beam_search", self.step, inputs.state, inputs.memory)

    def search(self, inputs, **options):
        given = {"memory_mask": inputs.memory_mask, "reorder": self.reorder, **self.special}
        return _arrays(beam_search(self.step, inputs.state, inputs.memory, **options, **given))

    def teacher_forcing(self, inputs, found, ranked):
        """Each hypothesis is fed alone, one row a batch row, as in training."""
        worst = 0.0
        for place in range(found["ids"].shape[1]):
            here = {name: value[:, place : place + 1] for name, value in found.items()}
            real = here["lengths"] >= 0
            log_probs, by_token, alignments = self._forced(inputs, here["ids"], here["lengths"])
            scores = self._scores(inputs, log_probs, alignments, here["lengths"], ranked)
            expected = {
                "log_probs": log_probs,
                "scores": scores,
                "token_log_probs": by_token,
                "alignments": alignments,
            }
            for name, value in expected.items():
                kept = real.reshape(real.shape + (1,) * (value.ndim - 2))
                difference = np.where(kept, _difference(here[name], value), 0.0)
                if not difference.max(initial=0.0) <= self.tolerance:
                    row = np.argwhere(~(difference <= self.tolerance))[0][0]
                    raise AssertionError(
                        f"check_beam_search found {name} that are not those of feeding the "
                        f"returned ids to `step`. In row {row}, place {place}, ids "
                        f"{here['ids'][row, 0].tolist()}: "
                        f"{_shown(here[name][row])} from the search, {_shown(value[row])} fed"
                    )
            worst = max(worst, np.where(real, _difference(here["log_probs"], log_probs), 0).max())
            self._source(here["alignments"], inputs.memory_mask)
        return float(worst)

    def _source(self, alignments, memory_mask):
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

    def well_formed(self, found, max_length):
        end_id, pad_id = self.special["end_id"], self.special["pad_id"]
        for row, (all_ids, lengths) in enumerate(zip(found["ids"], found["lengths"], strict=True)):
            real = [tuple(i[:n].tolist()) for i, n in zip(all_ids, lengths, strict=True) if n >= 0]
            padded = np.arange(max_length) >= lengths[:, None]
            ends = [
                end_id not in ids[:-1] and (len(ids) == max_length or ids[-1] == end_id)
                for ids in real
            ]
            banned = {pad_id, self.special["start_id"]} - {end_id}
            broken = {
                "the same hypothesis twice": len(set(real)) < len(real),
                "hypotheses that are not sorted": (np.diff(found["scores"][row]) > 0).any(),
                "a filler before a hypothesis": (lengths[: len(real)] < 0).any(),
                "ids after the end": (all_ids[padded] != pad_id).any(),
                "a hypothesis that does not end with its end mark": not all(ends),
                "padding or the start inside a hypothesis": any(banned & set(i) for i in real),
            }
            for text, wrong in broken.items():
                if wrong:
                    raise AssertionError(f"check_beam_search found {text}, in row {row}: {real}")

    def stopping(self, inputs, found, options, ranked):
        late = self.search(inputs, stopping="limit", **options)
        self.same("stopping early changes the answer", inputs, found, late, ranked)

    def batches(self, inputs, found, options, ranked):
        batch = len(found["ids"])
        backwards = [*reversed(range(batch)), 0] if batch else []
        for rows in ([0], backwards) if batch else ():
            part = inputs.rows(rows, batch)
            expected = {name: value[rows] for name, value in found.items()}
            text = f"the rows {rows} alone are answered otherwise than in their batch"
            self.same(text, part, self.search(part, **options), expected, ranked)

    def greedy(self, inputs, max_length):
        options = {"max_length": max_length, **self.special}
        greedy = _arrays(greedy_search(self.step, inputs.state, inputs.memory, **options))
        beam = self.search(inputs, beam_width=1, max_length=max_length)
        greedy = {name: value[:, None] for name, value in greedy.items()}
        exists = greedy["log_probs"] > EXISTS
        greedy["lengths"] = np.where(exists, greedy["lengths"], -1)
        greedy["scores"] = greedy["log_probs"]
        self.same("a beam of one differs from the greedy search", inputs, beam, greedy)

    def exhaustive(self, inputs, max_length, ranked):
        run = self.run(inputs)
        logits, _, _ = run(ops.full((run.batch,), self.special["start_id"], "int32"), run.leaves)
        tokens = sorted(set(range(logits.shape[1])) - set(self.special.values()))
        length = oracle.longest_enumerable(len(tokens), ENUMERATED, max_length)
        if length == 0:
            return
        end_id, pad_id = self.special["end_id"], self.special["pad_id"]
        ids, lengths = oracle.every_sequence(tokens, end_id, pad_id, length)
        shape = (run.batch, *ids.shape)
        ids, lengths = np.broadcast_to(ids, shape), np.broadcast_to(lengths, shape[:2])
        log_probs, _, alignments = self._forced(inputs, ids, lengths)
        scores = self._scores(inputs, log_probs, alignments, lengths, ranked)
        exists = log_probs > EXISTS
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
        found = self.search(inputs, beam_width=ids.shape[1], max_length=length, **ranked)
        text = "a wide beam is not the list of all sequences"
        self.same(text, inputs, found, expected, ranked)

    def compiled(self, inputs, found, options, ranked, jit_compile):
        if keras.backend.backend() != "tensorflow":
            return
        tf = sys.modules["tensorflow"]  # there already, for Keras runs on it

        def search(state, memory, memory_mask):
            given = {"memory_mask": memory_mask, "reorder": self.reorder, **self.special}
            return beam_search(self.step, state, memory, **options, **given)

        for jit in (False, True) if jit_compile else (False,):
            function = tf.function(search, autograph=False, jit_compile=jit)
            result = function(inputs.state, inputs.memory, inputs.memory_mask)
            name = "under XLA" if jit else "in a graph"
            text = f"a search {name} differs from an eager one"
            self.same(text, inputs, _arrays(result), found, ranked)

    def same(self, text, inputs, found, expected, ranked=None):
        """Raises unless two results agree, but for hypotheses of almost the same score."""
        wrong = ~(_difference(found["scores"], expected["scores"]) <= self.tolerance)
        self._raise_at(wrong, text, found, expected)
        alike = (found["ids"] == expected["ids"]).all(axis=-1)
        alike &= found["lengths"] == expected["lengths"]
        for name in {"log_probs", "token_log_probs", "alignments"} & set(found) & set(expected):
            wrong = ~(_difference(found[name], expected[name]) <= self.tolerance)
            wrong = wrong.reshape(*alike.shape, -1).any(axis=2)
            self._raise_at(wrong & alike, text, found, expected)
        if not alike.all():  # two hypotheses have almost the same score, or somebody lies
            for result in (found, expected):
                lies = self._lies(inputs, result, ranked or {})
                self._raise_at(lies & ~alike, text, found, expected)

    def _lies(self, inputs, result, ranked):
        """Returns True where a score is not that of feeding the ids, `(batch, beam)`."""
        ids, lengths = result["ids"], result["lengths"]
        log_probs, _, alignments = self._forced(inputs, ids, lengths)
        scores = self._scores(inputs, log_probs, alignments, lengths, ranked)
        return ~(_difference(result["scores"], scores) <= self.tolerance) & (lengths >= 0)

    def _forced(self, inputs, ids, lengths):
        return oracle.forced(self.run(inputs), ids, lengths, self.special["start_id"])

    def _scores(self, inputs, log_probs, alignments, lengths, ranked):
        options = {"length_penalty": None, "coverage_penalty": None, **ranked}
        mask = inputs.memory_mask
        return oracle.scores_of(log_probs, alignments, lengths, **options, memory_mask=mask)

    def _raise_at(self, wrong, text, found, expected):
        if wrong.any():
            row, place = np.argwhere(wrong)[0]
            pair = [
                f"{x['ids'][row, place].tolist()} with {x['log_probs'][row, place]:.6g}, score "
                f"{x['scores'][row, place]:.6g}"
                for x in (found, expected)
            ]
            raise AssertionError(
                f"check_beam_search found that {text}. In row {row}, place {place}: "
                f"{pair[0]}; expected {pair[1]}"
            )


def _taken(tree, rows, batch):
    """Returns only some rows of every tensor whose first axis is the batch."""

    def take(leaf):
        shape = getattr(leaf, "shape", ())
        if len(shape) == 0 or shape[0] != batch:
            return leaf
        return ops.take(ops.convert_to_tensor(leaf), np.asarray(rows, "int32"), axis=0)

    return keras.tree.map_structure(take, tree)


def _arrays(result):
    return {name: ops.convert_to_numpy(value) for name, value in result.items()}


def _difference(one, other):
    return np.abs(one - other) / np.maximum(1.0, np.abs(other))


def _shown(values):
    return np.array2string(np.ravel(values)[:8], precision=6)

"""Tiny decoders with known answers: a step for the library and plain Python for the references.

Special ids as everywhere: 0 padding, 1 unknown, 2 start, 3 end.
"""

import numpy as np
from keras import ops

START, END = 2, 3
PRIME = 10007


class HashModel:
    """Logits and alignment depend on a hash of every token so far, and on the batch element.

    Whatever a search mixes up (parents, rows, beams, steps) changes the hash, and with it
    all that follows. The state is nested, with leaves of several ranks and dtypes.
    """

    def __init__(self, seed, batch, vocabulary, source=3, end_bias=0.0, scale=1.5, tables=101):
        draw = np.random.default_rng(seed)
        self.batch, self.vocabulary, self.source = batch, vocabulary, source
        self.logits = draw.normal(size=(tables, vocabulary)).astype("float32") * scale
        self.logits[:, END] += end_bias
        weights = np.exp(draw.normal(size=(tables, source)) * 2.0)
        self.alignments = (weights / weights.sum(axis=1, keepdims=True)).astype("float32")
        self.offsets = draw.integers(0, PRIME, size=batch).astype("int32")

    def rows(self, rows):
        """The same model with only some batch elements, in that order."""
        other = object.__new__(HashModel)
        other.__dict__.update(self.__dict__, batch=len(rows), offsets=self.offsets[list(rows)])
        return other

    def state(self):
        zeros = np.zeros(self.batch, "int32")
        return {
            "hash": ops.convert_to_tensor(zeros),
            "nested": [
                {"position": ops.convert_to_tensor(zeros)},
                (ops.zeros((self.batch, 2, 3)),),
            ],
        }

    def memory(self):
        return {"offsets": ops.convert_to_tensor(self.offsets)}

    def step(self, ids, state, memory):
        rows, batch = ops.shape(ids)[0], ops.shape(memory["offsets"])[0]
        position = state["nested"][0]["position"]
        floats = state["nested"][1][0]
        hashed = (state["hash"] * 31 + ids + 7 + position) % PRIME
        beams = rows // ops.maximum(batch, 1) if not isinstance(batch, int) else rows // batch
        offsets = ops.reshape(ops.repeat(memory["offsets"], beams, axis=0), (rows,))
        index = (hashed + offsets) % len(self.logits)
        # A second hash in a float leaf of rank 3, which must agree with the first.
        floats = floats + ops.cast(ids, "float32")[:, None, None]
        state = {"hash": hashed, "nested": [{"position": position + 1}, (floats,)]}
        logits = ops.take(ops.convert_to_tensor(self.logits), index, axis=0)
        logits = logits + 1e-3 * floats[:, 0, :1]  # the same for all tokens: no change
        return logits, state, ops.take(ops.convert_to_tensor(self.alignments), index, axis=0)

    def reference(self, row, tokens):
        """Returns float64 log-probabilities and the alignment of the step after `tokens`."""
        logits, alignment = self.reference_logits(row, tokens)
        return log_softmax(logits), alignment

    def reference_logits(self, row, tokens):
        """Returns the float64 logits and the alignment of the step after `tokens`."""
        hashed = 0
        for position, token in enumerate([START, *tokens]):
            hashed = (hashed * 31 + token + 7 + position) % PRIME
        index = (hashed + int(self.offsets[row])) % len(self.logits)
        logits = self.logits[index].astype("float64") + 1e-3 * (START + sum(tokens))
        return logits, self.alignments[index].astype("float64")


class TableModel:
    """Markov: logits are `tables[row, last token]`, given as log-probabilities; no state."""

    def __init__(self, tables, source=2):
        self.tables = np.asarray(tables, "float32")
        self.batch, self.vocabulary, _ = self.tables.shape
        self.source = source

    def state(self):
        return {}

    def memory(self):
        return {"tables": ops.convert_to_tensor(self.tables)}

    def step(self, ids, state, memory):
        tables = memory["tables"]
        batch, vocabulary, _ = ops.shape(tables)
        rows = ops.shape(ids)[0]
        beams = rows // batch
        index = ops.repeat(ops.arange(batch, dtype="int32"), beams) * vocabulary + ids
        logits = ops.take(ops.reshape(tables, (batch * vocabulary, vocabulary)), index, axis=0)
        return logits, state, ops.full((rows, self.source), 1.0 / self.source)

    def reference(self, row, tokens):
        last = tokens[-1] if len(tokens) else START
        return log_softmax(self.tables[row, last]), np.full(self.source, 1.0 / self.source)


def log_softmax(logits):
    logits = np.maximum(np.asarray(logits, "float64"), -1e9)
    shifted = logits - logits.max()
    return shifted - np.log(np.exp(shifted).sum())

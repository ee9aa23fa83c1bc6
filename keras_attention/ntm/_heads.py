"""The controller's outputs for the heads, Graves et al. 2014
(https://arxiv.org/abs/1410.5401, section 3.3).

Each time step has one vector of numbers, in this order, each kind for all heads, read heads
first:

    key        word_size per head       tanh, or linear
    strength   1                       softplus
    gate       1                       sigmoid
    sharpening 1                       1 + softplus
    shift      `shift.size`            see `shift_types`
    erase      word_size per write head sigmoid
    addition   word_size per write head as the key

The vector is clipped to [-20, 20] first, where softplus and sigmoid are safe in every dtype.
"""

from keras import ops

ROW_LIMIT = 20.0


class HeadLayout:
    """The number of heads and the layout of their parameters.

    Args:
        num_read: Positive int, the number of read heads.
        num_write: Positive int, the number of write heads.
        word_size: Positive int, the size of a slot.
        shift: A `Shift`.
        tanh: Whether keys and additions pass a tanh.
    """

    def __init__(self, num_read, num_write, word_size, shift, tanh=True):
        self.num_read, self.num_write = num_read, num_write
        self.count = num_read + num_write
        self.word_size, self.shift, self.tanh = word_size, shift, tanh
        per_head = {
            "key": word_size,
            "strength": 1,
            "gate": 1,
            "sharpening": 1,
            "shift": shift.size,
        }
        self.sizes = {name: self.count * size for name, size in per_head.items()}
        self.sizes |= {"erase": num_write * word_size, "addition": num_write * word_size}
        self.width = sum(self.sizes.values())

    def split(self, row):
        """Splits the vector into a dict of clipped raw numbers, `(batch, heads, size)`."""
        row, parts, begin = ops.clip(row, -ROW_LIMIT, ROW_LIMIT), {}, 0
        for name, size in self.sizes.items():
            heads = self.num_write if name in ("erase", "addition") else self.count
            parts[name] = ops.reshape(row[:, begin : begin + size], (-1, heads, size // heads))
            begin += size
        return parts

    def parameters(self, raw):
        """Returns the parameters of the heads, `(batch, heads, size)`, from `split`."""
        return {
            "key": ops.tanh(raw["key"]) if self.tanh else raw["key"],
            "strength": ops.softplus(raw["strength"]),
            "gate": ops.sigmoid(raw["gate"]),
            "sharpening": 1.0 + ops.softplus(raw["sharpening"]),
            "shift": raw["shift"],
            "erase": ops.sigmoid(raw["erase"]),
            "addition": ops.tanh(raw["addition"]) if self.tanh else raw["addition"],
        }

    def compute_slopes(self, raw, parameters, row):
        """Returns the derivative of every parameter by its raw number, `(batch, width)`.

        Those of the shift are 1 here: `Shift.shift_weights_gradient` computes them.
        """
        ones = ops.ones_like
        through_tanh = (lambda part: 1.0 - part * part) if self.tanh else ones
        found = {
            "key": through_tanh(parameters["key"]),
            "strength": ops.sigmoid(raw["strength"]),
            "gate": parameters["gate"] * (1.0 - parameters["gate"]),
            "sharpening": ops.sigmoid(raw["sharpening"]),
            "shift": ones(raw["shift"]),
            "erase": parameters["erase"] * (1.0 - parameters["erase"]),
            "addition": through_tanh(parameters["addition"]),
        }
        return self.join(found) * ops.cast(ops.abs(row) < ROW_LIMIT, row.dtype)

    def join(self, parts):
        """Returns the vector `(batch, width)` from a dict of parts: the inverse of `split`."""
        flat = [ops.reshape(parts[name], (-1, size)) for name, size in self.sizes.items()]
        return ops.concatenate(flat, axis=-1)

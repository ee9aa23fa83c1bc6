"""What the controller tells the heads, Graves et al. 2014
(https://arxiv.org/abs/1410.5401, section 3.3).

One row of numbers for every time step holds, in this order, each kind for all heads, read heads
first:

    key        slot_dim a head         tanh, or linear
    strength   1                       softplus
    gate       1                       sigmoid
    sharpening 1                       1 + softplus
    shift      `shift.size`            see `shifts`
    erase      slot_dim a write head   sigmoid
    addition   slot_dim a write head   as the key

The row is clipped to [-20, 20] first, where softplus and sigmoid are still safe in every dtype.
"""

from keras import ops

LIMIT = 20.0


class Heads:
    """How many heads there are and how their row is read.

    Args:
        num_read: Positive int, the number of read heads.
        num_write: Positive int, the number of write heads.
        slot_dim: Positive int, the size of a slot.
        shift: A `Shift`.
        tanh: Whether keys and additions pass a tanh.
    """

    def __init__(self, num_read, num_write, slot_dim, shift, tanh=True):
        self.num_read, self.num_write = num_read, num_write
        self.count = num_read + num_write
        self.slot_dim, self.shift, self.tanh = slot_dim, shift, tanh
        per_head = {"key": slot_dim, "strength": 1, "gate": 1, "sharpening": 1, "shift": shift.size}
        self.sizes = {name: self.count * size for name, size in per_head.items()}
        self.sizes |= {"erase": num_write * slot_dim, "addition": num_write * slot_dim}
        self.width = sum(self.sizes.values())

    def split(self, row):
        """Returns the row's numbers by name, `(batch, heads, size)`, clipped, as they stand."""
        row, parts, begin = ops.clip(row, -LIMIT, LIMIT), {}, 0
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

    def slopes(self, raw, parameters, row):
        """Returns the derivative of every parameter by its number in the row, `(batch, width)`.

        Those of the shift are 1 here: `Shift.shares_gradient` has them.
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
        return self.join(found) * ops.cast(ops.abs(row) < LIMIT, row.dtype)

    def join(self, parts):
        """Returns the row `(batch, width)` of parts by name; what `split` takes apart."""
        flat = [ops.reshape(parts[name], (-1, size)) for name, size in self.sizes.items()]
        return ops.concatenate(flat, axis=-1)

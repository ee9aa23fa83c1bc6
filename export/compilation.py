"""Searches as XLA programs: lengths and batches padded to a few sizes, inside the graph.

XLA compiles a program for every shape that it meets, which takes seconds. A served graph
therefore pads its sources to one of a few lengths and its rows to one of a few numbers, runs
the program of that shape, and cuts what it added. A batch of more rows than the largest number
goes through in parts of that many.
"""

import dataclasses

import tensorflow as tf

from keras_attention import checks
from keras_attention.export.graphs import merged, traced
from keras_attention.export.tokenizers.base import PADDING_ID


@dataclasses.dataclass(frozen=True)
class Compilation:
    """Which shapes an export compiles its searches for.

    Args:
        batch_sizes: Increasing positive ints: numbers of rows.
        source_lengths: Increasing positive ints: lengths of sources in tokens, the end mark
            counted. Longer sources are padded to a multiple of the largest, a shape that no
            warm-up has seen; choose `max_source_length` so that there are none.

    Raises:
        ValueError: If one of them is not an increasing sequence of positive ints.

    Example:

    >>> Compilation(batch_sizes=(1, 8), source_lengths=(16, 64)).shapes()
    [(1, 16), (1, 64), (8, 16), (8, 64)]
    """

    batch_sizes: tuple[int, ...] = (1, 8, 32)
    source_lengths: tuple[int, ...] = (16, 32, 64)

    def __post_init__(self):
        for name in ("batch_sizes", "source_lengths"):
            sizes = tuple(getattr(self, name))
            for size in sizes:
                checks.positive_int("Compilation", name, size)
            if not sizes or list(sizes) != sorted(set(sizes)):
                raise ValueError(
                    f"Compilation expects `{name}` to be positive ints that increase. "
                    f"Received: {name}={getattr(self, name)!r}"
                )
            object.__setattr__(self, name, sizes)

    def shapes(self) -> list[tuple[int, int]]:
        """Returns every `(batch, source)` there is a program for."""
        return [(b, s) for b in self.batch_sizes for s in self.source_lengths]

    def in_buckets(self, function):
        """Returns `function` compiled for these shapes and callable with any.

        Args:
            function: Callable `(ids, length) -> dict` of tensors over the rows, in which
                `alignment` alone has the source as its last axis. `ids` are int32 of shape
                `(batch, source)` with a length of at least 1 in each row.

        Returns:
            Callable of the same kind, for use inside a graph.
        """
        ids_spec = tf.TensorSpec([None, None], tf.int32, name="ids")
        length_spec = tf.TensorSpec([None], tf.int32, name="length")
        program = traced(function, ids_spec, length_spec, compiled=True)
        outputs = program.get_concrete_function().structured_outputs
        signature = {name: tf.TensorSpec(t.shape, t.dtype) for name, t in outputs.items()}

        def bucketed(ids, length):
            rows, columns = tf.shape(ids)[0], tf.shape(ids)[1]
            part, width = _bucket(rows, self.batch_sizes), _bucket(columns, self.source_lengths)
            part = tf.minimum(part, self.batch_sizes[-1])
            parts = tf.maximum(-(-rows // part), 1)
            ids = tf.pad(
                ids,
                [[0, parts * part - rows], [0, width - columns]],
                constant_values=PADDING_ID,
            )
            length = tf.pad(length, [[0, parts * part - rows]], constant_values=1)
            found = tf.map_fn(
                lambda inputs: program(*inputs),
                (tf.reshape(ids, [parts, part, width]), tf.reshape(length, [parts, part])),
                fn_output_signature=signature,
                parallel_iterations=1,
            )
            found = {name: merged(tensor)[:rows] for name, tensor in found.items()}
            if "alignment" in found:
                found["alignment"] = found["alignment"][..., :columns]
            return found

        return traced(bucketed, ids_spec, length_spec)


def _bucket(size, sizes):
    """The first of `sizes` that holds `size`, or the next multiple of the last."""
    sizes = tf.constant(sizes, tf.int32)
    fits = sizes >= size
    beyond = -(-size // sizes[-1]) * sizes[-1]
    return tf.reduce_min(tf.where(fits, sizes, tf.maximum(beyond, sizes[-1])))

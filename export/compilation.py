"""Searches as XLA programs: lengths and batches padded to a few sizes, inside the graph.

XLA compiles a program for every shape that it meets, which takes seconds. A served graph
therefore pads its sources to one of a few lengths and its rows to one of a few numbers, runs
the program of that shape, and cuts what it added. A batch of more rows than the largest number
goes through in parts of that many.
"""

import dataclasses

import tensorflow as tf

from keras_attention import checks, matmul_precision
from keras_attention.export.graphs import merged, traced
from keras_attention.export.tokenizers.base import PADDING_ID
from keras_attention.products import PRECISIONS, underived

SPLIT_ROWS = 16  # of a part: with fewer, what its products have in common costs more than it saves


@dataclasses.dataclass(frozen=True)
class Compilation:
    """Which shapes an export compiles its searches for.

    Args:
        batch_sizes: Increasing positive ints: numbers of rows.
        source_lengths: Increasing positive ints: lengths of sources in tokens, the end mark
            counted. Longer sources are padded to a multiple of the largest, a shape that no
            warm-up has seen; choose `max_source_length` so that there are none.
        precision: `"float32"`, or `"bfloat16"` for programs that round what their layers
            multiply with their kernels: see `keras_attention.matmul_precision`. It is faster where
            the processor has bfloat16. The signatures that are not compiled stay in float32, so
            a score of these programs is that of `score` to about three digits only.
        split: Positive int, parts of a batch that search at the same time, of 16 rows or more
            each. A program uses several cores for its large products alone, so on a CPU of two
            cores 2 parts of 16 are faster than one of 32; on a GPU they are not.

    Raises:
        ValueError: If the sizes are no increasing sequences of positive ints, `precision` is
            neither of the two, or a batch cannot be split into so many parts.

    Example:

    >>> Compilation(batch_sizes=(1, 8), source_lengths=(16, 64)).shapes()
    [(1, 16), (1, 64), (8, 16), (8, 64)]
    """

    batch_sizes: tuple[int, ...] = (1, 8, 32)
    source_lengths: tuple[int, ...] = (16, 32, 64)
    precision: str = "float32"
    split: int = 1

    def __post_init__(self):
        checks.one_of("Compilation", "precision", self.precision, PRECISIONS)
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
        checks.positive_int("Compilation", "split", self.split)
        if self.split > self.batch_sizes[-1]:
            raise ValueError(
                "Compilation expects `split` to be at most the largest of `batch_sizes`, "
                f"{self.batch_sizes[-1]}. Received: split={self.split}"
            )

    def shapes(self) -> list[tuple[int, int]]:
        """Returns every `(batch, source)` there is a program for."""
        return [(b, s) for b in self.batch_sizes for s in self.source_lengths]

    def in_buckets(self, function, least_rows: int = 1):
        """Returns `function` compiled for these shapes and callable with any.

        Args:
            function: Callable `(ids, length) -> dict` of tensors over the rows, in which
                `alignment` alone has the source as its last axis. `ids` are int32 of shape
                `(batch, source)` with a length of at least 1 in each row.
            least_rows: Rows that a program has at least. 2 for a search that computes one row
                of a source: its products with a single row take another, slower road in XLA.

        Returns:
            Callable of the same kind, for use inside a graph.
        """
        ids_spec = tf.TensorSpec([None, None], tf.int32, name="ids")
        length_spec = tf.TensorSpec([None], tf.int32, name="length")

        def precisely(ids, length):
            with matmul_precision(self.precision), underived():
                return function(ids, length)

        program = traced(precisely, ids_spec, length_spec, compiled=True)
        with tf.init_scope():  # not in the graph that asks for it
            outputs = program.get_concrete_function().structured_outputs
        signature = {name: tf.TensorSpec(t.shape, t.dtype) for name, t in outputs.items()}

        def side_by_side(ids, length):
            inputs = zip(*(tf.split(tensor, self.split) for tensor in (ids, length)), strict=True)
            found = [program(*given) for given in inputs]
            return {name: tf.concat([part[name] for part in found], axis=0) for name in outputs}

        def split(ids, length):
            if self.split == 1:
                return program(ids, length)
            rows = tf.shape(ids)[0]
            enough = (rows % self.split == 0) & (rows >= SPLIT_ROWS * self.split)
            return tf.cond(enough, lambda: side_by_side(ids, length), lambda: program(ids, length))

        def bucketed(ids, length):
            rows, columns = tf.shape(ids)[0], tf.shape(ids)[1]
            part, width = _bucket(rows, self.batch_sizes), _bucket(columns, self.source_lengths)
            part = tf.maximum(tf.minimum(part, self.batch_sizes[-1]), least_rows)
            parts = tf.maximum(-(-rows // part), 1)
            ids = tf.pad(
                ids,
                [[0, parts * part - rows], [0, width - columns]],
                constant_values=PADDING_ID,
            )
            length = tf.pad(length, [[0, parts * part - rows]], constant_values=1)
            found = tf.map_fn(
                lambda inputs: split(*inputs),
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

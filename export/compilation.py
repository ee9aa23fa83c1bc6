"""Compiles searches with XLA for a few batch sizes and source lengths.

XLA compiles a program for every new shape, which takes seconds. So the served graph pads sources
to one of a few lengths and batches to one of a few sizes, runs the program of that shape, and
removes the padding. It splits a batch that exceeds the largest size.
"""

import dataclasses

import tensorflow as tf

from keras_attention import matmul_precision, validation
from keras_attention.export._tf_functions import make_tf_function, merge_chunks
from keras_attention.export._type_aliases import TextFunction
from keras_attention.export.tokenizers.base import PADDING_ID
from keras_attention.kernels.matmul_precision import PRECISIONS, omit_gradients

MIN_SPLIT_SIZE = (
    16  # examples of a part; the fixed costs of smaller parts exceed what parallel runs save
)


@dataclasses.dataclass(frozen=True)
class XLABuckets:
    """The shapes that an export compiles its searches for.

    Args:
        batch_sizes: Increasing positive ints, the numbers of examples.
        source_lengths: Increasing positive ints, the lengths of sources in tokens, EOS included.
            Longer sources are padded to a multiple of the largest, a shape that no warm-up request
            has; choose `max_source_length` to exclude them.
        precision: `"float32"`, or `"bfloat16"` to round the operands of products with kernels: see
            `keras_attention.matmul_precision`. It is faster on processors with bfloat16. The
            signatures that are not compiled stay in float32, so scores of these programs and of
            the signature `score` agree to about three digits only.
        split: Positive int, the number of parts of a batch that are searched in parallel, with at
            least 16 examples each. A program uses several cores for large products only. So on two
            CPU cores, 2 parts of 16 are faster than one of 32; on a GPU they are not.

    Raises:
        ValueError: If the sizes are not increasing sequences of positive ints, `precision` is
            unknown, or `split` exceeds the largest batch size.

    Example:

    >>> XLABuckets(batch_sizes=(1, 8), source_lengths=(16, 64)).shapes()
    [(1, 16), (1, 64), (8, 16), (8, 64)]
    """

    batch_sizes: tuple[int, ...] = (1, 8, 32)
    source_lengths: tuple[int, ...] = (16, 32, 64)
    precision: str = "float32"
    split: int = 1

    def __post_init__(self) -> None:
        validation.check_one_of("XLABuckets", "precision", self.precision, PRECISIONS)
        for name in ("batch_sizes", "source_lengths"):
            sizes = tuple(getattr(self, name))
            for size in sizes:
                validation.check_positive_int("XLABuckets", name, size)
            if not sizes or list(sizes) != sorted(set(sizes)):
                raise ValueError(
                    f"XLABuckets expects `{name}` to be increasing positive ints. "
                    f"Received: {name}={getattr(self, name)!r}"
                )
            object.__setattr__(self, name, sizes)
        validation.check_positive_int("XLABuckets", "split", self.split)
        if self.split > self.batch_sizes[-1]:
            raise ValueError(
                "XLABuckets expects `split` to be at most the largest of `batch_sizes`, "
                f"{self.batch_sizes[-1]}. Received: split={self.split}"
            )

    def shapes(self) -> list[tuple[int, int]]:
        """Returns every compiled shape `(batch, source)`."""
        return [(b, s) for b in self.batch_sizes for s in self.source_lengths]

    def compile_in_buckets(self, function: TextFunction) -> TextFunction:
        """Returns `function` compiled for these shapes, callable with inputs of any shape.

        Args:
            function: Callable `(ids, length) -> dict` of tensors `(batch, ...)`. `alignment` alone
                has the source as its last axis. `ids` are int32 of shape `(batch, source)`; every
                length is at least 1.

        Returns:
            A `tf.function` with the same arguments and results, for use inside a graph.
        """
        ids_spec = tf.TensorSpec([None, None], tf.int32, name="ids")
        length_spec = tf.TensorSpec([None], tf.int32, name="length")

        def compute_at_precision(ids, length):
            with matmul_precision(self.precision), omit_gradients():
                return function(ids, length)

        program = make_tf_function(compute_at_precision, ids_spec, length_spec, compiled=True)
        # A loop that is traced for one example computes no shapes and shares no beams' caches.
        single_specs = tf.TensorSpec([1, None], tf.int32), tf.TensorSpec([1], tf.int32)
        single = make_tf_function(compute_at_precision, *single_specs, compiled=True)
        with tf.init_scope():  # trace outside of the calling graph
            outputs = program.get_concrete_function().structured_outputs
        signature = {name: tf.TensorSpec(t.shape, t.dtype) for name, t in outputs.items()}

        def run_in_parallel(ids, length):
            inputs = zip(*(tf.split(tensor, self.split) for tensor in (ids, length)), strict=True)
            found = [program(*given) for given in inputs]
            return {name: tf.concat([part[name] for part in found], axis=0) for name in outputs}

        def split(ids, length):
            if self.split == 1:
                return program(ids, length)
            batch_size = tf.shape(ids)[0]
            is_large = (batch_size % self.split == 0) & (batch_size >= MIN_SPLIT_SIZE * self.split)
            return tf.cond(
                is_large, lambda: run_in_parallel(ids, length), lambda: program(ids, length)
            )

        def run_in_bucket(ids, length):
            rows, columns = tf.shape(ids)[0], tf.shape(ids)[1]
            part, width = (
                _choose_bucket(rows, self.batch_sizes),
                _choose_bucket(columns, self.source_lengths),
            )
            part = tf.minimum(part, self.batch_sizes[-1])
            parts = tf.maximum(-(-rows // part), 1)
            ids = tf.pad(
                ids,
                [[0, parts * part - rows], [0, width - columns]],
                constant_values=PADDING_ID,
            )
            length = tf.pad(length, [[0, parts * part - rows]], constant_values=1)

            def run_single():
                found = single(tf.reshape(ids, [1, width]), tf.reshape(length, [1]))
                return {name: tensor[:rows] for name, tensor in found.items()}  # or of none

            def run_parts():
                found = tf.map_fn(
                    lambda inputs: split(*inputs),
                    (tf.reshape(ids, [parts, part, width]), tf.reshape(length, [parts, part])),
                    fn_output_signature=signature,
                    parallel_iterations=1,
                )
                return {name: merge_chunks(tensor)[:rows] for name, tensor in found.items()}

            if self.batch_sizes[0] == 1:
                found = tf.cond((part == 1) & (parts == 1), run_single, run_parts)
            else:
                found = run_parts()
            if "alignment" in found:
                found["alignment"] = found["alignment"][..., :columns]
            return found

        return make_tf_function(run_in_bucket, ids_spec, length_spec)


def _choose_bucket(size, sizes):
    """Returns the first of `sizes` that is at least `size`, or the next multiple of the last."""
    sizes = tf.constant(sizes, tf.int32)
    fits = sizes >= size
    beyond = -(-size // sizes[-1]) * sizes[-1]
    return tf.reduce_min(tf.where(fits, sizes, tf.maximum(beyond, sizes[-1])))

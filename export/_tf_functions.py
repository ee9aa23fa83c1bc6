"""Builds served graphs: tracing, chunks, empty batches, masks and EOS of sources."""

import tensorflow as tf

from keras_attention.export.tokenizers.base import EOS_ID, PADDING_ID

MAX_CHUNK_SIZE = 64  # examples; a beam of 4 over 128 tokens holds about 3 MB for each


def make_tf_function(function, *inputs, compiled: bool = False):
    """Returns `function` as a `tf.function` with `inputs`, a `tf.TensorSpec` each.

    AutoGraph is off: it would convert Keras and the search line by line and take four times as
    long, and layers use the loops and branches of `keras.ops`. With `compiled`, XLA compiles a
    program for every new shape.
    """
    jit_compile = True if compiled else None
    return tf.function(function, input_signature=inputs, autograph=False, jit_compile=jit_compile)


def run_in_chunks(function, *inputs, rows: int = MAX_CHUNK_SIZE):
    """Returns a function that runs `function` on any batch, at most `rows` examples at a time.

    The memory of a search grows with its batch, and a small request may have many examples.

    Args:
        function: Callable from tensors `(batch, ...)` to a dict of such tensors, whose other
            sizes are the same for every chunk.
        inputs: A `tf.TensorSpec` for each argument.
        rows: Maximum number of examples of a chunk.
    """
    program = make_tf_function(function, *inputs)
    with tf.init_scope():  # trace outside of the calling graph
        outputs = program.get_concrete_function().structured_outputs
    signature = {name: tf.TensorSpec(t.shape, t.dtype) for name, t in outputs.items()}

    def dispatch(*tensors):
        batch = tf.shape(tensors[0])[0]

        def run_chunks():
            parts = -(-batch // rows)
            # The last chunk is filled by repeating the last example.
            index = tf.reshape(tf.minimum(tf.range(parts * rows), batch - 1), [parts, rows])
            given = tuple(tf.gather(tensor, index) for tensor in tensors)
            found = tf.map_fn(
                lambda part: program(*part),
                given,
                fn_output_signature=signature,
                parallel_iterations=1,
            )
            return {name: merge_chunks(tensor)[:batch] for name, tensor in found.items()}

        return tf.cond(batch > rows, run_chunks, lambda: program(*tensors))

    return dispatch


def merge_chunks(tensor):
    """Reshapes `(chunks, chunk, ...)` to `(chunks * chunk, ...)` and keeps static sizes."""
    shape = tf.shape(tensor)
    flat = tf.reshape(tensor, tf.concat([[shape[0] * shape[1]], shape[2:]], axis=0))
    return tf.ensure_shape(flat, [None, *tensor.shape[2:]])


def specialize_single_example(function, *inputs):
    """Returns a function with two graphs of `function`, one of them for a batch of one example.

    Most of the time of a single text is the loop of its search. With a static batch size, the loop
    has a third fewer operations, because it computes no shapes.
    """
    single = [tf.TensorSpec([1, *spec.shape[1:]], spec.dtype, spec.name) for spec in inputs]
    many, one = run_in_chunks(function, *inputs), make_tf_function(function, *single)

    def dispatch(*tensors):
        def run_single():
            return one(*[match_static_batch(tf.identity(t), tf.zeros([1])) for t in tensors])

        return tf.cond(tf.shape(tensors[0])[0] == 1, run_single, lambda: many(*tensors))

    return dispatch


def match_static_batch(tensor, like):
    """Returns `tensor` with the static batch size of `like`."""
    tensor.set_shape([like.shape[0], *[None] * (tensor.shape.rank - 1)])
    return tensor


def make_signature(function, *inputs):
    """Returns `function` as the `tf.function` of a signature, for batches of any size.

    Args:
        function: Callable from tensors `(batch, ...)`, at least one example, to a dict of tensors.
        inputs: A `tf.TensorSpec` for each argument.
    """
    return make_tf_function(lambda *tensors: run_with_batch_checks(function, *tensors), *inputs)


def run_with_batch_checks(function, *inputs):
    """Returns the outputs of `function`, also for an empty batch.

    An empty batch is padded to one example, whose outputs are removed. Inputs with different batch
    sizes fail; otherwise TensorFlow would broadcast them.
    """
    rows = tf.shape(inputs[0])[0]
    message = "every input is expected to have as many rows as the first one"
    checks = [
        tf.debugging.assert_equal(tf.shape(tensor)[0], rows, message=message)
        for tensor in inputs[1:]
    ]
    with tf.control_dependencies(checks):  # so that these checks fail first
        inputs = [tf.identity(tensor) for tensor in inputs]
    num_missing = tf.cast(rows == 0, tf.int32)
    padded = []
    for tensor in inputs:
        empty_examples = tf.zeros(
            tf.concat([[num_missing], tf.shape(tensor)[1:]], axis=0), tensor.dtype
        )
        padded.append(tf.concat([tensor, empty_examples], axis=0))
    return {name: output[:rows] for name, output in function(*padded).items()}


def make_source_mask(ids, length):
    """Returns the mask of a source, `(B, S)`: True for tokens, EOS included."""
    return tf.sequence_mask(length, tf.shape(ids)[1])


def append_eos(ids, length):
    """Returns ids `(B, longest + 1)`: the first `length` ids of each example, EOS, padding."""
    columns = max_or_zero(length) + 1
    ids = tf.pad(ids, [[0, 0], [0, 1]])[:, :columns]
    position = tf.range(columns)[None, :]
    length = length[:, None]
    ends = tf.where(position == length, EOS_ID, PADDING_ID)
    return tf.where(position < length, ids, ends)


def max_or_zero(length):
    """Returns the largest of `length (batch,)`, or 0 for an empty batch."""
    return tf.reduce_max(tf.concat([length, [0]], axis=0))

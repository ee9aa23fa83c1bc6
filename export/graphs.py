"""What every served graph needs: tracing, batches of no rows, sources with their end mark."""

import tensorflow as tf

from keras_attention.export.tokenizers.base import END_ID, PADDING_ID

MOST_ROWS = 64  # that search together: a beam of 4 over 128 tokens holds some 3 MB a row


def traced(function, *inputs, compiled: bool = False):
    """Returns `function` as a graph over `inputs`, a `tf.TensorSpec` each.

    Without AutoGraph, which would translate Keras and the search line by line and take four
    times as long: a layer's loops and branches are those of `keras.ops`. `compiled` asks XLA
    for a program, one for each shape that it meets.
    """
    jit_compile = True if compiled else None
    return tf.function(function, input_signature=inputs, autograph=False, jit_compile=jit_compile)


def in_parts(function, *inputs, rows: int = MOST_ROWS):
    """Returns `function` over `inputs` for any batch, so many rows of it at a time.

    What a search holds grows with its rows, and a request of a few bytes may have many.

    Args:
        function: Callable from tensors `(batch, ...)` to a dict of such tensors, whose other
            sizes are the same for any rows.
        inputs: A `tf.TensorSpec` for each of its tensors.
        rows: Most rows of a part.
    """
    program = traced(function, *inputs)
    with tf.init_scope():  # not in the graph that asks for it
        outputs = program.get_concrete_function().structured_outputs
    signature = {name: tf.TensorSpec(t.shape, t.dtype) for name, t in outputs.items()}

    def chosen(*tensors):
        batch = tf.shape(tensors[0])[0]

        def parted():
            parts = -(-batch // rows)
            # The last part is filled up with its last row.
            index = tf.reshape(tf.minimum(tf.range(parts * rows), batch - 1), [parts, rows])
            given = tuple(tf.gather(tensor, index) for tensor in tensors)
            found = tf.map_fn(
                lambda part: program(*part),
                given,
                fn_output_signature=signature,
                parallel_iterations=1,
            )
            return {name: merged(tensor)[:batch] for name, tensor in found.items()}

        return tf.cond(batch > rows, parted, lambda: program(*tensors))

    return chosen


def merged(tensor):
    """`(parts, part, ...)` -> `(parts * part, ...)`, static shapes kept."""
    shape = tf.shape(tensor)
    flat = tf.reshape(tensor, tf.concat([[shape[0] * shape[1]], shape[2:]], axis=0))
    return tf.ensure_shape(flat, [None, *tensor.shape[2:]])


def one_or_many(function, *inputs):
    """Returns `function` as two graphs over `inputs`, one of them for a batch of a single row.

    A client that asks for one text at a time waits for the loop of a search, and in that graph,
    whose batch is known, a loop computes a third fewer operations: it need not ask for shapes.
    """
    single = [tf.TensorSpec([1, *spec.shape[1:]], spec.dtype, spec.name) for spec in inputs]
    many, one = in_parts(function, *inputs), traced(function, *single)

    def chosen(*tensors):
        def alone():
            return one(*[with_rows(tf.identity(t), tf.zeros([1])) for t in tensors])

        return tf.cond(tf.shape(tensors[0])[0] == 1, alone, lambda: many(*tensors))

    return chosen


def with_rows(tensor, like):
    """Returns `tensor`, known to have as many rows as `like` is known to have."""
    tensor.set_shape([like.shape[0], *[None] * (tensor.shape.rank - 1)])
    return tensor


def for_any_batch(function, *inputs):
    """Returns what `function` says, also of no rows: models are then given one, and it is cut.

    Inputs with different numbers of rows are refused, where they would be stretched to fit.
    """
    rows = tf.shape(inputs[0])[0]
    told = "every input is expected to have as many rows as the first one"
    checks = [
        tf.debugging.assert_equal(tf.shape(tensor)[0], rows, message=told) for tensor in inputs[1:]
    ]
    with tf.control_dependencies(checks):  # nothing else may fail first
        inputs = [tf.identity(tensor) for tensor in inputs]
    lacking = tf.cast(rows == 0, tf.int32)
    padded = []
    for tensor in inputs:
        blank = tf.zeros(tf.concat([[lacking], tf.shape(tensor)[1:]], axis=0), tensor.dtype)
        padded.append(tf.concat([tensor, blank], axis=0))
    return {name: output[:rows] for name, output in function(*padded).items()}


def real_tokens(ids, length):
    """True where a source has a token, the end mark included: `(B, S)`."""
    return tf.sequence_mask(length, tf.shape(ids)[1])


def end_after(ids, length):
    """`ids (B, S)` -> `(B, longest + 1)`: `length` ids of each row, the end mark, padding."""
    columns = largest(length) + 1
    ids = tf.pad(ids, [[0, 0], [0, 1]])[:, :columns]
    position = tf.range(columns)[None, :]
    length = length[:, None]
    ends = tf.where(position == length, END_ID, PADDING_ID)
    return tf.where(position < length, ids, ends)


def largest(length):
    """The largest of `length (rows,)`, 0 if there are no rows."""
    return tf.reduce_max(tf.concat([length, [0]], axis=0))

"""What each of our own optimizations brings, beside the form it replaced.

    python -m benchmarks pieces
    python -m benchmarks pieces --only dropout gradient

Every row is compiled with XLA and compared with the form before it:

* dropout: `CounterDropout` beside `keras.layers.Dropout`, forward and backward, on
  `(batch, source, 2 * width)`;
* gradient: the recurrences of an RNNsearch step (two encoder directions and the decoder), forward
  and backward, with the custom gradient (VJP) beside the automatic one;
* normalization: the `LayerNormalization` of the Transformer beside
  `keras.layers.LayerNormalization`, forward and backward, on `(batch, source, width)`;
* lstmn: an LSTMN, forward and backward, in the same two forms;
* memory: a whole RNNsearch step that keeps freed memory beside one that gives it back.
"""

import numpy as np

from benchmarks import report as reports
from benchmarks.arguments import add_number
from benchmarks.harness import Case, measure_times

REPEATS = 15
PIECES = {
    "dropout": (("CounterDropout", {"own": True}), ("keras.layers.Dropout", {"own": False})),
    "gradient": (("custom gradient", {"own": True}), ("automatic gradient", {"own": False})),
    "normalization": (
        ("ours", {"own": True}),
        ("keras.layers.LayerNormalization", {"own": False}),
    ),
    "lstmn": (("custom gradient", {"own": True}), ("automatic gradient", {"own": False})),
    "memory": (("freed memory kept", {"own": True}), ("freed memory given back", {"own": False})),
}


def add_arguments(parser) -> None:
    """Adds this suite's flags to its parser; the shared flags are there already."""
    parser.add_argument("--only", choices=PIECES, nargs="+", default=list(PIECES))
    sizes = parser.add_argument_group("sizes")
    for flag, default, text in (
        ("--batch", 64, "sentence pairs in a step"),
        ("--length", 20, "words of a sentence, on both sides"),
        ("--width", 256, "units of embedding, GRU and attention"),
        ("--vocabulary", 8000, "words in each vocabulary (memory)"),
    ):
        add_number(sizes, flag, default, text)


def run(arguments, command: str, progress) -> dict:
    """Measures the pieces one after another, both forms of each in turn."""
    sizes = {name: getattr(arguments, name) for name in ("batch", "length", "width", "vocabulary")}
    title = f"Our forms beside those they replaced, XLA, median of {arguments.repeats} rounds"
    report = reports.new_report("pieces", title, command, {**sizes, "threads": arguments.threads})
    report["columns"] = ["piece", "form", "a call", "quartiles", "times as fast"]
    for piece in arguments.only:
        results = measure_times(
            cases(piece, sizes),
            arguments.repeats,
            threads=arguments.threads,
            warmup=arguments.warmup,
            progress=progress,
        )
        fill(report, piece, results)
    return report


def cases(piece: str, sizes: dict) -> list[Case]:
    """Returns our form and the one it replaced."""
    factory = f"benchmarks.pieces:{piece}_side"
    return [Case(name, factory, {**sizes, **options}) for name, options in PIECES[piece]]


def fill(report: dict, piece: str, results: dict[str, dict]) -> None:
    """Writes the rows and the table's lines of one piece into `report`."""
    slowest = list(results.values())[-1]["median_seconds"]
    for name, result in results.items():
        ratio = slowest / result["median_seconds"]
        report["rows"].append({"piece": piece, "name": name, **result, "speed_ratio": ratio})
        report["lines"].append(
            [
                piece,
                name,
                reports.seconds_text(result["median_seconds"]),
                reports.range_text(*result["quartile_seconds"]),
                f"{ratio:.2f}",
            ]
        )


def dropout_side(batch, length, width, vocabulary, own):
    """Returns a function that drops and takes the gradient."""
    import keras
    import tensorflow as tf

    from keras_attention import CounterDropout

    layer = (CounterDropout if own else keras.layers.Dropout)(0.3, seed=1)
    return differentiate(layer, tf.random.stateless_normal((batch, length, 2 * width), seed=(1, 2)))


def normalization_side(batch, length, width, vocabulary, own):
    """Returns a function that normalizes and takes the gradient."""
    import keras
    import tensorflow as tf

    from keras_attention.kernels.layer_normalization import LayerNormalization

    layer = (LayerNormalization if own else keras.layers.LayerNormalization)()
    layer.build((batch, length, width))
    layer.set_weights(list(np.random.default_rng(1).normal(size=(2, width))))
    return differentiate(layer, tf.random.stateless_normal((batch, length, width), seed=(1, 2)))


def differentiate(layer, inputs):
    """Returns a function of no arguments: the sum of the gradient of the sum of squared outputs."""
    import tensorflow as tf

    @tf.function(jit_compile=True, autograph=False)
    def step():
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            total = tf.reduce_sum(layer(inputs, training=True) ** 2)
        return tf.reduce_sum(tape.gradient(total, inputs))

    return lambda: float(step())


def gradient_side(batch, length, width, vocabulary, own):
    """Returns a function that runs encoder and decoder recurrences forward and backward."""
    import keras
    import tensorflow as tf

    from keras_attention import AttentionRNN, BahdanauAttention, BahdanauGRU, BahdanauGRUCell

    keras.utils.set_random_seed(1)
    gru = BahdanauGRU(width, return_sequences=True)
    if not own:  # Keras' loop around the same cell, with the projection inside
        gru = keras.layers.RNN(BahdanauGRUCell(width), return_sequences=True)
    encoder = keras.layers.Bidirectional(gru)
    # Only the layer itself has the custom gradient (VJP), no subclass.
    attention = BahdanauAttention if own else type("Automatic", (BahdanauAttention,), {})
    decoder = AttentionRNN(BahdanauGRUCell(width), attention(width), order="bahdanau")
    draw = np.random.default_rng(1).normal(size=(2, batch, length, width)).astype("float32")
    source, target = (tf.constant(array) for array in draw)
    mask = tf.ones((batch, length), "bool")
    layers = [encoder, decoder]

    @tf.function(jit_compile=True, autograph=False)
    def step():
        with tf.GradientTape() as tape:
            memory = encoder(source, mask=mask)
            outputs, contexts = decoder(target, memory, memory_mask=mask, return_context=True)
            total = tf.reduce_sum(outputs**2) + tf.reduce_sum(contexts**2)
        weights = [v.value for layer in layers for v in layer.trainable_variables]
        return tf.add_n([tf.reduce_sum(g) for g in tape.gradient(total, weights)])

    decoder(target, encoder(source, mask=mask))  # makes the weights, then the same on both sides
    draw = np.random.default_rng(2)
    for layer in layers:
        layer.set_weights([draw.normal(0.0, 0.1, w.shape) for w in layer.get_weights()])
    return lambda: float(step())


def lstmn_side(batch, length, width, vocabulary, own):
    """Returns a function that runs an LSTMN forward and backward."""
    import keras
    import tensorflow as tf

    from keras_attention import LSTMN, SoftmaxNormalizer

    keras.utils.set_random_seed(1)
    # Only the normalizer itself has the custom gradient (VJP), no subclass.
    normalizer = SoftmaxNormalizer if own else type("Automatic", (SoftmaxNormalizer,), {})
    layer = LSTMN(width, normalizer=normalizer())
    inputs = tf.random.stateless_normal((batch, length, width), seed=(1, 2))
    layer(inputs[:, :2])

    @tf.function(jit_compile=True, autograph=False)
    def step():
        with tf.GradientTape() as tape:
            total = tf.reduce_sum(layer(inputs) ** 2)
        weights = [variable.value for variable in layer.trainable_variables]
        return tf.add_n([tf.reduce_sum(g) for g in tape.gradient(total, weights)])

    return lambda: float(step())


def memory_side(batch, length, width, vocabulary, own):
    """Returns a function that makes a training step."""
    from benchmarks.train import keras_side

    sizes = {"source_length": length, "target_length": length, "width": width}
    return keras_side("xla", own, batch=batch, vocabulary=vocabulary, **sizes)

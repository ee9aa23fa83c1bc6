"""DRAW, a recurrent network that draws images, Gregor et al. 2015
(https://arxiv.org/abs/1502.04623).

    x^_t = x - sigmoid(c_{t-1})                        equation 3
    r_t = read(x, x^_t, h^dec_{t-1})                   equations 4 and 27
    h^enc_t = LSTM(h^enc_{t-1}, [r_t, h^dec_{t-1}])    equation 5
    z_t ~ Q(Z_t | h^enc_t) = Normal(mu_t, sigma_t)     equations 1, 2 and 6
    h^dec_t = LSTM(h^dec_{t-1}, z_t)                   equation 7
    c_t = c_{t-1} + write(h^dec_t)                     equations 8 and 29
    bound = -log D(x | c_T) + sum_t KL(Q(Z_t | h^enc_t) || Normal(0, 1))     equations 9 to 12

Code name -> paper name: `image` -> x, `canvas` -> c, `noise` -> (z - mu) / sigma. The recurrence is
written out, step by step. What is random comes in as `noise`; for a new image it is z itself, and
only the decoder runs (`generator`). The canvas and both hidden states begin at learned values, the
cells at 0.
"""

import keras
from keras import ops

from keras_attention import GaussianGlimpse, GaussianWriter

TITLE = "DRAW: an image is drawn part by part, through a moving window"
REFERENCE = "Gregor et al. 2015, arXiv 1502.04623"


def build(
    height: int,
    width: int,
    steps: int = 10,
    units: int = 256,
    latent_dim: int = 100,
    read_size: int = 5,
    write_size: int = 5,
    dtype=None,
) -> keras.Model:
    """Returns a functional model that looks at an image and draws it again.

    Args:
        height: Rows of an image.
        width: Its columns.
        steps: How often it reads and writes; the paper has 64.
        units: Size of the states of encoder and decoder.
        latent_dim: Random numbers of a step.
        read_size: Rows and columns of what is read; the paper has 2.
        write_size: Rows and columns of what is written.
        dtype: Optional dtype policy, such as "mixed_bfloat16".

    Returns:
        A model from `{"image": (batch, height, width), "noise": (batch, steps, latent_dim)}`, the
        image from 0 to 1, to `{"logits": (batch, height, width)}`, the last canvas, `"canvases"`
        `(batch, steps, height, width)`, `"kl"` `(batch, steps)` in nats, and the windows
        `"reads"` and `"writes"` `(batch, steps, 5)`, see `keras_attention.GaussianGlimpse`.
    """
    image = keras.Input([height, width], name="image")
    noise = keras.Input([steps, latent_dim], name="noise")
    reader = GaussianGlimpse(read_size, dtype=dtype, name="reader")
    flat = keras.layers.Flatten(dtype=dtype, name="patches")
    encoder = keras.layers.LSTMCell(units, dtype=dtype, name="encoder")
    mean_of = keras.layers.Dense(latent_dim, dtype="float32", name="mean")
    log_deviation_of = keras.layers.Dense(latent_dim, dtype="float32", name="log_deviation")
    first_encoded = _first_value("first_encoded", units, dtype)
    pen = _Pen(
        _first_value("first_canvas", height * width, "float32"),
        _first_value("first_decoded", units, dtype),
        keras.layers.LSTMCell(units, dtype=dtype, name="decoder"),
        keras.layers.Dense(write_size * write_size, dtype=dtype, name="patch"),
        keras.layers.Reshape((write_size, write_size), dtype=dtype, name="ink"),
        GaussianWriter(height, width, dtype=dtype, name="writer"),
    )
    ones = ops.ones_like(image[:, :1, 0])  # (batch, 1)
    encoded = _first_state(first_encoded, ones)
    canvas, decoded = pen.first(ones)
    canvases, kl, reads, writes = [], [], [], []
    for step in range(steps):
        both = ops.stack([image, image - ops.sigmoid(canvas)], axis=-1)
        patch, window = reader(both, decoded[0], return_window=True)
        reads.append(window)
        _, encoded = encoder(ops.concatenate([flat(patch), decoded[0]], axis=-1), encoded)
        mean, log_deviation = mean_of(encoded[0]), log_deviation_of(encoded[0])
        deviation = ops.exp(log_deviation)
        kl.append(_divergence(mean, log_deviation, deviation))
        written, decoded, window = pen(mean + deviation * noise[:, step], decoded)
        canvas = canvas + written
        canvases.append(canvas)
        writes.append(window)
    outputs = {
        "logits": keras.layers.Activation("linear", dtype="float32", name="logits")(canvas),
        "canvases": ops.stack(canvases, axis=1),
        "kl": ops.stack(kl, axis=1),
        "reads": ops.stack(reads, axis=1),
        "writes": ops.stack(writes, axis=1),
    }
    return keras.Model({"image": image, "noise": noise}, outputs, name="draw")


def generator(model: keras.Model) -> keras.Model:
    """Returns the model that draws new images, of the decoder of a built or loaded model.

    Args:
        model: What `build` returned.

    Returns:
        A model from `{"noise": (batch, steps, latent_dim)}`, standard normal, to `{"image": (batch,
        height, width)}`, the probability of ink, `"canvases"` `(batch, steps, height, width)`,
        the same after every step, and `"windows"` `(batch, steps, 5)`, where it wrote.
    """
    noise = keras.Input(model.input["noise"].shape[1:], name="noise")
    names = ("first_canvas", "first_decoded", "decoder", "patch", "ink", "writer")
    pen = _Pen(*map(model.get_layer, names))
    canvas, decoded = pen.first(ops.ones_like(noise[:, :1, 0]))
    canvases, windows = [], []
    for step in range(noise.shape[1]):
        written, decoded, window = pen(noise[:, step], decoded)
        canvas = canvas + written
        canvases.append(ops.sigmoid(ops.cast(canvas, "float32")))
        windows.append(window)
    outputs = {
        "image": ops.add(canvases[-1], 0.0),
        "canvases": ops.stack(canvases, axis=1),
        "windows": ops.stack(windows, axis=1),
    }
    return keras.Model({"noise": noise}, outputs, name="draw")


class _Pen:
    """What turns a z into ink: the decoder, and what it writes through its window."""

    def __init__(self, first_canvas, first_decoded, decoder, patch, ink, writer):
        self.first_canvas, self.first_decoded = first_canvas, first_decoded
        self.decoder, self.patch, self.ink, self.writer = decoder, patch, ink, writer

    def first(self, ones):
        """Returns the canvas and the decoder's state before the first step."""
        canvas = ops.reshape(self.first_canvas(ones), (-1, self.writer.height, self.writer.width))
        return canvas, _first_state(self.first_decoded, ones)

    def __call__(self, latent, state):
        """Returns what is written `(batch, height, width)`, the state and the window."""
        hidden, state = self.decoder(latent, state)
        written, window = self.writer(self.ink(self.patch(hidden)), hidden, return_window=True)
        return written, state, window


def _first_value(name, size, dtype):
    """A learned value, the same for every row: what a matrix without bias makes of a 1."""
    return keras.layers.Dense(
        size, use_bias=False, kernel_initializer="zeros", dtype=dtype, name=name
    )


def _first_state(first_value, ones):
    """The first hidden state and cell of an LSTM."""
    hidden = first_value(ones)
    return [hidden, ops.zeros_like(hidden)]


def _divergence(mean, log_deviation, deviation):
    """KL(Normal(mean, deviation) || Normal(0, 1)), `(batch,)`, in nats: equation 11."""
    terms = ops.square(mean) + ops.square(deviation) - 2.0 * log_deviation - 1.0
    return 0.5 * ops.sum(terms, axis=-1)

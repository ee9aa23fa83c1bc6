"""The recurrent attention model RAM, Mnih et al. 2014 (https://arxiv.org/abs/1406.6247).

    g_t = relu(W_2 relu(W_1 rho(x, l_t)) + V_2 relu(V_1 l_t))     the glimpse network, figure 1
    h_t = relu(W_h h_{t-1} + W_g g_t)                             the core network, section 4
    l_{t+1} ~ Normal(tanh(W_l stop(h_t) + d_t), std)              the location network
    b_t = w_b . stop(h_t)                                         the baseline, equation 4
    p(digit) = softmax(W_a h_T)                                   the action network

Code name -> paper name: `image` -> x, `location` -> l, `retina` -> rho, `baseline` -> b. A few
glimpses are few layers: the recurrence is written out. What is random comes in: `start` is the
first location, `noise` what the others differ by from their means, in standard deviations. With
zeros for both the model looks where it means to. The paper has one bias d for all glimpses; with
`bias_per_glimpse` each has its own, so that where to look may depend on how often it has looked.
"""

import keras
from keras import ops

from examples.commands.options import PositiveFloat
from keras_attention import RetinaGlimpse

TITLE = "RAM: a digit is recognized by a few glimpses"
REFERENCE = "Mnih et al. 2014, arXiv 1406.6247"
CLASSES = 10


def build(
    height: int,
    width: int,
    glimpses: int = 6,
    size: int = 8,
    scales: int = 1,
    units: int = 256,
    glimpse_units: int = 128,
    deviation: PositiveFloat = 0.1,
    bias_per_glimpse: bool = False,
    dtype=None,
) -> keras.Model:
    """Returns a functional model from an image to a digit, and to where it looked.

    Args:
        height: Rows of an image.
        width: Its columns.
        glimpses: How often it looks.
        size: Rows and columns of a glimpse.
        scales: Patches of a glimpse, each twice as wide as the one before.
        units: Size of the state, and of a glimpse's features.
        glimpse_units: Size of the features of patches and of locations.
        deviation: Standard deviation of a location, in halves of the image.
        bias_per_glimpse: Whether the location network has a bias for each glimpse, not one for all.
        dtype: Optional dtype policy, such as "mixed_bfloat16".

    Returns:
        A model from `{"image": (batch, height, width), "start": (batch, 2), "noise": (batch,
        glimpses - 1, 2)}`, the image from 0 to 1, to `{"logits": (batch, 10), "locations": (batch,
        glimpses, 2), "log_pi": (batch, glimpses - 1), "baselines": (batch, glimpses - 1)}`;
        `log_pi` is the log-probability density of each location but the first, up to a constant.
        With one glimpse `log_pi` and `baselines` are left out.
    """
    image = keras.Input([height, width], name="image")
    start = keras.Input([2], name="start")
    noise = keras.Input([glimpses - 1, 2], name="noise")
    look = _glimpse_network(size, scales, units, glimpse_units, dtype)
    core = keras.layers.Dense(units, "relu", dtype=dtype, name="core")  # W_h and W_g side by side
    locator = keras.layers.Dense(2, "tanh", dtype="float32", name="locator")
    baseline = keras.layers.Dense(1, dtype="float32", name="baseline")
    location, state = start, ops.repeat(ops.zeros_like(start[:, :1]), units, axis=1)
    locations, log_pi, baselines = [start], [], []
    for step in range(glimpses):
        state = core(ops.concatenate([state, look(image, location)], axis=-1))
        if step + 1 == glimpses:
            break
        seen = ops.stop_gradient(state)  # where to look is learned from the reward alone
        known = seen
        if bias_per_glimpse:  # a row of the kernel is the bias of a glimpse
            number = ops.full_like(start[:, 0], step, dtype="int32")
            number = ops.one_hot(number, glimpses - 1, dtype=seen.dtype)
            known = ops.concatenate([seen, number], axis=-1)
        mean = locator(known)
        drawn = ops.stop_gradient(mean + deviation * noise[:, step])
        log_pi.append(-0.5 * ops.sum(ops.square((drawn - mean) / deviation), axis=-1))
        baselines.append(baseline(seen)[:, 0])
        location = ops.clip(drawn, -1.0, 1.0)
        locations.append(location)
    logits = keras.layers.Dense(CLASSES, dtype=dtype, name="output")(state)
    outputs = {
        "logits": keras.layers.Activation("linear", dtype="float32", name="logits")(logits),
        "locations": ops.stack(locations, axis=1),
    }
    if log_pi:
        outputs["log_pi"] = ops.stack(log_pi, axis=1)
        outputs["baselines"] = ops.stack(baselines, axis=1)
    return keras.Model({"image": image, "start": start, "noise": noise}, outputs, name="ram")


def _glimpse_network(size, scales, units, glimpse_units, dtype):
    """Returns a function from an image and a location to features `(batch, units)`."""
    retina = RetinaGlimpse(size, scales, dtype=dtype, name="retina")
    flat = keras.layers.Flatten(dtype=dtype, name="patches")
    of_patches = keras.layers.Dense(glimpse_units, "relu", dtype=dtype, name="what")
    of_location = keras.layers.Dense(glimpse_units, "relu", dtype=dtype, name="where")
    both = keras.layers.Dense(units, "relu", dtype=dtype, name="what_and_where")  # W_2 and V_2

    def look(image, location):
        what, where = of_patches(flat(retina(image, location))), of_location(location)
        return both(ops.concatenate([what, where], axis=-1))

    return look

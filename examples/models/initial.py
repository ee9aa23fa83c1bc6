"""Initial weights of a whole model, as papers draw them."""

import keras

ORTHOGONAL_OR_ZERO = ("recurrent_kernel", "bias")  # as the layers draw them
#: Of the weights that score: W_a, U_a and v_a of RNNsearch.
FACTORS = {"query_kernel": 0.1, "key_kernel": 0.1, "vector": 0.0}


def draw_uniform(model: keras.Model, scale: float | None, seed: int | None = None) -> keras.Model:
    """Returns the model, every trainable weight drawn from U(-scale, scale), biases too.

    Sutskever et al. 2014 (https://arxiv.org/abs/1409.3215) take 0.08, Luong et al. 2015
    (https://arxiv.org/abs/1508.04025) 0.1. A forget gate's bias is then not 1.

    Args:
        model: A built model.
        scale: The largest value; None leaves the layers' own initial weights.
        seed: Optional int.
    """
    if scale is not None:
        generator = keras.random.SeedGenerator(seed)
        for variable in model.trainable_variables:
            _assign(
                variable,
                keras.random.uniform(variable.shape, -scale, scale, "float32", generator),
            )
    return model


def draw_normal(model: keras.Model, stddev: float | None, seed: int | None = None) -> keras.Model:
    """Returns the model, its weights drawn from a normal distribution around 0.

    Recurrent matrices stay orthogonal and biases 0; those that additive scores are made with have
    a tenth of the standard deviation, and their vector is 0, so that attention begins with the
    same weight everywhere. Cho et al. 2014 (https://arxiv.org/abs/1406.1078) and Bahdanau et al.
    2015 (https://arxiv.org/abs/1409.0473, B.1) take 0.01.

    Args:
        model: A built model.
        stddev: The standard deviation; None leaves the layers' own initial weights.
        seed: Optional int.
    """
    if stddev is not None:
        generator = keras.random.SeedGenerator(seed)
        drawn = [v for v in model.trainable_variables if v.name not in ORTHOGONAL_OR_ZERO]
        for variable in drawn:
            spread = stddev * FACTORS.get(variable.name, 1.0)
            _assign(
                variable, keras.random.normal(variable.shape, 0.0, spread, "float32", generator)
            )
    return model


def _assign(variable, drawn):
    """Gives a variable what was drawn in float32, in its own dtype."""
    variable.assign(keras.ops.cast(drawn, variable.dtype))

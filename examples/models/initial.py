"""First values of a whole model's weights, as two papers draw them."""

import keras


def draw_uniform(model: keras.Model, scale: float | None, seed: int | None = None) -> keras.Model:
    """Returns the model, every trainable weight drawn from U(-scale, scale), biases too.

    Sutskever et al. 2014 (https://arxiv.org/abs/1409.3215) take 0.08, Luong et al. 2015
    (https://arxiv.org/abs/1508.04025) 0.1. A forget gate's bias is then not 1.

    Args:
        model: A built model.
        scale: The largest value; None leaves the layers' own first values.
        seed: Optional int.
    """
    if scale is not None:
        generator = keras.random.SeedGenerator(seed)
        for variable in model.trainable_variables:
            drawn = keras.random.uniform(variable.shape, -scale, scale, "float32", generator)
            variable.assign(keras.ops.cast(drawn, variable.dtype))
    return model

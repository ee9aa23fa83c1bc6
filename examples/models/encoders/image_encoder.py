"""An image as annotations, one vector a location: a small network trained along, or any backbone.

    a = reshape(CNN(image)) + P[location]          Xu et al. 2015, section 3.1.1, and positions

The positions are ours: a small network does not see as far as the edges of an image, so nothing
else would tell where a location is.
"""

import contextlib
import importlib
import inspect
import typing

import keras
import numpy as np

from examples.commands import arguments
from keras_attention import LearnedPositionalEmbedding, validation

STRIDE = 8
"""Points between two locations of the small network."""
HALVINGS = 3
Convolutions = typing.Annotated[int, arguments.int_at_least(HALVINGS)]
CONVOLUTIONS = 4  # of the small network, by default
BACKBONE_SIZE = 224  # as most weights were trained


def annotations(
    image,
    annotation_dim: int = 96,
    backbone: str | None = None,
    backbone_weights: str | None = None,
    backbone_size: int = BACKBONE_SIZE,
    train_backbone: bool = False,
    convolutions: int = CONVOLUTIONS,
    dtype=None,
):
    """Returns the annotations of images and how many rows and columns of locations there are.

    Args:
        image: Keras tensor `(batch, height, width, 1 or 3)`, 0 to 255, of known size.
        annotation_dim: Size of an annotation.
        backbone: None, or the name of a function of `keras.applications`.
        backbone_weights: None, or a file of weights for it.
        backbone_size: Side that images are scaled to for it.
        train_backbone: Whether it is trained.
        convolutions: Int of at least 3, those of the small network.
        dtype: Optional dtype policy.

    Returns:
        A Keras tensor `(batch, rows * columns, annotation_dim)`, and the pair of rows and columns.

    Raises:
        ValueError: If there is no such backbone, or its file does not fit.
    """
    if backbone is None:
        found = _small(image, annotation_dim, convolutions, dtype)
    else:
        found = _backbone(image, backbone, backbone_weights, backbone_size, train_backbone, dtype)
        found = keras.layers.Dense(annotation_dim, dtype=dtype, name="projection")(found)
    rows, columns = found.shape[1:3]
    flat = keras.layers.Reshape((rows * columns, annotation_dim), dtype=dtype, name="locations")
    positions = LearnedPositionalEmbedding(rows * columns, dtype=dtype, name="positions")
    return positions(flat(found)), (rows, columns)


def _small(image, units, convolutions, dtype):
    """Convolutions, three of which halve the image: of four a location sees 33 points, of six 45.

    Those beside the three follow them, the last one first. What a location sees is around its
    middle: "same" would shift that to the lower right by half a location in each halving, so the
    last one is padded at the other side.
    """
    validation.check_int_at_least("image_encoder", "convolutions", convolutions, HALVINGS)
    hidden = keras.layers.Rescaling(1 / 255, dtype=dtype, name="rescaling")(image)
    sizes = []  # filters, kernel, stride, padding
    for size in range(HALVINGS):
        filters = max(1, units // 2 ** (HALVINGS - 1 - size))
        sizes.append((filters, 3 if size else 5, 2, "valid" if size == HALVINGS - 1 else "same"))
        sizes += [(filters, 3, 1, "same")] * ((convolutions + size) // HALVINGS - 1)
    for number, (filters, kernel, stride, padding) in enumerate(sizes, 1):
        if padding == "valid":
            before = keras.layers.ZeroPadding2D(((1, 0), (1, 0)), dtype=dtype, name="padding")
            hidden = before(hidden)
        hidden = keras.layers.Conv2D(
            filters,
            kernel,
            stride,
            padding,
            use_bias=False,
            kernel_initializer="he_normal",
            dtype=dtype,
            name=f"convolution_{number}",
        )(hidden)
        hidden = keras.layers.BatchNormalization(
            momentum=0.9, dtype=dtype, name=f"normalization_{number}"
        )(hidden)
        hidden = keras.layers.Activation("relu", dtype=dtype, name=f"relu_{number}")(hidden)
    return hidden


def find_backbone(name: str):
    """Returns the function of `keras.applications` that makes a network.

    Raises:
        ValueError: If there is none of that name.
    """
    known = [
        known
        for known, function in vars(keras.applications).items()
        if inspect.isfunction(function) and "include_top" in inspect.signature(function).parameters
    ]
    if name not in known:
        raise ValueError(
            "A backbone is a network of keras.applications, one of "
            f"{', '.join(sorted(known))}. Received: {name}"
        )
    return getattr(keras.applications, name)


def _backbone(image, name, weights, size, trained, dtype):
    function = find_backbone(name)
    scaled = keras.layers.Resizing(size, size, dtype=dtype, name="resizing")(image)
    module = importlib.import_module(function.__module__)
    kernel, bias = affine(module.preprocess_input, image.shape[-1])
    colors = keras.layers.Dense(3, trainable=False, dtype=dtype, name="colors")
    colored = colors(scaled)
    colors.set_weights([kernel, bias])
    with _policy(dtype):
        network = function(include_top=False, weights=None, input_shape=(size, size, 3))
    if weights is not None:
        try:
            network.load_weights(weights)
        except (OSError, ValueError, KeyError) as error:
            line = str(error).strip().split("\n")[0]
            raise ValueError(
                f"{weights}: expected weights of {name} with include_top=False. {line}"
            ) from None
    network.trainable = bool(trained)
    return network(colored)


def affine(preprocess, channels: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns `kernel`, `bias` with which `image @ kernel + bias` is what `preprocess` makes of it.

    All of `keras.applications` prepare the colors of a point by itself, by an affine map; so it can
    stand in the model, and an image of one channel counts as gray.

    Args:
        preprocess: Function of an array `(batch, height, width, 3)`, 0 to 255.
        channels: 1 or 3.

    Example:

    >>> kernel, bias = affine(lambda image: image[..., ::-1] / 2 - 1, channels=3)
    >>> kernel[0].tolist(), bias.tolist()
    ([0.0, 0.0, 0.5], [-1.0, -1.0, -1.0])
    """
    probes = np.concatenate([np.zeros((1, 3)), 255 * np.eye(3)]).astype("float32")
    found = np.array(preprocess(probes[None]))[0]
    bias, kernel = found[0], (found[1:] - found[0]) / 255
    return kernel.sum(axis=0, keepdims=True) if channels == 1 else kernel, bias


@contextlib.contextmanager
def _policy(dtype):
    """The networks of Keras have no dtype of their own: they take the one that is set."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(dtype or before)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def count_locations(model: keras.Model) -> tuple[int, int]:
    """Returns the rows and columns of locations that a captioner looks at; images are square."""
    count = model.get_layer("encoder").get_layer("positions").max_length
    side = round(count**0.5)
    return side, side


def copy_weights(trained: keras.Model, model: keras.Model) -> list[str]:
    """Gives the image encoder of one captioner to another, which trains on from there.

    Args:
        trained: A captioner whose `encoder` has been trained.
        model: A captioner with the same image encoder.

    Returns:
        The names of the layers that were copied.

    Raises:
        ValueError: If the networks are not the same, or `trained` is no captioner.
    """
    names = {one.name for one in (*trained.inputs, *trained.layers)}
    if not {"image", "encoder"} <= names:
        raise ValueError(
            "An image encoder is taken from a captioner: name a run of show-attend-tell or "
            f"text-guided. Received: a model {trained.name!r}"
        )
    found, wanted = (_network(one.get_layer("encoder")) for one in (trained, model))
    shapes = [
        {name: [tuple(w.shape) for w in layer.weights] for name, layer in layers.items()}
        for layers in (found, wanted)
    ]
    if shapes[0] != shapes[1]:
        differing = [name for name in shapes[1] if shapes[0].get(name) != shapes[1][name]]
        raise ValueError(
            "The image encoders differ in their layers or sizes: give both runs the same "
            "--annotation-dim, --convolutions, --grid and --backbone. Received: another "
            f"{', '.join(differing) or 'number of layers'}"
        )
    for name, layer in wanted.items():
        layer.set_weights(found[name].get_weights())
    return list(wanted)


def _network(encoder):
    """The layers of the image encoder that have weights, by name."""
    names = ("convolution_", "normalization_", "colors", "projection", "positions")
    return {
        layer.name: layer
        for layer in encoder.layers
        if layer.weights and (layer.name.startswith(names) or isinstance(layer, keras.Model))
    }

"""Quantized weights of the library's layers, and files that restore them.

`model.quantize` visits each layer that has no layers inside. Keras quantizes its own `Dense` and
`Embedding`; a layer here quantizes the matrices that it owns. The numbers of output channel c are

    q[..., c] = round(w[..., c] * s[c]),    s[c] = 127 / max |w[..., c]|

and a read of the weight returns q / s.
"""

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.tensor_types import Config, Structure

#: Modes of quantization that need no data, so that they can be repeated as a file is loaded.
QUANTIZATION_MODES = ("int8", "int4", "float8")


class QuantizedWeightsMixin:
    """A layer that can store the matrices it owns as int8; comes before the Keras layer.

    Quantization replaces each weight of two or more axes, such as `kernel`, by `_kernel` and
    `kernel_scale`, which are not trained. `layer.kernel` then is their quotient. Vectors and
    matrices of one column stay as they are.
    """

    _quantized_names = ()
    _lora = None

    def __getattr__(self, name):  # called for what is no attribute any more
        if name in vars(self).get("_quantized_names", ()):
            scale = ops.convert_to_tensor(getattr(self, f"{name}_scale"))
            return ops.divide(ops.cast(getattr(self, f"_{name}"), scale.dtype), scale)
        parent = getattr(super(), "__getattr__", None)  # PyTorch's modules have one
        if parent is None or hasattr(type(self), name):
            return super().__getattribute__(name)  # raises the error inside a property again
        return parent(name)

    @property
    def quantization_mode(self) -> str | None:
        """The mode in which the layer is quantized, or None."""
        return self.quantization_config.mode if self._quantized_names else super().quantization_mode

    def quantize(
        self,
        mode: str | None = None,
        type_check: bool = True,
        config: keras.quantizers.QuantizationConfig | None = None,
    ) -> None:
        """Stores the matrices that the layer owns as int8; Keras documents the arguments.

        The activations stay in the compute dtype, whatever `config` says of them.

        Raises:
            NotImplementedError: If the layer owns no matrix or the mode is another one;
                `model.quantize` then warns and leaves the layer as it is.
            ValueError: If the layer is quantized already.
        """
        if self.quantization_mode is not None:
            raise ValueError(
                f"{type(self).__name__} can be quantized once. Load the model again to quantize "
                f"it otherwise. Received: a second quantization, mode={mode!r}, of the layer "
                f"{self.name!r}"
            )
        names = [name for name, weight in vars(self).items() if _is_matrix(weight)]
        if mode != "int8" or not names:
            super().quantize(mode, type_check=type_check, config=config)
        for name in names:
            self._quantize_weight(name, config.weight_quantizer)
        self.quantization_config = config
        self._quantized_names = tuple(names)

    def enable_lora(self, rank: int, lora_alpha: float | None = None) -> None:
        """Freezes the layer and trains low-rank updates of its projections alone.

        Every `Dense` and `Embedding` inside adds `lora_alpha / rank * A B` to its kernel, see
        `keras.layers.Dense.enable_lora`. A saved model holds the sums, and updates of 0.

        Args:
            rank: Positive int, the columns of A and the rows of B.
            lora_alpha: Optional float, the scale of the updates times `rank`; `rank` by default.

        Raises:
            ValueError: If `rank` is not a positive int, or the layer has no projections.

        Reference: Hu et al. 2022, https://arxiv.org/abs/2106.09685.
        """
        owner = type(self).__name__
        validation.check_positive_int(f"{owner}.enable_lora", "rank", rank)
        kinds = (keras.layers.Dense, keras.layers.Embedding)
        inside = self._flatten_layers(include_self=False)
        projections = [one for one in inside if isinstance(one, kinds) and not one.lora_enabled]
        if not projections:
            raise ValueError(
                f"{owner} has no `Dense` or `Embedding` inside that is without LoRA. "
                f"Received: enable_lora(rank={rank}) of the layer {self.name!r}"
            )
        for variable in self.variables:
            variable.trainable = "lora" in variable.name
        for layer in projections:
            layer.enable_lora(rank, lora_alpha=lora_alpha)
        self._lora = {"rank": rank, "lora_alpha": lora_alpha}

    def quantized_call(self, *args: Structure, **kwargs: Structure) -> Structure:
        """Runs `call`, which reads the quantized weights as the others."""
        if self._quantized_names:
            return self.call(*args, **kwargs)
        return super().quantized_call(*args, **kwargs)

    def _quantize_weight(self, name, quantizer):
        weight = getattr(self, name)
        axes = tuple(range(len(weight.shape) - 1))
        quantizer = quantizer or keras.quantizers.AbsMaxQuantizer(axis=axes)
        values, scale = quantizer(weight, to_numpy=True)
        delattr(self, name)
        for key, value, dtype in (
            (f"_{name}", values, "int8"),
            (f"{name}_scale", scale, weight.dtype),
        ):
            added = self.add_weight(
                value.shape, "zeros", dtype, trainable=False, name=key.removeprefix("_")
            )
            added.assign(value)
            setattr(self, key, added)

    def get_build_config(self) -> Config | None:
        config = super().get_build_config()
        quantized = {
            key: keras.saving.serialize_keras_object(layer.quantization_config)
            for key, layer in self._name_layers().items()
            if layer.quantization_mode in QUANTIZATION_MODES
            and getattr(layer, "quantization_config", None) is not None
        }
        lora = {key: one._lora for key, one in self._name_layers().items() if _has_lora(one)}
        added = {"quantized_layers": quantized, "lora_layers": lora}
        return config and config | {key: value for key, value in added.items() if value}

    def build_from_config(self, config: Config) -> None:
        """Builds the layer for a file's weights, with those of its layers quantized that were.

        An owner makes its layers from arguments that know nothing of the quantization.
        """
        config = dict(config or {})
        quantized, lora = config.pop("quantized_layers", {}), config.pop("lora_layers", {})
        super().build_from_config(config)
        layers = self._name_layers()
        for key, settings in quantized.items():
            layer = layers[key]
            if layer.quantization_mode is None:  # one with a config of its own is quantized by it
                settings = keras.saving.deserialize_keras_object(settings)
                layer.quantize(settings.mode, config=settings)
        # From the inside out: an owner gives its rank to those inside that have none yet.
        for key, settings in reversed(lora.items()):
            if not _has_lora(layers[key]):
                layers[key].enable_lora(**settings)

    def _name_layers(self):
        """Returns the layer and those inside, by their names in a file."""
        inside = self._flatten_layers(include_self=False)
        return {"self": self} | {str(index): layer for index, layer in enumerate(inside)}


def _has_lora(layer):
    return isinstance(layer, QuantizedWeightsMixin) and layer._lora is not None


def _is_matrix(weight):
    is_float = isinstance(weight, keras.Variable) and keras.backend.is_float_dtype(weight.dtype)
    return is_float and len(weight.shape) > 1 and weight.shape[-1] > 1

"""The base class of the library's layers."""

import functools
import inspect
import types

import keras

from keras_attention._utils.call_style_errors import SeparateTensorsMixin
from keras_attention._utils.quantization import QuantizedWeightsMixin
from keras_attention._utils.recomputation import Recomputable


class CheckedBuildMixin:
    """A layer whose first call checks its arguments before it makes any weight.

    Keras builds a layer before `call` sees masks and other arguments. A call that is refused there
    would leave a layer with weights for widths that it never computed with.
    """

    def __new__(cls, *args, **kwargs):
        layer = super().__new__(cls, *args, **kwargs)
        layer.build = _check_shapes_given(cls.__name__, layer.build)
        return layer

    def __call__(self, *args, **kwargs):
        if not getattr(self, "built", True):  # without `super().__init__()` Keras has its error
            self._check_arguments(args, kwargs)
        return super().__call__(*args, **kwargs)

    def _check_arguments(self, args, kwargs):
        """Raises what `compute_output_spec` raises for the arguments of a call."""
        if type(self).compute_output_spec is keras.layers.Layer.compute_output_spec:
            return  # it would trace the call, which needs the weights
        try:
            self.compute_output_spec(*args, **kwargs)
        except (AttributeError, TypeError):
            pass  # `call` refuses the arguments, unless Keras converts a list or a number


def bind_call(layer, args, kwargs) -> types.SimpleNamespace:
    """Returns the arguments of a call by name, with the defaults of `call`.

    A subclass may add arguments to `call`. If it renames them, or passes them on as
    `*args, **kwargs`, they have the names of the class that computes the output spec.
    """
    classes = [one for one in type(layer).__mro__ if issubclass(one, Layer)]
    owner = [one for one in classes if "compute_output_spec" in vars(one)][-1]
    named = inspect.signature(owner.call).parameters.keys()
    calls = (one.call for one in classes)
    call = next(one for one in calls if named <= inspect.signature(one).parameters.keys())
    bound = inspect.signature(call.__get__(layer)).bind(*args, **kwargs)
    bound.apply_defaults()
    return types.SimpleNamespace(**bound.arguments)


def select_outputs(output, *optional):
    """Returns `output`, or a tuple of it and the others that were requested.

    Args:
        output: The output that every call returns.
        *optional: Pairs of a bool, whether an output was requested, and that output.
    """
    requested = [one for is_requested, one in optional if is_requested]
    return (output, *requested) if requested else output


def _check_shapes_given(owner, build):
    """Returns `build` with an error that names the remedy where it is not given every shape."""

    @functools.wraps(build)
    def build_checked(*args, **kwargs):
        signature = inspect.signature(build)
        try:
            signature.bind(*args, **kwargs)
        except TypeError:
            raise TypeError(
                f"{owner} is built from the shape of each tensor, `build{signature}`. A wrapper "
                "that passes one input on, as `keras.layers.TimeDistributed`, cannot hold it: "
                'fold the other axes into the batch, as "Over time" in docs/from_keras_layers.md '
                f"does. Received: shapes {[*args, *kwargs.values()]}"
            ) from None
        return build(*args, **kwargs)

    return build_checked


class Layer(
    SeparateTensorsMixin,
    CheckedBuildMixin,
    QuantizedWeightsMixin,
    Recomputable,
    keras.layers.Layer,
):
    """A Keras layer that takes each tensor as its own argument and works in `keras.RematScope`."""

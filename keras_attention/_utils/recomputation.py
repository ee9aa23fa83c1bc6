"""Support for `keras.RematScope`, which recomputes layers for the gradient to save memory."""

import contextlib

import keras
from keras import ops


class Recomputable:
    """Mixin for a layer that passes only float tensors to the recomputed function.

    Keras passes the arguments of a call to the backend unchanged. In a graph TensorFlow then
    rejects every keyword argument, including masks and `training`, and adds to every tensor, which
    fails for booleans. JAX traces flags. Only float tensors have gradients, so only they are
    passed.

    Every run of the function draws the random numbers of the first, and only the first one advances
    the seeds.
    """

    #: False for a layer whose call adds losses, which would have no gradient, or updates weights.
    is_recomputable = True

    def rematerialized_call(self, layer_call, *args, **kwargs):
        if not self.is_recomputable:
            return layer_call
        weights = {id(weight) for weight in self.weights}
        seeds = [variable for variable in self.variables if id(variable) not in weights]
        initial_seeds = [(seed, seed.value * 1) for seed in seeds]  # times 1 to copy, as Keras does
        scopes = iter([contextlib.nullcontext()])
        given = (args, kwargs)
        flat = keras.tree.flatten(given)
        places = [place for place, one in enumerate(flat) if _is_float(one)]

        def call(*floats):
            leaves = list(flat)
            for place, one in zip(places, floats, strict=True):
                leaves[place] = one
            args, kwargs = keras.tree.pack_sequence_as(given, leaves)
            with next(scopes, keras.StatelessScope(initial_seeds)):
                return layer_call(*args, **kwargs)

        recomputed = super().rematerialized_call(call, *args, **kwargs)
        return lambda *args, **kwargs: recomputed(*(flat[place] for place in places))


def _is_float(leaf):
    return ops.is_tensor(leaf) and "float" in keras.backend.standardize_dtype(leaf.dtype)

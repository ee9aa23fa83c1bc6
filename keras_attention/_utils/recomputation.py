"""Support for `keras.RematScope`, which recomputes layers for the gradient to save memory."""

import keras


class Recomputable:
    """Mixin for a layer that passes only float tensors to the recomputed function.

    Keras passes the arguments of a call to the backend unchanged. In a graph TensorFlow then
    rejects every keyword argument, including masks and `training`, and adds to every tensor, which
    fails for booleans. JAX traces flags. Only float tensors have gradients, so only they are
    passed.
    """

    def rematerialized_call(self, layer_call, *args, **kwargs):
        given = (args, kwargs)
        flat = keras.tree.flatten(given)
        places = [place for place, one in enumerate(flat) if _is_float(one)]

        def call(*floats):
            leaves = list(flat)
            for place, one in zip(places, floats, strict=True):
                leaves[place] = one
            args, kwargs = keras.tree.pack_sequence_as(given, leaves)
            return layer_call(*args, **kwargs)

        recomputed = super().rematerialized_call(call, *args, **kwargs)
        return lambda *args, **kwargs: recomputed(*(flat[place] for place in places))


def _is_float(leaf):
    return keras.ops.is_tensor(leaf) and "float" in keras.backend.standardize_dtype(leaf.dtype)

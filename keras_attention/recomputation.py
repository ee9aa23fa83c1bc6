"""Layers that `keras.RematScope` may compute again for the gradient instead of keeping tensors."""

import keras


class Recomputable:
    """Mixed into a layer, keeps everything but float tensors from what is computed again.

    Keras hands the arguments of a call to the backend as they are. In a graph TensorFlow then
    refuses every keyword, be it a mask or `training`, and adds to every tensor, which booleans
    do not take; JAX traces flags. Only float tensors have gradients, so only they are handed on.
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

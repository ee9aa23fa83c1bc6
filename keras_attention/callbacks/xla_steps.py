"""Training and evaluation steps as XLA programs that `fit` calls directly."""

from collections.abc import Mapping

import keras

Logs = Mapping[str, float] | None


class XLASteps(keras.callbacks.Callback):
    """Makes `fit` faster with XLA: one program for each batch shape, which updates in place.

    With `compile(jit_compile=True)` alone, `fit` on TensorFlow calls the program from inside of
    another graph. XLA cannot update the weights in place there and copies them and the
    optimizer's variables in every step; and from the second batch shape on layers are traced with
    unknown lengths. With this callback each step is a program of its own, called with its batch.

    Each batch shape is compiled once, so pad batches to a few shapes. Where the model is not
    compiled with `jit_compile=True`, on several devices, and on other backends than TensorFlow it
    changes nothing.

    Raises:
        ValueError: At the beginning of `fit` and `evaluate`: if `steps_per_execution` of
            `compile` is not 1.

    Example:

    >>> import numpy as np
    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    >>> model.compile("adam", "mse", jit_compile=True)
    >>> x = np.ones((8, 2))
    >>> history = model.fit(x, x[:, :1], epochs=3, verbose=0, callbacks=[XLASteps()])
    >>> history.history["loss"][2] < history.history["loss"][0]
    True
    """

    def on_train_begin(self, logs: Logs = None) -> None:
        if self._applies() and not isinstance(self.model.train_function, _DirectStep):
            self.model.train_function = _DirectStep(self.model.train_step)

    def on_test_begin(self, logs: Logs = None) -> None:
        if self._applies() and not isinstance(self.model.test_function, _DirectStep):
            self.model.test_function = _DirectStep(self.model.test_step)

    def _applies(self):
        model = self.model
        if keras.backend.backend() != "tensorflow" or not model.jit_compile or model.run_eagerly:
            return False
        if model.steps_per_execution != 1:
            raise ValueError(
                "XLASteps expects a model that is compiled with `steps_per_execution=1`. "
                f"Received: steps_per_execution={model.steps_per_execution}"
            )
        return model.distribute_strategy.num_replicas_in_sync == 1


class _DirectStep:
    """Calls a step on the next batch of an iterator; a later `fit` finds it compiled."""

    def __init__(self, step):
        import tensorflow as tf

        self._function = tf.function(step, jit_compile=True, autograph=False)
        self._optional = tf.experimental.Optional

    def __call__(self, iterator):
        # `fit` writes such an object where a Python generator yields None.
        return self._function(
            keras.tree.map_structure(
                lambda leaf: None if isinstance(leaf, self._optional) else leaf, next(iterator)
            )
        )

"""The training that the tests of `BackupAndRestore` interrupt.

It has all that must survive: dropout of Keras and of this library, moving statistics, an average of
the weights, a learning-rate schedule, a bfloat16 policy, shuffling, metrics and validation.
"""

import keras
import numpy as np
from tf_or_skip import tf

from keras_attention import CounterDropout
from keras_attention.callbacks import BackupAndRestore
from keras_attention.data import ResumableArrays, ResumableDataset

EXAMPLES, DIM, CLASSES, BATCH_SIZE, EPOCHS = 31, 5, 3, 7, 3
BATCHES = -(-EXAMPLES // BATCH_SIZE)
_generator = np.random.default_rng(7)
X = _generator.normal(size=(EXAMPLES, DIM)).astype("float32")
Y = _generator.integers(0, CLASSES, EXAMPLES)


def make_data(kind, seed=3, batch_size=BATCH_SIZE, examples=EXAMPLES):
    """Returns `ResumableArrays` or a `ResumableDataset`."""
    x, y = X[:examples], Y[:examples]
    if kind == "arrays":
        return ResumableArrays(x, y, batch_size=batch_size, seed=seed)

    def make_epoch(epoch_seed):
        return tf.data.Dataset.from_tensor_slices((x, y)).shuffle(11, epoch_seed).batch(batch_size)

    return ResumableDataset(make_epoch, -(-examples // batch_size), seed=seed)


def make_model(units=11, optimizer="Adam", policy="mixed_bfloat16", learning_rate=0.02):
    """Returns the compiled model, with the same initial weights each time."""
    keras.utils.set_random_seed(5)
    inputs = keras.Input((DIM,))
    x = keras.layers.Dense(units, activation="tanh", dtype=policy)(inputs)
    x = keras.layers.Dropout(0.3, dtype=policy)(x)
    x = keras.layers.BatchNormalization(dtype=policy)(x)
    x = keras.layers.Dense(units, dtype=policy)(CounterDropout(0.2, dtype=policy)(x))
    model = keras.Model(inputs, keras.layers.Dense(CLASSES, dtype="float32")(x))
    schedule = keras.optimizers.schedules.ExponentialDecay(learning_rate, 3, 0.9)
    model.compile(
        getattr(keras.optimizers, optimizer)(schedule, use_ema=True, ema_momentum=0.9),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def read_variables(model):
    """Returns everything that a training changes, as NumPy arrays."""
    model.optimizer.build(model.trainable_variables)
    return [keras.ops.convert_to_numpy(v) for v in (*model.variables, *model.optimizer.variables)]


def train(
    directory,
    kind="arrays",
    callbacks=(),
    model=None,
    epochs=EPOCHS,
    data=None,
    named=(),
    **options,
):
    """Trains and returns the variables, as arrays, and the history, as a dict.

    `named` are those of the `callbacks` that the backup keeps.
    """
    model, data = model or make_model(), data or make_data(kind)
    backup = BackupAndRestore(directory, data, callbacks=named, **{"save_freq": 1, **options})
    history = model.fit(
        data.dataset,
        epochs=epochs,
        shuffle=False,
        verbose=0,
        validation_data=(X[:7], Y[:7]),
        callbacks=[*callbacks, backup],
    )
    return read_variables(model), {"epoch": history.epoch, **history.history}


class Stop(Exception):
    """Stands for the end of the process."""


class StopAt(keras.callbacks.Callback):
    """Calls `stop` before or after the update with number `step`, or at the end of an epoch."""

    def __init__(self, step, where="batch_begin", stop=None):
        super().__init__()
        self.step, self.where, self.stop, self.count = step, where, stop or self.raise_stop, 0

    def raise_stop(self):
        raise Stop

    def _count(self, where):
        if where == self.where:
            self.count += 1
            if self.count == self.step:
                self.stop()

    def on_train_batch_begin(self, batch, logs=None):
        self._count("batch_begin")

    def on_train_batch_end(self, batch, logs=None):
        self._count("batch_end")

    def on_test_begin(self, logs=None):
        self._count("validation")

    def on_epoch_end(self, epoch, logs=None):
        self._count("epoch_end")

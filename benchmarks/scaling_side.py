"""A worker of the scaling suite: its training steps and its sums.

`TF_CONFIG` says which worker it is; without it the process trains alone.
"""

import functools
import os

import tensorflow as tf

from benchmarks.training_systems import example_batch
from examples.memory import keep_freed_memory
from examples.training.distribution import ReplicatedModel, distribute
from examples.training.fitting import make_trainer
from examples.training.workers import Workers, make_strategy
from keras_attention import TokenCrossentropy


@functools.cache
def make_work(
    width: int, length: int, vocabulary: int, batch: int | None = None, size: int | None = None
):
    """Returns a function that makes a training step of `batch` sentences, or sums `size` bytes."""
    return _make_sum(size) if size is not None else _make_step(width, length, vocabulary, batch)


@functools.cache
def _find_workers():
    keep_freed_memory()
    is_alone = "TF_CONFIG" not in os.environ
    return Workers(make_strategy(None if is_alone else "multi-worker"))


@functools.cache
def _make_trainer(width, length, vocabulary):
    import keras

    from examples.models import transformer

    workers = _find_workers()
    keras.utils.set_random_seed(1)
    with workers.scope():
        sizes = {"layers": 2, "units": width, "heads": 4, "feed_forward_dim": 4 * width}
        model = transformer.build(vocabulary, vocabulary, **sizes, dropout=0.0)
        optimizer = keras.optimizers.Adam(0.001, global_clipnorm=1.0)
        loss = TokenCrossentropy(0, 0.1)
        return make_trainer(model, loss, None, optimizer, False, ReplicatedModel)


def _make_step(width, length, vocabulary, batch):
    workers, trainer = _find_workers(), _make_trainer(width, length, vocabulary)
    source, target, labels = map(
        tf.constant, example_batch(batch * workers.replicas, length, length, vocabulary)
    )
    data = {"source": source, "target": target}, labels
    if workers.strategy is None:
        function = tf.function(trainer.train_step)
    else:
        (data,) = distribute(workers.strategy, [data])
        function = tf.function(lambda batch: workers.strategy.run(trainer.train_step, (batch,)))

    def work():
        loss = function(data)["loss"]
        return float(loss if workers.strategy is None else _first(workers, loss))

    work.facts = {
        "gradient_bytes": 4 * sum(v.shape.num_elements() for v in trainer.trainable_weights)
    }
    return work


def _make_sum(size):
    workers = _find_workers()
    vector = tf.ones([size // 4])
    reduce = tf.distribute.ReduceOp.SUM

    def replica():
        return tf.distribute.get_replica_context().all_reduce(reduce, tf.identity(vector))

    function = tf.function(lambda: workers.strategy.run(replica))
    return lambda: float(_first(workers, function())[0])


def _first(workers, values):
    return workers.strategy.experimental_local_results(values)[0]

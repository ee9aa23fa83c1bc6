"""Training on several devices and in several processes: what Keras 3.15 does not do.

- The optimizer clips the gradient of each replica; `ReplicatedModel` clips that of the batch,
  which it sums once, where Keras would sum it a second time.
- Under `MultiWorkerMirroredStrategy` `fit` takes means of scalars along an axis that they do not
  have. So the loop over the batches is written here, with the same compiled model, the same steps
  and the same callbacks.
"""

import keras
import tensorflow as tf

from examples.training.batches import EpochBatches
from examples.training.workers import STEPS_BETWEEN_MESSAGES, Workers


class ReplicatedModel(keras.Model):
    """A model whose replicas clip the gradient of the whole batch, as one device does.

    The loss is the mean of the replicas' losses.

    Attributes:
        clip_norm: None, or the largest global norm of the gradient.
        clip_value: None, or the largest absolute value of its elements.
    """

    clip_norm: float | None = None
    clip_value: float | None = None

    def compile(self, optimizer, *arguments, **options):
        """Takes the clipping from the optimizer."""
        self.clip_norm, optimizer.global_clipnorm = optimizer.global_clipnorm, None
        self.clip_value, optimizer.clipvalue = optimizer.clipvalue, None
        # Keras would sum the gradients, which `train_step` has summed, once more: as many bytes.
        optimizer._all_reduce_sum_gradients = list
        super().compile(optimizer, *arguments, **options)

    def train_step(self, data):
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        replicas = self.distribute_strategy.num_replicas_in_sync
        with tf.GradientTape() as tape:
            outputs = self(x, training=True)
            loss = self.compute_loss(x, y, outputs, sample_weight)  # divided by the replicas
        gradients = tape.gradient(loss, [v.value for v in self.trainable_variables])
        pairs = zip(gradients, self.trainable_variables, strict=True)
        gradients, variables = zip(*(pair for pair in pairs if pair[0] is not None), strict=True)
        context = tf.distribute.get_replica_context()
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        if self.clip_value is not None:
            limit = self.clip_value
            gradients = [tf.clip_by_value(gradient, -limit, limit) for gradient in gradients]
        if self.clip_norm is not None:
            gradients, _ = tf.clip_by_global_norm(gradients, self.clip_norm)
        self.optimizer.apply(gradients, variables)
        (tracker,) = (metric for metric in self.metrics if metric.name == "loss")
        tracker.update_state(loss * replicas, sample_weight=tf.shape(tf.nest.flatten(x)[0])[0])
        return self.compute_metrics(x, y, outputs, sample_weight)


def fit_on_workers(
    model: keras.Model,
    data: EpochBatches,
    validation_data: tf.data.Dataset,
    workers: Workers,
    epochs: int,
    callbacks: list[keras.callbacks.Callback],
    verbose: int | str = 0,
) -> None:
    """Does what `model.fit` does, in each of several workers.

    Every worker makes the whole batches and takes its slices of them.

    Args:
        model: A model that was made and compiled under the strategy.
        data: The training data.
        validation_data: What is measured after each epoch.
        workers: The processes that train, under a `tf.distribute.MultiWorkerMirroredStrategy`.
        epochs: Epochs of the whole training.
        callbacks: The callbacks of `fit`.
        verbose: As that of `fit`.
    """
    strategy = workers.strategy
    callbacks = keras.callbacks.CallbackList(
        callbacks,
        add_history=True,
        add_progbar=verbose != 0,
        model=model,
        verbose=verbose,
        epochs=epochs,
        steps=data.batches_per_epoch,
    )

    def on_replicas(step):
        return tf.function(lambda batch: strategy.run(step, (batch,)), reduce_retracing=True)

    train_step, test_step = on_replicas(model.train_step), on_replicas(model.test_step)

    def run(step, dataset, called):
        logs, batches = {}, distribute(strategy, dataset)
        with workers.end_if_worker_is_lost():
            for number, batch in enumerate(batches):
                step(batch)
                if called is not None:
                    if number % STEPS_BETWEEN_MESSAGES == 0:  # the workers add up each metric
                        logs = _read(model)
                    called(number, logs)
                    if model.stop_training:
                        break
            return _read(model)

    model.stop_training = False
    with strategy.scope():
        callbacks.on_train_begin()
    for epoch in range(model._initial_epoch or 0, epochs):
        model.reset_metrics()
        callbacks.on_epoch_begin(epoch)
        logs = run(train_step, data.dataset, callbacks.on_train_batch_end)
        model.reset_metrics()
        callbacks.on_test_begin()
        measured = run(test_step, validation_data, None)
        callbacks.on_test_end(measured)
        logs |= {f"val_{name}": value for name, value in measured.items()}
        callbacks.on_epoch_end(epoch, logs)
        if model.stop_training:
            break
    callbacks.on_train_end()


def _read(model):
    return {name: float(value) for name, value in model.get_metrics_result().items()}


def distribute(strategy: tf.distribute.Strategy, dataset):
    """Yields per-replica batches from whole ones: of n replicas each takes every n-th row.

    A batch that cannot be divided evenly is filled up with rows of zeros, which is how all
    our data marks what does not count. They come last, so no replica has many more than others.

    Args:
        strategy: The strategy the model was made under.
        dataset: Iterable of batches, the same in every process.
    """
    replicas = strategy.num_replicas_in_sync
    for batch in dataset:
        whole = tf.nest.map_structure(lambda tensor: _pad_to_multiple(tensor, replicas), batch)
        yield strategy.experimental_distribute_values_from_function(
            lambda context, whole=whole: tf.nest.map_structure(
                lambda tensor: tensor[context.replica_id_in_sync_group :: replicas], whole
            )
        )


def spread_rows(dataset: tf.data.Dataset, replicas: int) -> tf.data.Dataset:
    """Returns batches of which a `MirroredStrategy` gives each replica every n-th row, as above.

    By itself it gives them consecutive rows, and the last ones of a batch may all be padding.
    """
    if replicas == 1:
        return dataset

    def spread(*batch):
        return tf.nest.map_structure(
            lambda tensor: tf.concat([tensor[one::replicas] for one in range(replicas)], 0), batch
        )

    return dataset.map(spread)


def _pad_to_multiple(tensor, multiple):
    missing = -tensor.shape[0] % multiple
    if not missing:
        return tensor
    return tf.pad(tensor, [[0, missing], *[[0, 0]] * (len(tensor.shape) - 1)])

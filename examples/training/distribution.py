"""Batches and seeds under a `tf.distribute` strategy.

Each batch is the whole step's batch; replica r of n takes its r-th slice. So the same
batches, in the same order, train one device and many to the same weights. Every process
makes the whole batches and takes its slices of them: nothing has to be told between them.
"""

import numpy as np
import tensorflow as tf


def distribute(strategy: tf.distribute.Strategy, dataset):
    """Yields per-replica batches from whole ones.

    A batch that cannot be divided evenly is filled up with rows of zeros, which is how all
    our data marks what does not count.

    Args:
        strategy: The strategy the model was made under.
        dataset: Iterable of `(inputs, labels)`, the same in every process.
    """
    replicas = strategy.num_replicas_in_sync
    for batch in dataset:
        whole = tf.nest.map_structure(lambda tensor: _filled(tensor, replicas), batch)
        yield strategy.experimental_distribute_values_from_function(
            lambda context, whole=whole: tf.nest.map_structure(
                lambda tensor: tf.split(tensor, replicas)[context.replica_id_in_sync_group], whole
            )
        )


def spread_seeds(strategy: tf.distribute.Strategy, variables: list) -> None:
    """Gives each replica its own random numbers, from the first one's seed states.

    Variables are mirrored, seed states too, so all replicas would drop the same units.
    Call it after building the model and after every restore; replica 0 is left as it is.
    """
    numbers = strategy.experimental_distribute_values_from_function(
        lambda context: tf.constant(context.replica_id_in_sync_group)
    )
    numbers = [int(number) for number in strategy.experimental_local_results(numbers)]
    for variable in variables:
        copies = strategy.experimental_local_results(variable.value)
        seed, count = np.asarray(copies[0])
        for number, copy in zip(numbers, copies, strict=True):
            copy.assign([seed + number, count])


def _filled(tensor, multiple):
    missing = -tensor.shape[0] % multiple
    if not missing:
        return tensor
    return tf.pad(tensor, [[0, missing], *[[0, 0]] * (len(tensor.shape) - 1)])

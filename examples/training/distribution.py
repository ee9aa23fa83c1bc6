"""Batches and seeds under a `tf.distribute` strategy.

Each batch is the whole step's batch; replica r of n takes its r-th slice. So the same
batches, in the same order, train one device and many to the same weights.
"""

import numpy as np
import tensorflow as tf


def distribute(strategy: tf.distribute.Strategy, dataset: tf.data.Dataset):
    """Returns an iterable of per-replica batches from a dataset of whole ones.

    Args:
        strategy: The strategy the model was made under.
        dataset: A `tf.data.Dataset` of `(inputs, labels)`, the same in every worker.

    Raises:
        ValueError: If a batch of known size cannot be divided evenly; while iterating, a
            `tf.errors.InvalidArgumentError` where the size is known only then.
    """
    replicas = strategy.num_replicas_in_sync
    hint = f"distribute expects batches whose size is a multiple of the {replicas} replicas."

    def split(*batch):
        def slices(tensor):
            rows = tensor.shape[0]
            if rows is None:
                rows = tf.shape(tensor)[0]
                with tf.control_dependencies([tf.debugging.assert_equal(rows % replicas, 0, hint)]):
                    rows = tf.identity(rows)
            elif rows % replicas:
                raise ValueError(f"{hint} Received: a batch of {rows}")
            shape = tf.concat([[replicas, rows // replicas], tf.shape(tensor)[1:]], 0)
            return tf.reshape(tensor, shape)

        return tf.data.Dataset.from_tensor_slices(tf.nest.map_structure(slices, batch))

    def pipeline(context):
        local = replicas // context.num_input_pipelines
        first = context.input_pipeline_id * local
        pieces = dataset.flat_map(split).enumerate()
        mine = pieces.filter(lambda i, _: (i % replicas >= first) & (i % replicas < first + local))
        return mine.map(lambda _, piece: piece).prefetch(2 * local)

    return strategy.distribute_datasets_from_function(pipeline)


def spread_seeds(strategy: tf.distribute.Strategy, variables: list) -> None:
    """Gives each replica its own random numbers, from the first one's seed states.

    Variables are mirrored, seed states too, so all replicas would drop the same units.
    Call it after building the model and after every restore; replica 0 is left as it is.
    """
    for variable in variables:
        copies = strategy.experimental_local_results(variable.value)
        for number, copy in enumerate(copies):
            seed, count = np.asarray(copies[0])
            copy.assign([seed + number, count])

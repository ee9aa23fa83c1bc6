"""One training step: forward, backward, clipping and update in a single compiled function.

    gradient = sum over replicas of d(loss sum) / sum over replicas of counts
    gradient = gradient * min(1, clip_norm / |gradient|)

On one device everything, the optimizer's update included, is one XLA program, so no
gradient leaves it. Under a `tf.distribute` strategy the compiled function returns loss
sum, count and gradient sums; all three are summed over the replicas before the
division, and the result is divided by the number of replicas because Keras' optimizer
sums once more. The optimizer's own clipping would act on a different number and is
refused. Batch normalization takes its statistics over all replicas; XLA cannot compile what
they tell each other in the middle of a model, so such a model's sums are a plain graph.

Every batch shape is compiled once. Under `mixed_float16` the loss is scaled: an update
whose gradient overflowed is left out and the scale halved.
"""

import keras
import tensorflow as tf

from examples.training import averaging
from examples.training.layers import batch_normalizations, every_layer
from examples.training.objectives import Objective, TokenObjective
from keras_attention import validation

FIRST_SCALE = 2.0**10
UPDATES_BEFORE_DOUBLING = 1000


class TrainingStep:
    """Trains a model on one batch a call.

    Args:
        model: A built Keras model. What its layers `add_loss` is added to the mean loss.
        optimizer: A Keras optimizer without clipping of its own.
        objective: What is minimized; a `TokenObjective` by default.
        clip_norm: None, or the largest global norm of the gradient.
        clip_value: None, or the largest absolute value of an element of the gradient.
        jit_compile: Bool, compile with XLA; False runs the same step as a plain graph.
        average: A `WeightAverage` that follows every update, or None.
        strategy: A `tf.distribute` strategy, or None for one device. Model, optimizer and
            step are then created under its scope, and batches are per-replica values
            (`distribution.distribute`). With several replicas the model's batch
            normalizations become `synchronized`.

    Call arguments:
        inputs: The model's inputs; for a translator the dict of `source` `(batch, source)` and
            `target` `(batch, target)` ids.
        labels: What the objective takes; for a translator ids `(batch, target)`, padded with 0.

    Returns:
        A dict of float32 scalars: `loss_sum` and `count` over all replicas,
        `gradient_norm` before clipping, `applied` (0 where float16 left an update out).

    Raises:
        ValueError: If an option is not as described, or the optimizer clips by itself.

    Example:

    >>> source, target = keras.Input([None], name="source"), keras.Input([None], name="target")
    >>> hidden = keras.layers.Embedding(7, 5)(target) + keras.layers.Embedding(7, 5)(source)
    >>> model = keras.Model({"source": source, "target": target}, keras.layers.Dense(7)(hidden))
    >>> step = TrainingStep(model, keras.optimizers.Adam(0.1), clip_norm=5.0)
    >>> ids = tf.constant([[2, 4, 5], [2, 6, 0]])
    >>> losses = [step({"source": ids, "target": ids}, ids)["loss_sum"] for _ in range(9)]
    >>> bool(losses[-1] < losses[0])
    True
    """

    def __init__(
        self,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        objective: Objective | None = None,
        clip_norm: float | None = None,
        clip_value: float | None = None,
        jit_compile: bool = True,
        average: averaging.WeightAverage | None = None,
        strategy: tf.distribute.Strategy | None = None,
    ):
        for name, limit in (("clip_norm", clip_norm), ("clip_value", clip_value)):
            if limit is not None:
                validation.check_number_in_range("TrainingStep", name, limit, 1e-12)
        _check_optimizer(optimizer)
        self.model, self.optimizer, self.strategy = model, optimizer, strategy
        self.objective = objective or TokenObjective()
        self.clip_norm, self.clip_value = clip_norm, clip_value
        self.jit_compile = bool(jit_compile)
        self.average = average or averaging.NoAverage()
        self.scaled = any(layer.compute_dtype == "float16" for layer in every_layer(model))
        if self.scaled and strategy is not None:
            raise ValueError(
                "TrainingStep trains in mixed_float16 on one device only. Use mixed_bfloat16 "
                f"with a strategy. Received: strategy={type(strategy).__name__}"
            )
        if not optimizer.built:
            optimizer.build(model.trainable_variables)
        if self.average.model is None:
            self.average.build(model)
        self._scale = keras.Variable(FIRST_SCALE, dtype="float32", trainable=False, name="scale")
        self._good = keras.Variable(0, dtype="int32", trainable=False, name="good_updates")
        self._functions = {}
        self._replica_sums = self._make_replica_sums()

    @property
    def variables(self) -> list:
        """What the step carries beside the model's and the optimizer's variables."""
        return [self._scale, self._good, *self.average.variables]

    @property
    def num_shapes(self) -> int:
        """How many batch shapes have been compiled so far."""
        return len(self._functions)

    def is_new(self, inputs, labels) -> bool:
        """Returns True if this batch's shape has not been compiled yet."""
        return _shapes(inputs, labels) not in self._functions

    def __call__(self, inputs, labels) -> dict:
        key = _shapes(inputs, labels)
        function = self._functions.get(key)
        if function is None:
            function = self._functions[key] = self._make_function(inputs, labels)
        return function(inputs, labels)

    def _make_function(self, inputs, labels):
        if self.strategy is not None:
            return tf.function(self._distributed_update, autograph=False)
        specs = tf.nest.map_structure(tf.TensorSpec.from_tensor, (inputs, labels))
        function = tf.function(self._update, jit_compile=self.jit_compile, autograph=False)
        return function.get_concrete_function(*specs)

    def _make_replica_sums(self):
        several = self.strategy is not None and self.strategy.num_replicas_in_sync > 1
        normalizations = batch_normalizations(self.model) if several else []
        for layer in normalizations:
            layer.synchronized = True
        if normalizations:
            return self._sums
        return tf.function(self._sums, jit_compile=self.jit_compile, autograph=False)

    def _sums(self, inputs, labels, weight=None):
        """Returns loss sum, count and gradients of the (scaled) loss sum.

        Extra losses are means: with the count as their weight they survive the division.
        """
        with tf.GradientTape() as tape:
            loss_sum, count = self.objective.sums(self.model(inputs, training=True), labels)
            extra = tf.add_n([0.0, *(tf.cast(loss, "float32") for loss in self.model.losses)])
            objective = loss_sum + (count if weight is None else weight) * extra
            if self.scaled:
                objective = objective * self._scale.value
        variables = [variable.value for variable in self.model.trainable_variables]
        gradients = [None if g is None else _dense(g) for g in tape.gradient(objective, variables)]
        if self.scaled:
            gradients = [None if g is None else g / self._scale.value for g in gradients]
        return loss_sum, count, gradients

    def _clipped(self, gradients, count):
        """Returns the mean gradients, clipped, and their norm, after `clip_value` alone."""
        count = tf.maximum(count, 1.0)
        gradients = [g / tf.cast(count, g.dtype) for g in gradients]
        if self.clip_value is not None:  # first: it makes infinite elements finite
            limit = self.clip_value
            gradients = [tf.clip_by_value(g, -limit, limit) for g in gradients]
        squares = [tf.reduce_sum(tf.square(tf.cast(g, "float32"))) for g in gradients]
        norm = tf.sqrt(tf.add_n(squares))
        if self.clip_norm is not None:
            factor = self.clip_norm / tf.maximum(norm, self.clip_norm)
            gradients = [g * tf.cast(factor, g.dtype) for g in gradients]
        return gradients, norm

    def _reached(self, gradients):
        """Returns the gradients that exist and their variables."""
        pairs = zip(gradients, self.model.trainable_variables, strict=True)
        return zip(*[pair for pair in pairs if pair[0] is not None], strict=True)

    def _update(self, inputs, labels):
        loss_sum, count, gradients = self._sums(inputs, labels)
        gradients, variables = self._reached(gradients)
        # Asked before anything is clipped: `clip_value` makes infinite elements finite.
        finite = _all_finite([loss_sum, *gradients]) if self.scaled else None
        gradients, norm = self._clipped(gradients, count)

        def apply():
            self.optimizer.apply(gradients, variables)
            self.average.update()
            return tf.constant(1.0)

        applied = self._apply_if_finite(apply, finite) if self.scaled else apply()
        return _results(loss_sum, count, norm, applied)

    def _apply_if_finite(self, apply, finite):
        applied = tf.cond(finite, apply, lambda: tf.constant(0.0))
        scale, good = self._scale.value, tf.where(finite, self._good.value + 1, 0)
        doubling = good >= UPDATES_BEFORE_DOUBLING
        grown = tf.where(doubling, scale * 2.0, scale)
        self._scale.assign(tf.where(finite, grown, scale * 0.5))
        self._good.assign(tf.where(doubling, 0, good))
        return applied

    def _weight_of_extra(self, labels, context):
        """Returns the count of all replicas by this one's share of the rows, None if not told."""
        counted = self.objective.counted(labels)
        if counted is None:
            return None
        rows = tf.reduce_sum(tf.cast(tf.reduce_any(counted, axis=1), "float32"))
        count = tf.reduce_sum(tf.cast(counted, "float32"))
        count, all_rows = context.all_reduce(tf.distribute.ReduceOp.SUM, [count, rows])
        return count * rows / tf.maximum(all_rows, 1.0)

    def _distributed_update(self, inputs, labels):
        def replica(inputs, labels):
            context = tf.distribute.get_replica_context()
            weight = self._weight_of_extra(labels, context)
            loss_sum, count, gradients = self._replica_sums(inputs, labels, weight)
            gradients, variables = self._reached(gradients)
            loss_sum, count, *gradients = context.all_reduce(
                tf.distribute.ReduceOp.SUM, [loss_sum, count, *gradients]
            )
            gradients, norm = self._clipped(gradients, count)
            replicas = context.num_replicas_in_sync
            self.optimizer.apply([g / replicas for g in gradients], variables)
            return _results(loss_sum, count, norm, tf.constant(1.0))

        results = self.strategy.run(replica, args=(inputs, labels))
        self.average.update()
        return {k: self.strategy.experimental_local_results(v)[0] for k, v in results.items()}


def _results(loss_sum, count, gradient_norm, applied):
    return {
        "loss_sum": loss_sum,
        "count": count,
        "gradient_norm": gradient_norm,
        "applied": applied,
    }


def _all_finite(tensors):
    return tf.reduce_all([tf.reduce_all(tf.math.is_finite(tensor)) for tensor in tensors])


def _dense(gradient):
    """An embedding's gradient lists a row once a use; the norm needs the rows summed."""
    return tf.convert_to_tensor(gradient)


def _shapes(inputs, labels):
    return tuple(
        tuple(part.shape)
        for tensor in tf.nest.flatten((inputs, labels))
        for part in (getattr(tensor, "values", None) or (tensor,))
    )


def _check_optimizer(optimizer):
    names = ("clipnorm", "global_clipnorm", "clipvalue")
    for name in names:
        if getattr(optimizer, name, None):
            raise ValueError(
                f"TrainingStep expects an optimizer without clipping of its own; pass `clip_norm` "
                f"to the step instead. Received: {name}={getattr(optimizer, name)!r}"
            )
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        raise ValueError(
            "TrainingStep scales float16 losses by itself; pass the inner optimizer. "
            "Received: optimizer=LossScaleOptimizer"
        )

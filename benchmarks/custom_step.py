"""A training step as it is written by hand for TensorFlow, to measure `fit` against."""

import keras
import tensorflow as tf


class CustomStep:
    """Forward, backward, clipping by global norm and update in one `tf.function`.

    Args:
        model: A model from a dict of inputs to logits, or to a dict with `logits`.
        optimizer: A Keras optimizer without clipping.
        clip_norm: Positive float, the largest global norm of the gradient.
        jit_compile: Whether to compile with XLA.
        ignore_class: The label that has no loss; 0 is padding.

    Call arguments:
        inputs: The dict of inputs.
        labels: Ids `(batch, target)`, or classes `(batch,)`.

    Returns:
        The mean loss of a label and the norm of the gradient before clipping.
    """

    def __init__(
        self,
        model: keras.Model,
        optimizer: keras.optimizers.Optimizer,
        clip_norm: float,
        jit_compile: bool = True,
        ignore_class: int = 0,
    ) -> None:
        self._model, self._optimizer, self._clip_norm = model, optimizer, clip_norm
        self._ignore_class = ignore_class
        optimizer.build(model.trainable_variables)
        self._step = tf.function(self._update, jit_compile=jit_compile, autograph=False)

    def __call__(self, inputs, labels):
        return self._step(inputs, labels)

    def _update(self, inputs, labels):
        with tf.GradientTape() as tape:
            outputs = self._model(inputs, training=True)
            logits = outputs["logits"] if isinstance(outputs, dict) else outputs
            logits = tf.cast(logits, "float32")
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            weights = tf.cast(labels != self._ignore_class, "float32")
            loss = tf.reduce_sum(weights * losses) / tf.reduce_sum(weights)
        variables = self._model.trainable_variables
        gradients = tape.gradient(loss, [variable.value for variable in variables])
        pairs = [pair for pair in zip(gradients, variables, strict=True) if pair[0] is not None]
        gradients, variables = zip(*pairs, strict=True)
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        norm = tf.linalg.global_norm([tf.cast(g, "float32") for g in gradients])
        factor = self._clip_norm / tf.maximum(norm, self._clip_norm)
        self._optimizer.apply([g * tf.cast(factor, g.dtype) for g in gradients], variables)
        return loss, norm

"""Hard attention, Xu et al. 2015 (https://arxiv.org/abs/1502.03044).

    s_t ~ alpha_t,   alpha_t = softmax(e_t)                         equation 8
    phi_t = a_{s_t}                                                 equation 9
    z_t   = sigmoid(w_b . h_{t-1} + b_b) phi_t
    log_alpha_t = log alpha_t[s_t]      entropy_t = -sum_i alpha_ti log alpha_ti

and, for a share of the examples, phi_t = sum_i alpha_ti a_i with log_alpha_t = 0: "set to
expected", section 4.1. The scores learn from `log_alpha` and `entropy`, which `ReinforceLoss`
turns into the estimator of equation 12. Code name -> paper name: `weights` -> s_t, `query` ->
h_{t-1}, `value` -> a_i, `context` -> z_t.
"""

import dataclasses

import keras
from keras import ops

from keras_attention import checks
from keras_attention.mechanisms.gated import GatedAttention
from keras_attention.noise import uniform
from keras_attention.normalizers import SampleNormalizer
from keras_attention.normalizers.softmax import masked_softmax
from keras_attention.precision import at_least_float32

INFERENCES = ("argmax", "sample", "expected")


@keras.saving.register_keras_serializable(package="keras_attention")
class HardAttention(GatedAttention):
    """Attention that reads one location, drawn with the probability the softmax gives it.

    Use it where an answer should come from one place, and train it with `ReinforceLoss`: no
    gradient reaches the scores through a drawn location. Outside of training it is
    deterministic unless `inference="sample"`.

    Args:
        units: Positive int, the size query and key are projected to.
        use_gate: Whether the context is multiplied by a number between 0 and 1 that the
            query decides.
        expected_rate: Float in [0, 1], the probability with which a whole example reads the
            weighted mean instead while training, as soft attention does, with its gradient.
        inference: What is read outside of training: "argmax", the likeliest location,
            "sample", a drawn one, or "expected", the weighted mean.
        kernel_initializer: Initializer of both projections and of the gate.
        vector_initializer: Initializer of the vector w.
        seed: Optional int, the seed of the draws and of the choice of examples.

    Call arguments: those of every mechanism, see `AttentionMechanism`: `query`, `value`,
        `key=None`, the masks, `return_attention_scores`, `training`, `use_causal_mask`,
        `return_details`.

    Returns:
        The context `(batch, query, value_dim)`, followed by what was asked for: the weights
        `(batch, query, key)` that were used, one-hot where a location was chosen, and the
        details, a dict of float32 tensors `(batch, query)`: `log_alpha`, the log-probability
        of the chosen location (0 where the mean was read), and `entropy`.

    Raises:
        ValueError: If an argument is not as above, or the tensors do not fit together.

    Masking: a masked location is never chosen; a row without locations reads 0, with
        `log_alpha` and `entropy` 0.

    Example:

    >>> attention = HardAttention(units=8, seed=1)
    >>> states, picture = keras.ops.ones((2, 3, 6)), keras.ops.ones((2, 4, 5))
    >>> context, details = attention(states, picture, return_details=True)
    >>> tuple(context.shape), sorted(details)
    ((2, 3, 5), ['entropy', 'log_alpha'])
    >>> round(float(details["entropy"][0, 0]), 4)  # log 4: all locations look the same
    1.3863

    Reference: Xu et al. 2015, https://arxiv.org/abs/1502.03044, section 4.1.
    """

    details = ("log_alpha", "entropy")

    def __init__(
        self,
        units,
        use_gate=True,
        expected_rate=0.5,
        inference="argmax",
        kernel_initializer="glorot_uniform",
        vector_initializer="glorot_uniform",
        seed=None,
        **kwargs,
    ):
        checks.one_of("HardAttention", "inference", inference, INFERENCES)
        normalizer = SampleNormalizer(
            "sample" if inference == "sample" else "argmax",
            seed=None if seed is None else seed + 1,  # the coins have the seed itself
            dtype=kwargs.get("dtype"),
        )
        super().__init__(
            units,
            use_gate,
            kernel_initializer,
            vector_initializer,
            normalizer,
            seed=seed,
            **kwargs,
        )
        self.expected_rate = checks.number_in_range(
            "HardAttention", "expected_rate", expected_rate, 0, 1
        )
        self.inference = inference
        self.seed_generator = keras.random.SeedGenerator(seed)

    def noise(self, batch, num_queries, num_keys, training=None):
        drawn = super().noise(batch, num_queries, num_keys, training)
        if training and self.expected_rate > 0:
            coin = uniform((batch, 1, 1), self.seed_generator) < self.expected_rate
            coin = ops.cast(coin, "float32")
            drawn["expected"] = ops.broadcast_to(coin, (batch, num_queries, 1))
        return drawn

    def _read(self, query, prepared, reading):
        scores = self.scores(query, prepared, reading)
        sizes = ops.shape(scores)
        if reading.noise is None:
            drawn = self.noise(*sizes, reading.training)
            reading = dataclasses.replace(reading, noise=drawn)
        chosen = self._weigh(scores, reading)
        mask = self._mask(scores, reading)
        scores = at_least_float32(scores)
        log_alpha = SampleNormalizer.log_prob(scores, chosen, mask)
        weights, is_mean = chosen, self._is_mean(reading)
        if is_mean is not None:
            alpha = ops.cast(masked_softmax(scores, mask), self.compute_dtype)
            weights = ops.where(is_mean, alpha, chosen)
            log_alpha = ops.where(is_mean[:, :, 0], 0, log_alpha)
        details = {"log_alpha": log_alpha, "entropy": SampleNormalizer.entropy(scores, mask)}
        details = {name: ops.cast(tensor, "float32") for name, tensor in details.items()}
        context = ops.matmul(weights, prepared["value"])
        return self.gated(query, context), weights, details

    def _is_mean(self, reading):
        """Returns which examples read the mean, boolean `(batch, query, 1)`, or None for none."""
        if reading.training:
            coin = reading.noise.get("expected")
            return None if coin is None else coin > 0.5
        return ops.ones((1, 1, 1), dtype="bool") if self.inference == "expected" else None

    def get_config(self):
        return {
            **super().get_config(),
            **self.gated_config(),
            "expected_rate": self.expected_rate,
            "inference": self.inference,
        }

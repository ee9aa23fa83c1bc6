"""Hard attention, Xu et al. 2015 (https://arxiv.org/abs/1502.03044).

    s_t ~ alpha_t,   alpha_t = softmax(e_t)                         equation 8
    phi_t = a_{s_t}                                                 equation 9
    z_t   = sigmoid(w_b . h_{t-1} + b_b) phi_t
    log_alpha_t = log alpha_t[s_t]      entropy_t = -sum_i alpha_ti log alpha_ti

While training, a fraction of the examples uses phi_t = sum_i alpha_ti a_i with log_alpha_t = 0
("set to expected", section 4.1). The scores learn from `log_alpha` and `entropy`, from which
`ReinforceLoss` computes the estimator of equation 12. Code name -> paper name: `weights` -> s_t,
`query` -> h_{t-1}, `value` -> a_i, `context` -> z_t.
"""

import dataclasses
from typing import Unpack

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.counter_random import uniform
from keras_attention._utils.dtypes import at_least_float32
from keras_attention._utils.shapes import get_shape
from keras_attention._utils.tensor_types import Config, Initializer, LayerOptions, Size, TensorDict
from keras_attention.attention._show_attend_tell_attention import ShowAttendTellAttention
from keras_attention.normalizers import SampleNormalizer
from keras_attention.normalizers.softmax import masked_softmax

INFERENCE_MODES = ("argmax", "sample", "expected")


@keras.saving.register_keras_serializable(package="keras_attention")
class HardAttention(ShowAttendTellAttention):
    """Attention to a single location, sampled from the softmax of the scores.

    Use it if an answer should come from one place, and train it with `ReinforceLoss`: no
    gradient reaches the scores through a sampled location. Outside of training it is
    deterministic unless `inference_mode="sample"`.

    Args:
        units: Positive int, the width that query and key are projected to.
        use_gate: Whether to multiply the context by a number between 0 and 1 that is computed
            from the query.
        expected_rate: Float in [0, 1], the probability that an example uses the weighted mean
            instead of a sample during training, as soft attention does, with its gradient.
        inference_mode: The location outside of training: "argmax" for the most probable one,
            "sample" for a sampled one, or "expected" for the weighted mean.
        kernel_initializer: Initializer of both projections and of the gate.
        vector_initializer: Initializer of the vector w.
        seed: Optional int, the seed for sampling locations and choosing examples.

    Call arguments: those of every mechanism, see `AttentionMechanism`: `query`, `value`,
        `key=None`, the masks, `return_attention_scores`, `training`, `use_causal_mask`,
        `return_auxiliary_outputs`.

    Returns:
        The context `(batch, query, value_dim)`, followed by the requested outputs: the weights
        `(batch, query, key)`, one-hot if a location was selected, and the auxiliary outputs, a
        dict of float32 tensors `(batch, query)`: `log_alpha`, the log-probability of the
        selected location (0 if the mean was used), and `entropy`.

    Raises:
        ValueError: If an argument is not as above, or the tensors do not fit together.

    Masking: masked locations are never selected. Fully masked queries get a zero context, with
        `log_alpha` and `entropy` 0.

    Example:

    >>> attention = HardAttention(units=8, seed=1)
    >>> states, image = keras.ops.ones((2, 3, 6)), keras.ops.ones((2, 4, 5))
    >>> context, auxiliary_outputs = attention(states, image, return_auxiliary_outputs=True)
    >>> tuple(context.shape), sorted(auxiliary_outputs)
    ((2, 3, 5), ['entropy', 'log_alpha'])
    >>> round(float(auxiliary_outputs["entropy"][0, 0]), 4)  # log 4: all locations are equal
    1.3863

    Reference: Xu et al. 2015, https://arxiv.org/abs/1502.03044, section 4.1.
    """

    auxiliary_outputs: tuple[str, ...] = ("log_alpha", "entropy")

    def __init__(
        self,
        units: int,
        use_gate: bool = True,
        expected_rate: float = 0.5,
        inference_mode: str = "argmax",
        kernel_initializer: Initializer = "glorot_uniform",
        vector_initializer: Initializer = "glorot_uniform",
        seed: int | None = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        owner = "HardAttention"
        validation.refuse_arguments(owner, kwargs, "normalizer", "dropout")
        validation.check_one_of(owner, "inference_mode", inference_mode, INFERENCE_MODES)
        normalizer = SampleNormalizer(
            "sample" if inference_mode == "sample" else "argmax",
            seed=None if seed is None else seed + 1,  # `seed` itself chooses the examples
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
        self.expected_rate: float = validation.check_number_in_range(
            owner, "expected_rate", expected_rate, 0, 1
        )
        self.inference_mode = inference_mode
        self.seed_generator: keras.random.SeedGenerator = keras.random.SeedGenerator(seed)

    def noise(
        self, batch: Size, num_queries: Size, num_keys: Size, training: bool | None = None
    ) -> TensorDict:
        drawn = super().noise(batch, num_queries, num_keys, training)
        if training and self.expected_rate > 0:
            coin = uniform((batch, 1, 1), self.seed_generator) < self.expected_rate
            coin = ops.cast(coin, "float32")
            drawn["expected"] = ops.broadcast_to(coin, (batch, num_queries, 1))
        return drawn

    def _read_scores(self, scores, query, value, request):
        sizes = get_shape(scores)
        if request.noise is None:
            drawn = self.noise(*sizes, request.training)
            request = dataclasses.replace(request, noise=drawn)
        chosen = self.compute_weights(scores, request)
        mask = self._score_mask(scores, request)
        scores = at_least_float32(scores)
        log_alpha = SampleNormalizer.log_prob(scores, chosen, mask)
        weights, is_mean = chosen, self._reads_expectation(request)
        if is_mean is not None:
            alpha = ops.cast(masked_softmax(scores, mask), self.compute_dtype)
            weights = ops.where(is_mean, alpha, chosen)
            log_alpha = ops.where(is_mean[:, :, 0], 0, log_alpha)
        auxiliary_outputs = {
            "log_alpha": log_alpha,
            "entropy": SampleNormalizer.entropy(scores, mask),
        }
        auxiliary_outputs = {
            name: ops.cast(tensor, "float32") for name, tensor in auxiliary_outputs.items()
        }
        context = ops.matmul(weights, value)
        return self.apply_gate(query, context), weights, auxiliary_outputs

    def _reads_expectation(self, request):
        """Returns which examples use the mean, boolean `(batch, query, 1)`, or None for none."""
        if request.training:
            coin = request.noise.get("expected")
            return None if coin is None else coin > 0.5
        return ops.ones((1, 1, 1), dtype="bool") if self.inference_mode == "expected" else None

    def get_config(self) -> Config:
        return {
            **super().get_config(),
            **self.get_gate_config(),
            "expected_rate": self.expected_rate,
            "inference_mode": self.inference_mode,
        }

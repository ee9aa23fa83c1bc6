"""Scheduled sampling, Bengio et al. 2015 (https://arxiv.org/abs/1506.03099).

    input_t = y_{t-1}    with probability eps_i, else      section 2.4
              y^_{t-1},  sampled from p(y | input_1 .. input_{t-1}), or its argmax

No gradient passes through the random choice or the sampled token. So a loop of `step`s without
gradient first computes the inputs, and then the decoder is called with them as with any targets.
Its full call, with its own fast gradient and its dropout, equals the loop's steps.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Unpack

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.base_layer import Layer, bind_call
from keras_attention._utils.counter_random import uniform
from keras_attention._utils.loop import run_loop
from keras_attention._utils.shapes import get_shape, reduce_rows
from keras_attention._utils.tensor_types import (
    Config,
    LayerOptions,
    LayerOrConfig,
    Mask,
    Outputs,
    OutputShape,
    Shape,
    Spec,
    Structure,
    Tensor,
    TensorDict,
    TensorLike,
)
from keras_attention.decoders.protocol import (
    get_decoder_start_id,
    get_reorder_cache,
    start_decoder,
)

CHOICES = ("sample", "argmax")


def sample_ids(logits: TensorLike, draws: TensorLike) -> Tensor:
    """Returns ids distributed as the softmax of the logits, int32 `(rows,)`.

    The id is the first whose cumulative probability reaches the random number.

    Args:
        logits: Float32 tensor `(rows, vocabulary)`.
        draws: Float tensor `(rows,)`, uniform in (0, 1), excluding both ends.

    Example:

    >>> logits = keras.ops.log(keras.ops.array([[0.2, 0.5, 0.3], [0.2, 0.5, 0.3]]))
    >>> [int(token) for token in sample_ids(logits, keras.ops.array([0.1, 0.71]))]
    [0, 2]
    """
    probabilities = ops.exp(logits - reduce_rows(ops.max, logits, axis=-1, keepdims=True))
    reached = ops.cumsum(probabilities, axis=-1)
    passed = reached < reached[:, -1:] * draws[:, None]
    # JAX with 64-bit numbers sums int32 to int64.
    return ops.cast(ops.sum(ops.cast(passed, "int32"), axis=-1), "int32")


@keras.saving.register_keras_serializable(package="keras_attention")
class ScheduledSampling(Layer):
    """Trains a decoder on its own predictions in place of some true tokens.

    Use it if a decoder trained on true prefixes accumulates errors in free-running decoding. In
    training, each position independently gets the true previous token with a probability that a
    schedule lowers, and otherwise the decoder's own previous prediction. The first position
    always gets its true id. Outside training it behaves exactly like the
    decoder.

    The predictions are those of the decoder's `step`, as in decoding: without dropout, and with
    hard attention in its inference mode. The gradient comes from one ordinary full call.
    Computing the inputs costs one more forward pass.

    Args:
        decoder: A layer with `prepare`, `start`, `step` and a full call, for example
            `BahdanauDecoder(...)`.
        schedule: A decay such as `InverseSigmoidDecay(20)`: a function of the number of
            minibatches so far that returns the probability of the true token. A float in [0, 1]
            is a constant.
        choice: "sample" samples the prediction from the decoder's distribution, "argmax" takes
            the most probable token.
        seed: Optional int, the seed of the random choices and samples.

    Call arguments: those of the decoder.
        target_ids: Int tensor `(batch, target)`: `[BOS, y_1 .. y_{T-1}]`.
        encoder_outputs: Float tensor `(batch, source, memory_dim)`.
        initial_state: The initial state, if the decoder is recurrent.
        memory_mask: Boolean `(batch, source)`, True at positions that may be attended to.
        encoder_outputs_mask: Used if `memory_mask` is None: Keras passes the mask attached to
            `encoder_outputs` here.
        training: Whether dropout is applied, and tokens are replaced.
        return_attention_scores: Whether to return the alignment as well.
        return_auxiliary_outputs: Whether to return the auxiliary outputs as well, a dict.

    Returns:
        The outputs of the decoder: logits `(batch, target, vocabulary)`, followed by the
        requested outputs.

    Methods for decoding: `prepare`, `start` and `step` are the decoder's, so that a model
        whose child named `decoder` is this layer decodes and exports like the decoder.

    Raises:
        ValueError: If `decoder` lacks a method, or an argument is invalid.

    Example:

    >>> from keras_attention import InverseSigmoidDecay, LuongDecoder
    >>> decoder = LuongDecoder(vocabulary_size=11, embedding_dim=3, units=4)
    >>> layer = ScheduledSampling(decoder, InverseSigmoidDecay(20), seed=1)
    >>> ids, states = keras.ops.array([[2, 5, 7]]), keras.ops.ones((1, 6, 4))
    >>> tuple(layer(ids, states, training=True).shape), int(layer.minibatches)
    ((1, 3, 11), 1)

    Reference: Bengio et al. 2015, https://arxiv.org/abs/1506.03099, section 2.4.
    """

    is_recomputable = False

    def __init__(
        self,
        decoder: LayerOrConfig,
        schedule: Callable[[Tensor], TensorLike] | Config,
        choice: str = "sample",
        seed: int | None = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        super().__init__(**kwargs)
        owner = "ScheduledSampling"
        self.supports_masking = True
        self.autocast = False  # the decoder casts its arguments, as without this layer
        self.decoder: keras.layers.Layer = _deserialize(decoder)
        missing = [m for m in ("prepare", "start", "step") if not hasattr(self.decoder, m)]
        if missing or not isinstance(self.decoder, keras.layers.Layer):
            raise ValueError(
                f"{owner} expects `decoder` to be a layer with `prepare`, `start` and `step`, for "
                "example `BahdanauDecoder(...)`. "
                f"Received: decoder={decoder!r} without {', '.join(missing) or 'being a layer'}"
            )
        arguments = inspect.signature(self.decoder.call).parameters
        self._takes_training, self._takes_mask = (
            n in arguments for n in ("training", "memory_mask")
        )
        self.schedule: Callable[[Tensor], Tensor] = _deserialize(schedule)
        if not callable(self.schedule):
            hint = "Or pass a schedule, such as `InverseSigmoidDecay(20)`."
            validation.check_number_in_range(owner, "schedule", self.schedule, 0, 1, hint=hint)
        self.choice: str = validation.check_one_of(owner, "choice", choice, CHOICES)
        self.seed = seed
        self.seed_generator: keras.random.SeedGenerator = keras.random.SeedGenerator(seed)

    def _check_arguments(self, args, kwargs):
        # `compute_output_spec` of a decoder from outside this library may need its weights.
        if isinstance(self.decoder, Layer):
            super()._check_arguments(args, kwargs)

    def build(
        self,
        target_ids_shape: Shape,
        encoder_outputs_shape: Shape,
        initial_state_shape: Shape | Sequence[Shape] | None = None,
    ) -> None:
        if not self.decoder.built:
            self.decoder.build(target_ids_shape, encoder_outputs_shape)
        self.minibatches: keras.Variable = self.add_weight(
            (), "zeros", dtype="int32", trainable=False, autocast=False, name="minibatches"
        )
        self.built = True

    def prepare(
        self, encoder_outputs: TensorLike, memory_mask: TensorLike | None = None
    ) -> TensorDict:
        """Returns the result of the decoder's `prepare`."""
        return self.decoder.prepare(encoder_outputs, memory_mask=memory_mask)

    def start(
        self, memory: TensorDict, initial_state: Structure = None, max_length: int | None = None
    ) -> TensorDict:
        """Returns the result of the decoder's `start`."""
        return start_decoder(self.decoder, memory, initial_state, max_length)

    @property
    def decoder_start_id(self) -> int:
        """The id of the decoder's first input."""
        return get_decoder_start_id(self.decoder)

    def get_capacity(self, state: Structure) -> int | None:
        """Returns the result of the decoder's `get_capacity`, None if it has none."""
        get_capacity = getattr(self.decoder, "get_capacity", None)
        return None if get_capacity is None else get_capacity(state)

    def step(
        self, ids: TensorLike, state: Structure, memory: Structure
    ) -> tuple[Tensor, TensorDict, Tensor]:
        """Returns the result of the decoder's `step`."""
        return self.decoder.step(ids, state, memory)

    def reorder_cache(self, state: Structure, parents: TensorLike) -> Structure:
        """Returns the result of the decoder's `reorder_cache`."""
        return get_reorder_cache(self.decoder)(state, parents)

    def call(
        self,
        target_ids: Tensor,
        encoder_outputs: Tensor,
        initial_state: Structure = None,
        memory_mask: Tensor | None = None,
        encoder_outputs_mask: Tensor | None = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
        return_auxiliary_outputs: bool = False,
    ) -> Outputs:
        mask = encoder_outputs_mask if memory_mask is None else memory_mask
        if training:
            teacher_forcing_rate = self._teacher_forcing_rate()
            self.minibatches.assign(self.minibatches + 1)
            memory = self.prepare(encoder_outputs, mask)
            state = self.start(memory, initial_state, get_shape(target_ids)[1])
            target_ids = self._mix_ids(target_ids, teacher_forcing_rate, state, memory)
        options = _collect_arguments(
            initial_state,
            self._choose_mask(memory_mask, encoder_outputs_mask),
            return_attention_scores,
            return_auxiliary_outputs,
        )
        # Passed explicitly, because Keras does not propagate `training` after the decoder's calls
        # in `_mix_ids`.
        if self._takes_training:
            options["training"] = training
        return self.decoder(target_ids, encoder_outputs, **options)

    def _choose_mask(self, memory_mask, encoder_outputs_mask):
        """Returns the mask to pass on: not every decoder takes one beside that of the tensor."""
        use_other = memory_mask is None and self._takes_mask
        return encoder_outputs_mask if use_other else memory_mask

    def _teacher_forcing_rate(self):
        """Returns the current probability with which a position gets its true token."""
        if callable(self.schedule):
            return ops.cast(self.schedule(ops.convert_to_tensor(self.minibatches)), "float32")
        return self.schedule

    def _mix_ids(self, target_ids, teacher_forcing_rate, state, memory):
        """Returns `target_ids` with predictions in place of randomly chosen tokens."""
        batch, length = get_shape(target_ids)[:2]
        coins = uniform((batch, length), self.seed_generator) < teacher_forcing_rate
        draws = uniform((batch, length), self.seed_generator)
        dtype = keras.backend.standardize_dtype(target_ids.dtype)
        # Ids are exact in float32 up to 16 million.
        sequence = [ops.cast(tensor, "float32") for tensor in (target_ids, coins, draws)]
        first = ops.cast(target_ids[:, 0], "int32")

        def step(inputs, states):
            state, predicted = states
            ids, true, draws = (inputs[:, index] for index in range(3))
            ids = ops.where(true > 0.5, ops.cast(ids, "int32"), predicted)
            logits, state, _ = self.step(ids, state, memory)
            return ops.expand_dims(ids, 1), [state, self._predict_ids(logits, draws)]

        # Before the first position the "prediction" is its true id, so it is never replaced.
        ids, _ = run_loop(step, ops.stack(sequence, axis=-1), [state, first])
        return ops.cast(ops.stop_gradient(ids[:, :, 0]), dtype)

    def _predict_ids(self, logits, draws):
        if self.choice == "sample":
            return sample_ids(logits, draws)
        return ops.cast(ops.argmax(logits, axis=-1), "int32")

    def compute_mask(self, target_ids: Tensor, previous_mask: Mask = None) -> Mask:
        return None

    def compute_output_shape(
        self, target_ids_shape: Shape, encoder_outputs_shape: Shape, **kwargs: Shape
    ) -> OutputShape:
        return self.decoder.compute_output_shape(target_ids_shape, encoder_outputs_shape)

    def compute_output_spec(self, *args: Structure, **kwargs: Structure) -> Spec:
        call = bind_call(self, args, kwargs)
        options = _collect_arguments(
            call.initial_state,
            self._choose_mask(call.memory_mask, call.encoder_outputs_mask),
            call.return_attention_scores,
            call.return_auxiliary_outputs,
        )
        return self.decoder.compute_output_spec(call.target_ids, call.encoder_outputs, **options)

    def get_config(self) -> Config:
        schedule = self.schedule
        if callable(schedule):
            schedule = keras.saving.serialize_keras_object(schedule)
        return {
            **super().get_config(),
            "decoder": keras.saving.serialize_keras_object(self.decoder),
            "schedule": schedule,
            "choice": self.choice,
            "seed": self.seed,
        }


def _deserialize(value):
    return keras.saving.deserialize_keras_object(value) if isinstance(value, dict) else value


def _collect_arguments(
    initial_state, memory_mask, return_attention_scores, return_auxiliary_outputs
):
    """Returns only the arguments that the caller set: not every decoder takes all of them."""
    tensors = {"initial_state": initial_state, "memory_mask": memory_mask}
    given = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    if return_attention_scores:
        given["return_attention_scores"] = True
    if return_auxiliary_outputs:
        given["return_auxiliary_outputs"] = True
    return given

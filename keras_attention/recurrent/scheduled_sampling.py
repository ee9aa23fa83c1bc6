"""Scheduled sampling, Bengio et al. 2015 (https://arxiv.org/abs/1506.03099).

    input_t = y_{t-1}    with probability eps_i, else      section 2.4
              y^_{t-1},  drawn from p(y | input_1 .. input_{t-1}), or its argmax

No gradient passes through the coin or the drawn token. So the inputs are found first, in a loop
of `step`s without gradient, and the decoder is then called with them as with any targets: its
full call, with its own fast gradient and its dropout, equals the loop's steps.
"""

import inspect

import keras
from keras import ops

from keras_attention import checks
from keras_attention.layer import Layer
from keras_attention.loop import run_loop
from keras_attention.noise import uniform
from keras_attention.protocol import first_id, reordering, started
from keras_attention.shapes import reduce_rows

CHOICES = ("sample", "argmax")


def drawn_ids(logits, draws):
    """Returns ids distributed as the softmax of the logits, int32 `(rows,)`.

    The id is the first whose cumulative probability reaches the draw.

    Args:
        logits: Float32 tensor `(rows, vocabulary)`.
        draws: Float tensor `(rows,)`, uniform between 0 and 1, neither of which occurs.

    Example:

    >>> logits = keras.ops.log(keras.ops.array([[0.2, 0.5, 0.3], [0.2, 0.5, 0.3]]))
    >>> [int(token) for token in drawn_ids(logits, keras.ops.array([0.1, 0.71]))]
    [0, 2]
    """
    shares = ops.exp(logits - reduce_rows(ops.max, logits, axis=-1, keepdims=True))
    reached = ops.cumsum(shares, axis=-1)
    passed = reached < reached[:, -1:] * draws[:, None]
    # JAX with 64-bit numbers sums int32 to int64.
    return ops.cast(ops.sum(ops.cast(passed, "int32"), axis=-1), "int32")


@keras.saving.register_keras_serializable(package="keras_attention")
class ScheduledSampling(Layer):
    """Trains a decoder on its own predictions in place of some true tokens.

    Use it where a decoder trained on true prefixes goes astray on its own. While training,
    every position by itself reads the true previous token with a probability that a schedule
    lowers, and the decoder's own previous prediction otherwise; the first position always
    reads its true id. Outside of training it is the decoder.

    The predictions are those of the decoder's `step`, as in decoding: without dropout, and
    with hard attention where it looks outside of training. The gradient comes from one
    ordinary full call. Finding the inputs costs one more forward pass.

    Args:
        decoder: A layer with `prepare`, `start`, `step` and a full call, for example
            `BahdanauDecoder(...)`.
        schedule: A decay such as `InverseSigmoidDecay(20)`: callable from the number of
            minibatches so far to the probability of the true token. A float in [0, 1] is a
            constant.
        choice: "sample" draws the prediction from the decoder's distribution, "argmax" takes
            the likeliest token.
        seed: Optional int, the seed of coins and draws.

    Call arguments: those of the decoder: `target_ids`, `encoder_outputs`,
        `initial_state=None`, `memory_mask=None`, `training`, `return_attention_scores`,
        `return_details`.

    Returns:
        What the decoder returns: logits `(batch, target, vocabulary)`, followed by what was
        asked for.

    Methods for decoding: `prepare`, `start` and `step` are the decoder's, so that a model
        whose child named `decoder` is this layer decodes and exports like the decoder.

    Raises:
        ValueError: If `decoder` lacks a method, or an argument is not as above.

    Example:

    >>> from keras_attention import InverseSigmoidDecay, LuongDecoder
    >>> decoder = LuongDecoder(vocabulary_size=11, embedding_dim=3, units=4)
    >>> layer = ScheduledSampling(decoder, InverseSigmoidDecay(20), seed=1)
    >>> ids, states = keras.ops.array([[2, 5, 7]]), keras.ops.ones((1, 6, 4))
    >>> tuple(layer(ids, states, training=True).shape), int(layer.minibatches)
    ((1, 3, 11), 1)

    Reference: Bengio et al. 2015, https://arxiv.org/abs/1506.03099, section 2.4.
    """

    def __init__(self, decoder, schedule, choice="sample", seed=None, **kwargs):
        super().__init__(**kwargs)
        owner = "ScheduledSampling"
        self.supports_masking = True
        self.autocast = False  # the decoder casts what it is given, as without this layer
        self.decoder = _object(decoder)
        missing = [m for m in ("prepare", "start", "step") if not hasattr(self.decoder, m)]
        if missing or not isinstance(self.decoder, keras.layers.Layer):
            raise ValueError(
                f"{owner} expects `decoder` to be a layer with `prepare`, `start` and `step`, for "
                "example `BahdanauDecoder(...)`. "
                f"Received: decoder={decoder!r} without {', '.join(missing) or 'being a layer'}"
            )
        self._takes_training = "training" in inspect.signature(self.decoder.call).parameters
        self.schedule = _object(schedule)
        if not callable(self.schedule):
            hint = "Or give a schedule, such as `InverseSigmoidDecay(20)`."
            checks.number_in_range(owner, "schedule", self.schedule, 0, 1, hint=hint)
        self.choice = checks.one_of(owner, "choice", choice, CHOICES)
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    def build(self, target_ids_shape, encoder_outputs_shape, initial_state_shape=None):
        if not self.decoder.built:
            self.decoder.build(target_ids_shape, encoder_outputs_shape)
        self.minibatches = self.add_weight(
            (), "zeros", dtype="int32", trainable=False, autocast=False, name="minibatches"
        )
        self.built = True

    def prepare(self, encoder_outputs, memory_mask=None):
        """Returns what the decoder's `prepare` does."""
        return self.decoder.prepare(encoder_outputs, memory_mask=memory_mask)

    def start(self, memory, initial_state=None, max_length=None):
        """Returns what the decoder's `start` does."""
        return started(self.decoder, memory, initial_state, max_length)

    @property
    def first_id(self):
        """The id that the decoder reads first."""
        return first_id(self.decoder)

    def step(self, ids, state, memory):
        """Returns what the decoder's `step` does."""
        return self.decoder.step(ids, state, memory)

    def reorder(self, state, parents):
        """Returns what the decoder's `reorder` does."""
        return reordering(self.decoder)(state, parents)

    def call(
        self,
        target_ids,
        encoder_outputs,
        initial_state=None,
        memory_mask=None,
        encoder_outputs_mask=None,
        training=None,
        return_attention_scores=False,
        return_details=False,
    ):
        mask = encoder_outputs_mask if memory_mask is None else memory_mask
        if training:
            share = self._true_share()
            self.minibatches.assign(self.minibatches + 1)
            memory = self.prepare(encoder_outputs, mask)
            state = self.start(memory, initial_state, ops.shape(target_ids)[1])
            target_ids = self._mixed_ids(target_ids, share, state, memory)
        # A mask attached to the memory is still attached: Keras hands it to the decoder.
        options = _given(initial_state, memory_mask, return_attention_scores, return_details)
        if self._takes_training:  # the calls in the loop made Keras forget it
            options["training"] = training
        return self.decoder(target_ids, encoder_outputs, **options)

    def _true_share(self):
        """Returns the probability with which a position reads its true token now."""
        if callable(self.schedule):
            return ops.cast(self.schedule(ops.convert_to_tensor(self.minibatches)), "float32")
        return self.schedule

    def _mixed_ids(self, target_ids, share, state, memory):
        """Returns `target_ids` with predictions in place of the tokens that a coin rejects."""
        batch, length = ops.shape(target_ids)[:2]
        coins = uniform((batch, length), self.seed_generator) < share
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
            return ops.expand_dims(ids, 1), [state, self._predicted(logits, draws)]

        # Before the first position the "prediction" is its true id: it is never replaced.
        ids, _ = run_loop(step, ops.stack(sequence, axis=-1), [state, first])
        return ops.cast(ops.stop_gradient(ids[:, :, 0]), dtype)

    def _predicted(self, logits, draws):
        if self.choice == "sample":
            return drawn_ids(logits, draws)
        return ops.cast(ops.argmax(logits, axis=-1), "int32")

    def compute_mask(self, target_ids, previous_mask=None):
        return None

    def compute_output_shape(self, target_ids_shape, encoder_outputs_shape, **kwargs):
        return self.decoder.compute_output_shape(target_ids_shape, encoder_outputs_shape)

    def compute_output_spec(
        self,
        target_ids,
        encoder_outputs,
        initial_state=None,
        memory_mask=None,
        encoder_outputs_mask=None,
        training=None,
        return_attention_scores=False,
        return_details=False,
    ):
        options = _given(initial_state, memory_mask, return_attention_scores, return_details)
        return self.decoder.compute_output_spec(target_ids, encoder_outputs, **options)

    def get_config(self):
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


def _object(value):
    return keras.saving.deserialize_keras_object(value) if isinstance(value, dict) else value


def _given(initial_state, memory_mask, return_attention_scores, return_details):
    """Returns the call arguments that were given; a decoder of one's own may lack the others."""
    tensors = {"initial_state": initial_state, "memory_mask": memory_mask}
    given = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    if return_attention_scores:
        given["return_attention_scores"] = True
    if return_details:
        given["return_details"] = True
    return given

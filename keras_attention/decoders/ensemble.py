"""Several translators as one encoder and one decoder, for every search, `Translator` and export.

    h_j = [h_j^(1); ...; h_j^(M)]                              the memories, side by side
    p(y_t | y_<t, x) = prod_m p_m(y_t | y_<t, x)^w_m / Z       "log_probs", as `ensemble_step`
                     = sum_m w_m p_m(y_t | y_<t, x)            "probabilities"

Sutskever et al. 2014 (https://arxiv.org/abs/1409.3215) decode with five models, section 3.4.
"""

import functools
import itertools
from collections.abc import Sequence
from typing import Unpack

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.base_layer import Layer
from keras_attention._utils.tensor_types import (
    Config,
    LayerOptions,
    LayerOrConfig,
    Mask,
    Shape,
    Spec,
    Structure,
    Tensor,
    TensorDict,
    TensorLike,
)
from keras_attention.decoders.base import Decoder
from keras_attention.decoders.scheduled_sampling import ScheduledSampling

# The searches are loaded when they are first used, so the methods here import what they share.


@keras.saving.register_keras_serializable(package="keras_attention")
class EnsembleEncoder(Layer):
    """Runs several encoders on the same source, for `EnsembleDecoder`.

    Args:
        encoders: List of layers or functional models from ids `(batch, source)` to a dict of
            `memory`, `(batch, source, dim)`, and, if their decoder starts from one,
            `initial_state`; or to the memory alone. They share the ids of the source.

    Call arguments:
        source_ids: Int tensor `(batch, source)`.

    Returns:
        A dict of `memory`, `(batch, source, sum of the widths)`, and, if an encoder has an
        `initial_state`, a dict `initial_state` of those of each such encoder by its number,
        "0", "1", ...

    Raises:
        ValueError: If an encoder returns something else, or the memories differ in length.

    Masking: the memory has the mask that its parts have; a part without one adds nothing to it.

    Example:

    >>> def make_encoder(units):
    ...     ids = keras.Input([None], dtype="int32")
    ...     embedded = keras.layers.Embedding(11, 3)(ids)
    ...     return keras.Model(ids, keras.layers.Conv1D(units, 3, padding="same")(embedded))
    >>> encoder = EnsembleEncoder([make_encoder(4), make_encoder(5)], name="encoder")
    >>> tuple(encoder(keras.ops.array([[5, 7, 3]]))["memory"].shape)
    (1, 3, 9)

    Reference: Sutskever et al. 2014, https://arxiv.org/abs/1409.3215, section 3.4.
    """

    encoders: list[keras.layers.Layer]

    def __init__(self, encoders: Sequence[LayerOrConfig], **kwargs: Unpack[LayerOptions]) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.encoders = _deserialize_layers("EnsembleEncoder", "encoders", encoders)
        self.side_by_side = _SideBySide(dtype=self.dtype_policy, name="side_by_side")

    def build(self, source_ids_shape: Shape) -> None:
        for encoder in self.encoders:
            if not encoder.built:
                encoder.build(source_ids_shape)
        self.side_by_side.built = True  # it has no weights
        self.built = True

    def call(self, source_ids: Tensor) -> dict[str, Structure]:
        outputs = [encoder(source_ids) for encoder in self.encoders]
        return self._join(outputs, self.side_by_side)

    def _join(self, outputs, concatenate):
        """Returns the outputs of all encoders as one."""
        outputs = [one if isinstance(one, dict) else {"memory": one} for one in outputs]
        for index, one in enumerate(outputs):
            if not hasattr(one.get("memory"), "shape"):
                raise ValueError(
                    "EnsembleEncoder expects encoders to return a dict with `memory`, a tensor "
                    "(batch, source, dim), and perhaps `initial_state`, or the memory alone. "
                    f"Received: encoders[{index}] that returns {one.get('memory', one)!r}"
                )
        memories = [one["memory"] for one in outputs]
        lengths = [memory.shape[1] for memory in memories]
        if len({*lengths} - {None}) > 1:
            raise ValueError(
                "EnsembleEncoder expects memories of one length, a position for each of the "
                f"source. Received: encoders whose memories have the lengths {lengths}"
            )
        memory = memories[0] if len(memories) == 1 else concatenate(memories)
        initial_states = {
            str(number): one["initial_state"]
            for number, one in enumerate(outputs)
            if one.get("initial_state") is not None
        }
        return {"memory": memory} | ({"initial_state": initial_states} if initial_states else {})

    def compute_output_spec(self, source_ids: TensorLike) -> dict[str, Spec]:
        outputs = [encoder.compute_output_spec(source_ids) for encoder in self.encoders]
        return self._join(outputs, self.side_by_side.compute_output_spec)

    def compute_mask(self, source_ids: Tensor, previous_mask: Mask = None) -> Mask:
        return None  # the memory has that of the encoders

    def get_config(self) -> Config:
        encoders = [keras.saving.serialize_keras_object(encoder) for encoder in self.encoders]
        return {**super().get_config(), "encoders": encoders}


@keras.saving.register_keras_serializable(package="keras_attention")
class EnsembleDecoder(Decoder):
    """Averages the predictions of several decoders, each with a memory of its own.

    Use it to search with several trained translators at once, or to export them as one: usually
    more accurate than the best of them, in the time of all. They may be of different papers and
    sizes, if they have the same tokens and read the same first id. The weights of those that
    attend are averaged too.

    Args:
        decoders: List of trained decoders, or of `ScheduledSampling` of them.
        weights: None for equal weights, or a number of at least 0 for each decoder.
        average: As `ensemble_step` takes it: `"log_probs"` or `"probabilities"`.
        memory_dims: The width of each decoder's memory, by default that which the decoder was
            built for.

    Call arguments: see `Decoder`. `encoder_outputs` are those of `EnsembleEncoder`, the memories
        side by side; `initial_state` is a dict of the initial state of each decoder that starts
        from one, by its number, "0", "1", ...

    Returns:
        Logits `(batch, target, vocabulary_size)` whose softmax is the average, and the alignment
        `(batch, target, source)` if requested. All float32.

    Raises:
        ValueError: If the decoders differ in their vocabulary or first id, copy words of the
            source, or are not built, or an argument is invalid.

    Example: two decoders as one, which searches, `Translator` and `check_decoder` take.

    >>> from keras_attention import BahdanauDecoder, TransformerDecoder
    >>> first = BahdanauDecoder(vocabulary_size=11, embedding_dim=3, units=4)
    >>> second = TransformerDecoder(vocabulary_size=11, dim=8, num_heads=2, num_layers=1)
    >>> decoder = EnsembleDecoder([first, second], weights=[2, 1], memory_dims=[6, 8])
    >>> ids, memory = keras.ops.array([[2, 5, 7]]), keras.ops.ones((1, 5, 6 + 8))
    >>> tuple(decoder(ids, memory).shape)
    (1, 3, 11)

    Reference: Sutskever et al. 2014, https://arxiv.org/abs/1409.3215, section 3.4.
    """

    decoders: list[Decoder]

    def __init__(
        self,
        decoders: Sequence[LayerOrConfig],
        weights: Sequence[float] | None = None,
        average: str = "log_probs",
        memory_dims: Sequence[int] | None = None,
        **kwargs: Unpack[LayerOptions],
    ) -> None:
        from keras_attention.search.ensemble import AVERAGES, normalize_weights

        owner = "EnsembleDecoder"
        validation.refuse_arguments(owner, kwargs, "vocabulary_size", "dropout", "seed")
        layers = _deserialize_layers(owner, "decoders", decoders)
        layers = [one.decoder if isinstance(one, ScheduledSampling) else one for one in layers]
        for index, one in enumerate(layers):
            if not isinstance(one, Decoder):
                raise ValueError(
                    f"{owner} expects `decoders` to be of type `Decoder`, and none that copies "
                    f"words of the source. Received: decoders[{index}]={type(one).__name__}"
                )
        _check_same(owner, layers, "vocabulary_size", "predict the same tokens")
        _check_same(owner, layers, "decoder_start_id", "read the same first id")
        super().__init__(layers[0].vocabulary_size, **kwargs)
        self.autocast = False  # each decoder casts its own arguments
        self.decoders = layers
        self.normalized_weights: list[float] = normalize_weights(owner, weights, len(layers))
        self.average: str = validation.check_one_of(owner, "average", average, AVERAGES)
        self.memory_dims: list[int] = _check_memory_dims(owner, layers, memory_dims)
        attending = [
            weight if one.has_attention else 0.0
            for one, weight in zip(layers, self.normalized_weights, strict=True)
        ]
        self.has_attention = sum(attending) > 0
        self._alignment_weights = (
            [weight / sum(attending) for weight in attending]
            if self.has_attention
            else self.normalized_weights
        )

    @property
    def decoder_start_id(self) -> int:
        """The id of the first input of all decoders."""
        return self.decoders[0].decoder_start_id

    def check_shapes(self, target_ids_shape: Shape, encoder_outputs_shape: Shape) -> None:
        super().check_shapes(target_ids_shape, encoder_outputs_shape)
        if encoder_outputs_shape[-1] != sum(self.memory_dims):
            raise ValueError(
                "EnsembleDecoder expects `encoder_outputs` to be the memories of all decoders side "
                f"by side, of the widths {self.memory_dims}. "
                f"Received: encoder_outputs.shape={tuple(encoder_outputs_shape)}"
            )

    def build_layers(self, target_ids_shape: Shape, encoder_outputs_shape: Shape) -> None:
        for decoder, width in zip(self.decoders, self.memory_dims, strict=True):
            if not decoder.built:
                decoder.build(target_ids_shape, (*encoder_outputs_shape[:-1], width))

    def check_initial_state(self, initial_state: Structure) -> None:
        known = {str(number) for number in range(len(self.decoders))}
        if initial_state is None:
            return
        if not isinstance(initial_state, dict) or not initial_state.keys() <= known:
            raise ValueError(
                "EnsembleDecoder expects `initial_state` to be a dict of the initial state of each "
                f"decoder by its number, with keys of {sorted(known)}. "
                f"Received: {initial_state!r}"
            )
        for key, state in initial_state.items():
            self.decoders[int(key)].check_initial_state(state)

    def prepare_memory(self, encoder_outputs: Tensor, memory_mask: Tensor | None) -> TensorDict:
        memories = self._split(encoder_outputs)
        return {
            str(number): decoder.prepare(memory, memory_mask)
            for number, (decoder, memory) in enumerate(zip(self.decoders, memories, strict=True))
        }

    def start_state(
        self, memory: TensorDict, initial_state: Structure, max_length: int | None
    ) -> TensorDict:
        first = initial_state or {}
        return {
            str(number): decoder.start(memory[str(number)], first.get(str(number)), max_length)
            for number, decoder in enumerate(self.decoders)
        }

    def get_capacity(self, state: Structure) -> int | None:
        """Returns the least number of steps that a decoder's state has room for."""
        capacities = [self.decoders[int(key)].get_capacity(one) for key, one in state.items()]
        return min((capacity for capacity in capacities if capacity is not None), default=None)

    def reorder_cache(self, state: Structure, parents: TensorLike) -> Structure:
        """Returns the states as each decoder's `reorder_cache` reorders them."""
        return {
            key: self.decoders[int(key)].reorder_cache(one, parents) for key, one in state.items()
        }

    def decode_step(
        self, ids: Tensor, state: TensorDict, memory: TensorDict
    ) -> tuple[TensorLike, TensorDict, TensorLike | None]:
        states, logits, weights = {}, [], []
        for number, decoder in enumerate(self.decoders):
            key = str(number)
            one, states[key], alignment = decoder.step(ids, state[key], memory[key])
            logits.append(one)
            weights.append(alignment)
        logits, weights = self._average(logits, weights)
        return logits, states, weights

    def decode_sequence(
        self,
        target_ids: Tensor,
        encoder_outputs: Tensor,
        initial_state: Structure,
        memory_mask: Tensor | None,
        training: bool | None,
        return_attention_scores: bool,
    ) -> tuple[TensorLike, TensorLike | None, TensorDict]:
        first, logits, weights = initial_state or {}, [], []
        for number, memory in enumerate(self._split(encoder_outputs)):
            outputs = self.decoders[number](
                target_ids,
                memory,
                initial_state=first.get(str(number)),
                memory_mask=memory_mask,
                training=training,
                return_attention_scores=return_attention_scores,
            )
            one, *alignment = outputs if return_attention_scores else [outputs]
            logits.append(one)
            weights += alignment
        return (*self._average(logits, weights), {})

    def _average(self, logits, weights):
        """Returns the logits and the alignment of all decoders together, None for no weights."""
        from keras_attention.search.ensemble import average_alignments, average_predictions

        logits = average_predictions(logits, self.normalized_weights, self.average)
        if not weights:
            return logits, None
        return logits, average_alignments(weights, self._alignment_weights)

    def _split(self, encoder_outputs):
        """Returns the memory of each decoder, in its dtype."""
        ends = itertools.accumulate(self.memory_dims)
        return [
            ops.cast(encoder_outputs[..., end - width : end], decoder.compute_dtype)
            for decoder, width, end in zip(self.decoders, self.memory_dims, ends, strict=True)
        ]

    def get_config(self) -> Config:
        config = super().get_config()
        for name in ("vocabulary_size", "dropout", "seed"):  # those of the decoders
            del config[name]
        return {
            **config,
            "decoders": [keras.saving.serialize_keras_object(one) for one in self.decoders],
            "weights": self.normalized_weights,
            "average": self.average,
            "memory_dims": self.memory_dims,
        }


class _SideBySide(keras.layers.Concatenate):
    """Concatenates memories; Keras' own has no mask where one of them has none."""

    def compute_mask(self, inputs: Sequence[Tensor], mask: Sequence[Mask] | None = None) -> Mask:
        found = [one for one in mask or () if one is not None]
        return functools.reduce(ops.logical_or, found) if found else None


def _deserialize_layers(owner, name, layers):
    """Returns the layers of a list of layers or their configurations, after checking them."""
    if not isinstance(layers, (list, tuple)) or not layers:
        raise ValueError(
            f"{owner} expects `{name}` to be a list of at least one layer. "
            f"Received: {name}={layers!r}"
        )
    found = [
        keras.saving.deserialize_keras_object(one) if isinstance(one, dict) else one
        for one in layers
    ]
    for index, one in enumerate(found):
        if not isinstance(one, keras.layers.Layer):
            raise ValueError(
                f"{owner} expects `{name}` to be layers. Received: {name}[{index}]={one!r}"
            )
    return found


def _check_same(owner, decoders, name, reason):
    found = [getattr(decoder, name) for decoder in decoders]
    if len({*found}) > 1:
        raise ValueError(
            f"{owner} expects decoders of one `{name}`: all {reason}. Received: {found}"
        )


def _check_memory_dims(owner, decoders, memory_dims):
    """Returns the widths of the memories, by default those that the decoders were built for."""
    if memory_dims is None:
        memory_dims = [decoder.memory_dim if decoder.built else None for decoder in decoders]
        if None in memory_dims:
            raise ValueError(
                f"{owner} expects trained decoders, or the width of each memory as `memory_dims`. "
                f"Received: decoders[{memory_dims.index(None)}], which is not built"
            )
    if not isinstance(memory_dims, (list, tuple)) or len(memory_dims) != len(decoders):
        raise ValueError(
            f"{owner} expects `memory_dims` to be a list of one int for each of the "
            f"{len(decoders)} decoders. Received: memory_dims={memory_dims!r}"
        )
    return [validation.check_positive_int(owner, "memory_dims", one) for one in memory_dims]

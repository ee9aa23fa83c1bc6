"""`RecurrentLanguageModel`: a recurrent Keras language model, one token at a time."""

import keras
import numpy as np
from keras import ops

from keras_attention import validation
from keras_attention._utils.tensor_types import Size, Structure, Tensor, TensorDict, TensorLike

CHECKED_IDS = (1, 3, 1, 2)  # of every vocabulary: the steps over them equal the full call
#: How much the logits of a step may differ from those of the full call, in parts of the largest.
TOLERANCES = {"float32": 1e-3, "float64": 1e-3}
HALF_TOLERANCE = 0.05


class RecurrentLanguageModel:
    """Runs a recurrent Keras language model token by token, for `ShallowFusion`.

    Use it for a model that is a chain of layers: an embedding, recurrent layers such as
    `keras.layers.LSTM`, `GRU` or `RNN` around any cell, or `LSTMN`, and layers that treat each
    position alone, such as `Dense`, `Dropout` and `LayerNormalization`. The model is not copied;
    the steps read its current weights.

    Args:
        model: Sequential or functional `keras.Model` from ids `(batch, time)`, the BOS token first,
            to the logits of the next token `(batch, time, vocabulary)`, or to a dict of
            `logits` and other outputs. The recurrent layers return sequences.
        start_id: Int, the id of the BOS token that the language model was trained on. It is read
            first, whatever start id the search feeds.
        max_length: None, or for layers such as `LSTMN`, which attend to all of their earlier
            states, an int: how many steps have room in the state, at least the `max_length` of
            the search, which reorders all of them in each step.

    Attributes:
        model, start_id, max_length: See above.
        vocabulary_size: Int, the number of logits.
        variables: The variables of the model.

    Raises:
        ValueError: If an argument is invalid, or `model` is not such a model. A few steps are run
            and compared with the model's full call, so create the object eagerly.

    Example:

    >>> import keras
    >>> from keras_attention.search import RecurrentLanguageModel
    >>> inputs = keras.Input([None], dtype="int32")
    >>> recurrence = keras.layers.RNN(keras.layers.LSTMCell(5), return_sequences=True)
    >>> layers = [keras.layers.Embedding(7, 4), recurrence, keras.layers.Dense(7)]
    >>> model = keras.Sequential([inputs, *layers])
    >>> language_model = RecurrentLanguageModel(model)
    >>> state = language_model.start(3)
    >>> logits, state, _ = language_model.step(keras.ops.array([2, 2, 2]), state)
    >>> tuple(logits.shape)
    (3, 7)
    """

    model: keras.Model
    vocabulary_size: int

    def __init__(
        self, model: keras.Model, start_id: int = 2, max_length: int | None = None
    ) -> None:
        self.model = model
        self.start_id: int = validation.check_int_at_least(
            "RecurrentLanguageModel", "start_id", start_id, 0
        )
        self.max_length = max_length
        if max_length is not None:
            validation.check_positive_int("RecurrentLanguageModel", "max_length", max_length)
        if not isinstance(model, keras.Model) or len(getattr(model, "inputs", None) or ()) != 1:
            raise ValueError(
                "RecurrentLanguageModel expects `model` to be a built Sequential or functional "
                f"keras.Model with one input. Received: {model!r}"
            )
        self._layers = [x for x in model.layers if not isinstance(x, keras.layers.InputLayer)]
        attending = [x.name for x in self._layers if _attends_to_past(x)]
        if attending and max_length is None:
            raise ValueError(
                "RecurrentLanguageModel expects `max_length` for layers that attend to their "
                "earlier states: the `max_length` of the search. "
                f"Received: max_length=None, layers {', '.join(attending)}"
            )
        self.vocabulary_size = self._check_steps()

    @property
    def variables(self) -> list[keras.Variable]:
        """The variables of the model, which an export stores."""
        return self.model.variables

    def start(self, batch: Size) -> TensorDict:
        """Returns the state before the BOS token.

        Args:
            batch: Int or scalar int tensor, the batch size.

        Returns:
            Dict of `is_start`, bool `(batch,)`, and `layers`, the states of the recurrent layers
            by layer name.
        """
        layers = {}
        for layer in self._layers:
            if isinstance(layer, keras.layers.RNN):
                layers[layer.name] = layer.get_initial_state(batch_size=batch)
            elif _attends_to_past(layer):
                layers[layer.name] = layer.get_initial_state(batch, self._num_slots)
        return {"is_start": ops.ones((batch,), dtype="bool"), "layers": layers}

    @property
    def _num_slots(self):
        return max(self.max_length, len(CHECKED_IDS) + 1)

    def get_capacity(self, state: TensorDict) -> int | None:
        """Returns the number of steps that a state has room for; None for any number."""
        return self._num_slots if any(map(_attends_to_past, self._layers)) else None

    def step(
        self, ids: TensorLike, state: TensorDict, memory: Structure = None
    ) -> tuple[Tensor, TensorDict, Tensor]:
        """Returns the logits of the next token, the next state, and zeros as alignment.

        Args:
            ids: Int tensor of shape `(rows,)`.
            state: What `start` or the last step returned.
            memory: Ignored.

        Returns:
            Logits `(rows, vocabulary)`, the state, and zeros `(rows, 1)`.
        """
        layers = dict(state["layers"])
        outputs = ops.expand_dims(ops.where(state["is_start"], self.start_id, ids), 1)
        for layer in self._layers:
            if isinstance(layer, keras.layers.RNN):
                before = layers[layer.name]
                outputs, states = layer.cell(outputs[:, 0], before, training=False)
                states = keras.tree.flatten(states)
                layers[layer.name] = keras.tree.pack_sequence_as(before, states)
                outputs = ops.expand_dims(outputs, 1)
            elif _attends_to_past(layer):
                outputs, *_, layers[layer.name] = layer.step(outputs[:, 0], layers[layer.name])
                outputs = ops.expand_dims(outputs, 1)
            else:
                outputs = layer(outputs, training=False)
        logits = outputs[:, 0]
        state = {"is_start": ops.zeros_like(state["is_start"]), "layers": layers}
        return logits, state, ops.zeros_like(logits[:, :1])

    def _check_steps(self):
        """Returns the number of logits; raises unless steps return those of the full call."""
        ids = np.array([(self.start_id, *CHECKED_IDS)], "int32")
        inputs = ops.convert_to_tensor(ids)
        if not isinstance(self.model, keras.Sequential):
            inputs = keras.tree.pack_sequence_as(self.model.input, [inputs])
        outputs = self.model(inputs, training=False)
        logits = outputs.get("logits") if isinstance(outputs, dict) else outputs
        if len(getattr(logits, "shape", ())) != 3:
            raise ValueError(
                "RecurrentLanguageModel expects a model that returns logits (batch, time, "
                f"vocabulary), or a dict of `logits` and others. Received: {logits!r}"
            )
        expected = ops.convert_to_numpy(ops.cast(logits, "float32"))
        if expected.min() >= 0 and np.allclose(expected.sum(-1), 1, atol=1e-2):
            raise ValueError(
                "RecurrentLanguageModel expects a model that returns logits, and would take "
                "probabilities for them. Leave the softmax out of the last layer, or end with "
                "keras.layers.Lambda(keras.ops.log). Received: outputs that sum to 1"
            )
        found, state = [], self.start(1)
        try:
            for token in ids[0]:
                logits, state, _ = self.step(ops.convert_to_tensor([token]), state)
                found.append(ops.convert_to_numpy(ops.cast(logits, "float32")))
            difference = np.abs(np.stack(found, axis=1) - expected).max()
        except (TypeError, ValueError) as error:
            raise ValueError(self._describe(f"the error {error}")) from error
        tolerance = TOLERANCES.get(self.model.compute_dtype, HALF_TOLERANCE)
        if not difference <= tolerance * np.abs(expected).max():
            raise ValueError(self._describe(f"logits that differ by {difference:.3g}"))
        return expected.shape[2]

    def _describe(self, received):
        names = ", ".join(type(layer).__name__ for layer in self._layers)
        return (
            "RecurrentLanguageModel expects a chain of layers, of which only recurrent ones, "
            "`keras.layers.RNN`, LSTM, GRU or LSTMN, read earlier positions, so that its steps "
            f"return the logits of the full call. Received: layers {names}, and steps with "
            f"{received}"
        )


def _attends_to_past(layer):
    """Returns whether a layer has steps with room for its earlier states, as `LSTMN` has."""
    names = ("step", "get_initial_state")
    is_rnn = isinstance(layer, keras.layers.RNN)
    return not is_rnn and all(callable(getattr(layer, name, None)) for name in names)

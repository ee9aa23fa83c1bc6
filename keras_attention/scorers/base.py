"""The interface of all scorers: one compatibility score for each query-key pair."""

from typing import Unpack

import keras
from keras import ops

from keras_attention import validation
from keras_attention._utils.base_layer import Layer, bind_call
from keras_attention._utils.subclass_hooks import check_hook_result, check_hooks, name_missing
from keras_attention._utils.tensor_types import (
    Config,
    LayerOptions,
    Mask,
    OutputShape,
    Shape,
    Size,
    Spec,
    Structure,
    Tensor,
    TensorLike,
)

#: The hooks of a scorer and the positional arguments that the library passes.
HOOKS: dict[str, tuple[str, ...]] = {
    "build": ("query_shape", "key_shape"),
    "check_shapes": ("query_shape", "key_shape"),
    "prepare": ("key",),
    "score": ("query", "prepared", "previous_weights"),
    "score_step": ("query", "prepared", "previous_weights"),
    "query_for_dot": ("query",),
    "valid_keys": ("num_keys",),
    "initial_weights": ("batch", "num_keys"),
}


class Scorer(Layer):
    """Compares queries with keys; the abstract first stage of attention.

    A scorer is stateless and ignores masks: its scores are neither masked nor normalized. A
    subclass defines `score`, `build` if it has weights, and `prepare` if part of its work
    depends on the key alone. `call` runs `prepare` and then `score`; a decoder can instead
    prepare a source once and score it at every step.

    Hooks, all called with positional arguments:

    * `score(query, prepared, previous_weights=None)`: Returns `(batch, query, key)` for a query
      `(batch, query, query_dim)` and the result of `prepare`. Required.
    * `prepare(key)`: Returns a tensor with leading dimension batch, or a nest of such tensors;
      by default the key in the compute dtype. Use `cast_weight` to access weights here and in
      `score`.
    * `build(query_shape, key_shape)`: Adds weights, after `check_shapes`.
    * `check_shapes(query_shape, key_shape)`: Raises if the two shapes do not fit.
    * `query_for_dot(query)`: Returns the tensor whose dot products with the prepared key are the
      scores, or None.
    * `valid_keys(num_keys)`: Returns boolean `(key,)`, the keys that can be scored, or None.
    * `initial_weights(batch, num_keys)`: Returns the previous weights of the first step,
      `(batch, key)`; zeros by default.

    The constructor raises if a hook cannot take these arguments.

    Call arguments:
        query: Float tensor of shape `(batch, query, query_dim)`, or `(batch, query_dim)`
            for one decoder step.
        key: Float tensor of shape `(batch, key, key_dim)`.
        previous_weights: Optional float tensor `(batch, query, key)`, the weights of
            the previous step, for scorers that use them.

    Returns:
        Scores of shape `(batch, query, key)`, or `(batch, key)` for a query of rank 2,
        in the compute dtype.

    Raises:
        TypeError: If a hook takes different arguments.
        ValueError: If the shapes do not fit, or `score` returns a different shape.

    Masking: ignores masks and propagates none; the normalizer applies the mask.

    Example:

    >>> from keras_attention import Attention, Scorer
    >>> class DistanceScorer(Scorer):
    ...     "Scores a key by its distance to the query, times a learned strength."
    ...     requires_equal_dims = True
    ...     def build(self, query_shape, key_shape):
    ...         self.check_shapes(query_shape, key_shape)
    ...         self.strength = self.add_weight((), "ones", name="strength")
    ...     def score(self, query, prepared, previous_weights=None):
    ...         differences = query[:, :, None, :] - prepared[:, None, :, :]
    ...         distances = keras.ops.sum(keras.ops.square(differences), axis=-1)
    ...         return -self.cast_weight(self.strength) * distances
    >>> attention = Attention(DistanceScorer())
    >>> query, value = keras.ops.array([[[1.0], [3.0]]]), keras.ops.array([[[1.0], [2.0]]])
    >>> context, weights = attention(query, value, return_attention_scores=True)
    >>> [round(float(weight), 3) for weight in weights[0, 1]]  # exp(-4) against exp(-1)
    [0.047, 0.953]
    """

    #: Whether query and key must have the same width, because no weights lie between them.
    requires_equal_dims = False
    #: The earlier weights that `score` uses: None, "previous" or "accumulated".
    reads_weights = None
    #: Whether a score depends on the position of its key. If not, `score` may be called with a
    #: subset of the keys, as `LocalAttention` does.
    reads_positions = False

    def __init__(self, **kwargs: Unpack[LayerOptions]) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True  # accept inputs with masks; no mask is propagated
        check_hooks(self, Scorer, HOOKS)
        if self.reads_weights not in (None, "previous", "accumulated"):
            raise ValueError(
                f"{type(self).__name__} sets `reads_weights`, which says what the "
                "`previous_weights` of `score` are: None, 'previous' or 'accumulated'. "
                f"Received: reads_weights={self.reads_weights!r}"
            )

    def build(self, query_shape: Shape, key_shape: Shape) -> None:
        self.check_shapes(query_shape, key_shape)
        self.built = True

    def check_shapes(self, query_shape: Shape, key_shape: Shape) -> None:
        """Raises `ValueError` unless the two shapes can be scored against each other."""
        owner = type(self).__name__
        query_shape, key_shape = tuple(query_shape), tuple(key_shape)
        axes = "(batch, query, query_dim) or (batch, query_dim)"
        validation.check_axes(owner, "query", query_shape, axes)
        validation.check_axes(owner, "key", key_shape, "(batch, key, key_dim)")
        if self.requires_equal_dims and query_shape[-1] != key_shape[-1]:
            raise ValueError(
                f"{owner} has no weights and expects `query` and `key` of equal width. Project one "
                "of them with `keras.layers.Dense`, or use `GeneralScorer` or `AdditiveScorer`. "
                f"Received: query.shape={query_shape}, key.shape={key_shape}"
            )
        validation.check_same_size(owner, 0, query=query_shape, key=key_shape)
        validation.check_built_dims(self, query=query_shape, key=key_shape)

    def prepare(self, key: Tensor) -> TensorLike:
        """Returns the part that depends on the key alone, with leading dimension batch."""
        self.check_ready(key)
        return ops.cast(key, self.compute_dtype)

    def score(
        self, query: Tensor, prepared: Tensor, previous_weights: Tensor | None = None
    ) -> TensorLike:
        """Returns the scores of `query` against the result of `prepare`."""
        name_missing(self, Scorer, "score", "returns scores (batch, query, key)")

    def score_step(
        self, query: Tensor, prepared: Tensor, previous_weights: Tensor | None = None
    ) -> TensorLike:
        """Returns the same scores as `score`, for the few queries of one decoder step.

        A scorer overrides it if the number of queries, unknown while tracing, would select the
        algorithm. A subclass that defines `score` alone uses it for steps, too.
        """
        return self.score(query, prepared, previous_weights)

    def __init_subclass__(cls, **kwargs: Structure) -> None:
        super().__init_subclass__(**kwargs)
        names = {"score", "score_step"}
        owner = next(one for one in cls.__mro__ if names & vars(one).keys())
        if "score_step" not in vars(owner):  # an inherited one would compute different scores
            cls.score_step = owner.score

    def check_scores(self, scores: Tensor, query: TensorLike, num_keys: int | None) -> None:
        """Raises `ValueError` unless `score` returned `(batch, query, key)`.

        Args:
            scores: The result of `score` or `score_step`.
            query: Float tensor `(batch, query, query_dim)`.
            num_keys: Int, or None if unknown.
        """
        shape = (*tuple(query.shape[:2]), num_keys)
        check_hook_result(self, "score", scores, shape, "(batch, query, key)")

    def query_for_dot(self, query: Tensor) -> TensorLike | None:
        """Returns the tensor whose dot products with the prepared key are the scores.

        None means that the scores are not dot products. Attention over long sequences uses this
        hook to compute the scores block by block.
        """
        return None

    def valid_keys(self, num_keys: Size) -> TensorLike | None:
        """Returns boolean `(key,)`, the keys that can be scored; None means all keys."""
        return None

    def initial_weights(self, batch: Size, num_keys: Size) -> TensorLike:
        """Returns the previous weights of the first step, `(batch, key)` in the compute dtype."""
        return ops.zeros((batch, num_keys), dtype=self.compute_dtype)

    def call(
        self, query: Tensor, key: Tensor, previous_weights: Tensor | None = None
    ) -> TensorLike:
        self.check_shapes(query.shape, key.shape)
        step = len(query.shape) == 2
        if step:
            query = ops.expand_dims(query, 1)
            if previous_weights is not None:
                previous_weights = ops.expand_dims(previous_weights, 1)
        scores = self.score(query, self.prepare(key), previous_weights)
        self.check_scores(scores, query, key.shape[1])
        return ops.squeeze(scores, 1) if step else scores

    def compute_output_shape(
        self, query_shape: Shape, key_shape: Shape, previous_weights_shape: Shape | None = None
    ) -> OutputShape:
        self.check_shapes(query_shape, key_shape)
        return (*tuple(query_shape)[:-1], tuple(key_shape)[1])

    def check_previous_weights(
        self, query_shape: Shape, key_shape: Shape, previous_weights: TensorLike | None
    ) -> None:
        """Raises `ValueError` unless a scorer that looks at earlier weights can use these."""

    def compute_output_spec(self, *args: Structure, **kwargs: Structure) -> Spec:
        call = bind_call(self, args, kwargs)
        shape = self.compute_output_shape(call.query.shape, call.key.shape)
        self.check_previous_weights(call.query.shape, call.key.shape, call.previous_weights)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def compute_mask(self, *args: Mask, **kwargs: Mask) -> Mask:
        return None

    def get_config(self) -> Config:
        return {**super().get_config()}

    def check_ready(self, tensor: TensorLike) -> None:
        """Raises unless the layer is built and `tensor` is not symbolic."""
        validation.check_ready(self, tensor)

    def cast_weight(self, variable: TensorLike | keras.Variable) -> Tensor:
        """Returns a weight in the compute dtype: `prepare` and `score` run outside `__call__`."""
        return ops.cast(variable, self.compute_dtype)

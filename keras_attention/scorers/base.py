"""What every scorer is: query and key in, one compatibility score a pair out."""

import keras
from keras import ops

from keras_attention import checks
from keras_attention.hooks import check_hooks, check_result, name_missing
from keras_attention.layer import Layer

#: The hooks of a scorer, with the arguments that they are called with, by position.
HOOKS = {
    "build": ("query_shape", "key_shape"),
    "check_shapes": ("query_shape", "key_shape"),
    "prepare": ("key",),
    "score": ("query", "prepared", "previous_weights"),
    "dot_query": ("query",),
    "reach": ("num_keys",),
}


class Scorer(Layer):
    """Compares queries with keys; the abstract first stage of attention.

    A scorer keeps no state and reads no mask: what it returns is neither masked
    nor normalized. A subclass defines `score`, `build` where it has weights and, when part of
    its work depends on the key alone, `prepare`; `call` is the two in a row, so that a
    decoder can prepare a source once and score it at every step.

    Hooks, all of them called by position:
        score(query, prepared, previous_weights=None): Returns `(batch, query, key)` for a query
            `(batch, query, query_dim)` and what `prepare` returned. Has to be defined.
        prepare(key): Returns a tensor with leading dimension batch, or a structure of such;
            the key in the compute dtype by default. Weights are read with `cast_weight`, here
            and in `score`.
        build(query_shape, key_shape): Adds weights, after `check_shapes`.
        check_shapes(query_shape, key_shape): Raises where two shapes do not fit.
        dot_query(query): Returns the tensor whose dot products with what `prepare` returned are
            the scores, or None.
        reach(num_keys): Returns boolean `(key,)`, which keys can be scored at all, or None.

    Wherever a hook cannot take these arguments the constructor says so.

    Call arguments:
        query: Float tensor of shape `(batch, query, query_dim)`, or `(batch, query_dim)`
            for one decoder step.
        key: Float tensor of shape `(batch, key, key_dim)`.
        previous_weights: Optional float tensor `(batch, query, key)`, the weights of
            the step before, for scorers that look at them.

    Returns:
        Scores of shape `(batch, query, key)`, or `(batch, key)` for a query of rank 2,
        in the compute dtype.

    Raises:
        TypeError: If a hook takes other arguments.
        ValueError: If the shapes do not fit, or `score` returns another shape.

    Masking: reads no mask and passes none on; the normalizer applies it.

    Example:

    >>> from keras_attention import Attention, Scorer
    >>> class DistanceScorer(Scorer):
    ...     "Scores a key by its distance to the query, times a learned strength."
    ...     same_width = True
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

    #: Whether query and key must have one width (no weights between them).
    same_width = False
    #: Which earlier weights `score` looks at: None, "previous" or "accumulated".
    reads_weights = None
    #: Whether a score depends on where its key stands. Otherwise `score` may be called with a
    #: part of the keys, as `LocalAttention` does.
    reads_positions = False

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.supports_masking = True  # masks are not an error here; they are not passed on
        check_hooks(self, Scorer, HOOKS)

    def build(self, query_shape, key_shape):
        self.check_shapes(query_shape, key_shape)
        self.built = True

    def check_shapes(self, query_shape, key_shape):
        """Raises `ValueError` unless the two shapes can be scored against each other."""
        owner = type(self).__name__
        query_shape, key_shape = tuple(query_shape), tuple(key_shape)
        if len(query_shape) not in (2, 3) or query_shape[-1] is None:
            raise ValueError(
                f"{owner} expects `query` of shape (batch, query, query_dim) or (batch, query_dim) "
                f"with a known last dimension. Received: query.shape={query_shape}"
            )
        if len(key_shape) != 3 or key_shape[-1] is None:
            raise ValueError(
                f"{owner} expects `key` of shape (batch, key, key_dim) with a known last "
                f"dimension. Received: key.shape={key_shape}"
            )
        if self.same_width and query_shape[-1] != key_shape[-1]:
            raise ValueError(
                f"{owner} has no weights and expects `query` and `key` of one width. Project one "
                "of them with `keras.layers.Dense`, or use `GeneralScorer` or `AdditiveScorer`. "
                f"Received: query.shape={query_shape}, key.shape={key_shape}"
            )
        checks.same_dim(owner, 0, query=query_shape, key=key_shape)
        checks.built_widths(self, query=query_shape, key=key_shape)

    def prepare(self, key):
        """Returns what depends on the key alone: a tensor with leading dimension batch."""
        self.check_ready(key)
        return ops.cast(key, self.compute_dtype)

    def score(self, query, prepared, previous_weights=None):
        """Returns the scores of `query` against what `prepare` returned."""
        name_missing(self, Scorer, "score", "returns scores (batch, query, key)")

    def score_step(self, query, prepared, previous_weights=None):
        """Returns what `score` returns, for the few queries of a decoder's step.

        A scorer overrides it where their number, unknown while tracing, would decide how it
        computes; a subclass that overrides `score` alone is called by `score` in steps too.
        """
        return self.score(query, prepared, previous_weights)

    def compare(self, query, prepared, previous_weights=None, num_keys=None, is_step=False):
        """Returns what `score` or `score_step` returns, if it has a score for each pair.

        Args:
            query: Float tensor `(batch, query, query_dim)`.
            prepared: What `prepare` returned.
            previous_weights: Optional float tensor `(batch, query, key)`.
            num_keys: Int, or None where it is not known.
            is_step: Whether the queries are those of a decoder's step, the beams of a source.
        """
        score = self.score
        if is_step:
            names = ("score_step", "score")
            owned = (name for owner in type(self).__mro__ for name in names if name in vars(owner))
            score = getattr(self, next(owned))
        scores = score(query, prepared, previous_weights)
        shape = (*tuple(query.shape[:2]), num_keys)
        check_result(self, "score", scores, shape, "(batch, query, key)")
        return scores

    def dot_query(self, query):
        """Returns the tensor whose dot products with what `prepare` returned are the scores.

        None where the scores are something else. What reads long sequences uses it, to score
        piece by piece.
        """
        return None

    def reach(self, num_keys):
        """Returns boolean `(key,)`, which of the keys can be scored at all; None for every one."""
        return None

    def call(self, query, key, previous_weights=None):
        self.check_shapes(query.shape, key.shape)
        if len(query.shape) == 2:
            if previous_weights is not None:
                previous_weights = ops.expand_dims(previous_weights, 1)
            query = ops.expand_dims(query, 1)
            scores = self.compare(query, self.prepare(key), previous_weights, key.shape[1])
            return ops.squeeze(scores, 1)
        return self.compare(query, self.prepare(key), previous_weights, key.shape[1])

    def compute_output_shape(self, query_shape, key_shape, previous_weights_shape=None):
        self.check_shapes(query_shape, key_shape)
        return (*tuple(query_shape)[:-1], tuple(key_shape)[1])

    def compute_output_spec(self, query, key, previous_weights=None, **kwargs):
        shape = self.compute_output_shape(query.shape, key.shape)
        return keras.KerasTensor(shape, dtype=self.compute_dtype)

    def compute_mask(self, *args, **kwargs):
        return None

    def get_config(self):
        return {**super().get_config()}

    def check_ready(self, tensor):
        """Raises unless the layer is built and `tensor` holds values (is not symbolic)."""
        checks.check_ready(self, tensor)

    def cast_weight(self, variable):
        """Returns a weight in the compute dtype: `prepare` and `score` run outside `__call__`."""
        return ops.cast(variable, self.compute_dtype)

"""What every scorer is: query and key in, one compatibility score a pair out."""

import keras
from keras import ops

from keras_attention import checks


class Scorer(keras.layers.Layer):
    """Compares queries with keys; the abstract first stage of attention.

    A scorer keeps no state and reads no mask: what it returns is neither masked
    nor normalized. A subclass defines `build`, `score` and, when part of its work
    depends on the key alone, `prepare`; `call` is the two in a row, so that a
    decoder can prepare a source once and score it at every step.

    Call arguments:
        query: Float tensor of shape `(batch, query, query_dim)`, or `(batch, query_dim)`
            for one decoder step.
        key: Float tensor of shape `(batch, key, key_dim)`.
        previous_weights: Optional float tensor `(batch, query, key)`, the weights of
            the step before, for scorers that look at them.

    Returns:
        Scores of shape `(batch, query, key)`, or `(batch, key)` for a query of rank 2,
        in the compute dtype.

    Masking: reads no mask and passes none on; the normalizer applies it.
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
        self._widths = None

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
        widths = (query_shape[-1], key_shape[-1])
        if self._widths not in (None, widths):
            raise ValueError(
                f"{owner} was built for query and key of widths {self._widths} and cannot score "
                f"others. Received: query.shape={query_shape}, key.shape={key_shape}"
            )
        self._widths = widths

    def prepare(self, key):
        """Returns what depends on the key alone: a tensor with leading dimension batch."""
        self.check_ready(key)
        return ops.cast(key, self.compute_dtype)

    def score(self, query, prepared, previous_weights=None):
        """Returns the scores of `query` against what `prepare` returned."""
        raise NotImplementedError

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
            scores = self.score(ops.expand_dims(query, 1), self.prepare(key), previous_weights)
            return ops.squeeze(scores, 1)
        return self.score(query, self.prepare(key), previous_weights)

    def compute_output_shape(self, query_shape, key_shape):
        return (*tuple(query_shape)[:-1], tuple(key_shape)[1])

    def compute_output_spec(self, query, key, previous_weights=None, **kwargs):
        self.check_shapes(query.shape, key.shape)
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

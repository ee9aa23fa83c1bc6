"""Additive scores that also look at earlier weights; what two scorers share.

They are those of `tanh_scorer`, with an f_j made of the weights that earlier steps gave to key j.
"""

from keras import ops

from keras_attention.scorers.additive import additive_scores
from keras_attention.scorers.tanh_scorer import TanhScorer


class WeightReader(TanhScorer):
    """Adds features of earlier weights inside the tanh; the base of two scorers.

    A subclass sets `reads_weights`, adds its weights in `build_features` and defines
    `features`.
    """

    def build_features(self):
        """Adds the weights of `features`."""
        raise NotImplementedError

    def features(self, previous_weights):
        """Returns `(batch, query, key, units)` for weights `(batch, query, key)`."""
        raise NotImplementedError

    def score(self, query, prepared, previous_weights=None):
        query, features = self.project_query(query), None
        if previous_weights is not None:
            self._check_weights(query, prepared, previous_weights)
            features = self.features(ops.cast(previous_weights, self.compute_dtype))
        vector = self.scoring_vector()
        return additive_scores(query, prepared, vector, blocked=False, features=features)

    def _check_weights(self, query, key, previous_weights):
        expected = (query.shape[0], query.shape[1], key.shape[1])
        shape = tuple(previous_weights.shape)
        fits = len(shape) == 3 and all(
            None in pair or pair[0] == pair[1] for pair in zip(shape, expected, strict=True)
        )
        if not fits:
            raise ValueError(
                f"{type(self).__name__} expects `previous_weights` of shape (batch, query, key), "
                f"here {expected}: a weight for every score. "
                f"Received: previous_weights.shape={shape}"
            )

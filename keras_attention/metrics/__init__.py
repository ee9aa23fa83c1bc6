"""Metrics of sequences: of tokens, for `model.compile`, and of texts, for decoded samples.

`TokenAccuracy`, `Perplexity` and `ExactMatch` compare ids with predictions inside of `fit` and
`evaluate`. `WordErrorRate` and `BLEU` compare lists of strings, wherever texts are decoded, and
`AlignmentErrorRate` compares links of words.

>>> accuracy = TokenAccuracy()
>>> accuracy.update_state(keras.ops.array([[4, 2, 0]]), keras.ops.array([[4, 3, 9]]))
>>> float(accuracy.result())  # the third token is padding
0.5
"""

from keras_attention.metrics.alignment_error_rate import AlignmentErrorRate
from keras_attention.metrics.bleu import BLEU
from keras_attention.metrics.exact_match import ExactMatch
from keras_attention.metrics.perplexity import Perplexity
from keras_attention.metrics.token_accuracy import TokenAccuracy
from keras_attention.metrics.word_error_rate import WordErrorRate

__all__ = [
    "AlignmentErrorRate",
    "BLEU",
    "ExactMatch",
    "Perplexity",
    "TokenAccuracy",
    "WordErrorRate",
]

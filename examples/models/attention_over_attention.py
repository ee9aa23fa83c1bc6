"""The attention-over-attention reader, Cui et al. 2017 (https://arxiv.org/abs/1607.04423).

    M(i, j) = h_doc(i) . h_query(j)     s = alpha beta_bar     P(w) = sum of s_i, document_i = w

Departures: candidates are read as slots by default (`--names words` is the paper), and N-best
reranking is left out.
"""

import functools

import keras

from examples.models import cloze_reader

TITLE = "Attention over attention: query words weigh a document, and each other"
REFERENCE = "Cui et al. 2017, arXiv 1607.04423"


@functools.wraps(cloze_reader.build)
def build(vocabulary_size: int, **options) -> keras.Model:
    return cloze_reader.build("attention_over_attention", True, vocabulary_size, **options)

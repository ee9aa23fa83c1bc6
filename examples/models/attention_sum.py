"""The attention-sum reader, Kadlec et al. 2016 (https://arxiv.org/abs/1603.01547).

    s_i = softmax_i(h_doc(i) . q)     P(w) = sum of s_i where document_i = w

It is attention over attention with a query of one vector q, the last states of the encoder: there
is nothing for the second attention to weigh.
"""

import functools

import keras

from examples.models import cloze_reader

TITLE = "Attention sum: one vector of the query weighs a document"
REFERENCE = "Kadlec et al. 2016, arXiv 1603.01547"


@functools.wraps(cloze_reader.build)
def build(vocabulary_size: int, **options) -> keras.Model:
    return cloze_reader.build("attention_sum", False, vocabulary_size, **options)

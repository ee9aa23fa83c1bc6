"""Naive Bayes on the presence of words: what a classifier of documents has to be measured by.

    log p(c | d) = log N_c / N + sum_{w in d} log (n_cw + 1) / (sum_w' n_cw' + V)

with N_c the documents of class c, n_cw how many of them hold word w, and V words, those of the
training documents that at least `min_frequency` of them hold. Words that are not among them
count for nothing. This is the multinomial form, as in Wang & Manning 2012.
"""

import collections
import math


def train(documents, min_frequency: int = 1):
    """Returns a function from a document to its most probable label.

    Example:

    >>> from examples.data.classification import Document
    >>> films = [Document("1", "pos", ("a good film",)), Document("2", "neg", ("a bad film",))]
    >>> classify = train(films)
    >>> classify(Document("3", "?", ("good acting",)))
    'pos'
    """
    counts = {label: collections.Counter() for label in sorted({d.label for d in documents})}
    total, priors = collections.Counter(), collections.Counter(d.label for d in documents)
    for document in documents:
        words = _words(document)
        counts[document.label].update(words)
        total.update(words)
    vocabulary = {word for word, n in total.items() if n >= min_frequency}
    sums = {
        label: sum(n for word, n in found.items() if word in vocabulary)
        for label, found in counts.items()
    }

    def score(label, words):
        logs = (math.log(counts[label][word] + 1) for word in words)
        whole = math.log(sums[label] + len(vocabulary))
        return math.log(priors[label] / len(documents)) + sum(logs) - len(words) * whole

    def classify(document):
        words = _words(document) & vocabulary
        return max(counts, key=lambda label: score(label, words))

    return classify


def accuracy(classify, documents) -> float:
    """Returns the fraction of the documents whose label is found."""
    return sum(classify(document) == document.label for document in documents) / len(documents)


def _words(document):
    return {word for sentence in document.sentences for word in sentence.split()}

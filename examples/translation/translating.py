"""Translates texts with a trained run, by the very functions that are exported."""

import dataclasses

import numpy as np
import tensorflow as tf

from examples.translation.lengths import check_pairs, source_limit
from keras_attention.export.signatures import TranslatorFunctions


@dataclasses.dataclass(frozen=True)
class Translation:
    """The n-best outputs of one text.

    Attributes:
        texts: The outputs, best first.
        scores: Their scores.
        source_tokens: The source as the model saw it, the end mark last.
        tokens: The tokens of the best output.
        alignment: Weights of the best output, `(len(tokens), len(source_tokens))`.
    """

    texts: list[str]
    scores: list[float]
    source_tokens: list[str]
    tokens: list[str]
    alignment: np.ndarray


class TextTranslator:
    """Beam search from text to text.

    Of a source that is longer than what the encoder has learned positions for, it reads as many
    tokens as there are positions; `lengths.tell_cut_sources` says which these are.

    Args:
        model: A translator.
        source, target: Its tokenizers.
        beam_width: Number of hypotheses.
        max_length: Longest output in tokens, the end mark counted.
        length_penalty: What ranks hypotheses of different lengths, see `beam_search`, or None.
    """

    def __init__(self, model, source, target, beam_width=4, max_length=128, length_penalty=None):
        options = {"beam_width": beam_width, "length_penalty": length_penalty}
        longest = source_limit(model)
        functions = TranslatorFunctions(model, source, target, longest, max_length, options, {})
        spec = tf.TensorSpec([None], tf.string)
        self._plain = tf.function(
            functions.serving_default, input_signature=[spec], autograph=False
        )
        self._aligned = tf.function(
            functions.translate_with_alignment, input_signature=[spec], autograph=False
        )
        self._greedy = tf.function(functions.greedy, input_signature=[spec], autograph=False)

    def best(self, texts: list[str], batch_size: int = 64) -> list[str]:
        """Returns the best output of each text."""
        return self._answers(texts, batch_size, lambda rows: self._plain(rows)["text"][:, 0])

    def greedy(self, texts: list[str], batch_size: int = 64) -> list[str]:
        """Returns for each text the output of the likeliest tokens, without a search."""
        return self._answers(texts, batch_size, lambda rows: self._greedy(rows)["text"])

    def _answers(self, texts, batch_size, answer):
        found = [""] * len(texts)
        for rows in _batches(texts, batch_size):
            answers = answer(tf.constant([texts[row] for row in rows])).numpy()
            for row, text in zip(rows, answers, strict=True):
                found[row] = text.decode()
        return found

    def translate(self, texts: list[str], batch_size: int = 32) -> list[Translation]:
        """Returns outputs, scores and alignments of each text."""
        found = [None] * len(texts)
        for rows in _batches(texts, batch_size):
            result = self._aligned(tf.constant([texts[row] for row in rows]))
            result = {name: value.numpy() for name, value in result.items()}
            for number, row in enumerate(rows):
                found[row] = _translation({name: v[number] for name, v in result.items()})
        return found


class PairScorer:
    """The log-probabilities of given targets, by the function that is exported.

    Args:
        model: A translator.
        source, target: Its tokenizers.
    """

    def __init__(self, model, source, target):
        self._model, self._source, self._target = model, source, target

    def log_probs(self, pairs, batch_size: int = 64) -> list[list[float]]:
        """Returns for each pair of texts the log-probability of each token and of the end.

        Args:
            pairs: A `Corpus`, or a list of `(source, target)` texts.
            batch_size: How many pairs are scored at a time.

        Raises:
            DataError: If a side of a pair is longer than what the model has learned positions
                for.
        """
        check_pairs(self._model, self._source, self._target, pairs)
        texts, targets = (tf.constant(list(side)) for side in zip(*pairs, strict=True))
        longest = int(tf.reduce_max(self._target.encode(targets)[1])) + 1
        functions = TranslatorFunctions(
            self._model, self._source, self._target, None, longest, {}, {}
        )
        spec = tf.TensorSpec([None], tf.string)
        score = tf.function(functions.score, input_signature=[spec, spec], autograph=False)
        found = [None] * len(pairs)
        for rows in _batches([target for _, target in pairs], batch_size):
            scored = score(tf.gather(texts, rows), tf.gather(targets, rows))
            lengths, log_probs = scored["length"].numpy(), scored["token_log_prob"].numpy()
            for row, length, values in zip(rows, lengths, log_probs, strict=True):
                found[row] = [float(value) for value in values[:length]]
        return found


def _batches(texts, size):
    """Rows of similar length together, so that little is padded."""
    order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
    return [order[start : start + size] for start in range(0, len(order), size)]


def _translation(row):
    source_length, length = row["source_length"], max(0, row["length"][0])
    return Translation(
        texts=[text.decode() for text in row["text"]],
        scores=[float(score) for score in row["score"]],
        source_tokens=[token.decode() for token in row["source_tokens"][:source_length]],
        tokens=[token.decode() for token in row["tokens"][0, :length]],
        alignment=row["alignment"][0, :length, :source_length],
    )

"""From texts to texts in Python: an encoder, a decoder and two tokenizers as one object."""

import dataclasses
import os
import pathlib

import keras
import numpy as np
import tensorflow as tf

from keras_attention.decoding.steps import IMPOSSIBLE
from keras_attention.export.compilation import Compilation
from keras_attention.export.contract import check_translator, connect_parts
from keras_attention.export.graphs import end_after, traced
from keras_attention.export.limits import default_limit, learned_positions
from keras_attention.export.search_options import checked_options
from keras_attention.export.signatures import INPUTS, TranslatorFunctions
from keras_attention.export.tokenizers import Tokenizer
from keras_attention.export.translator import export_translator
from keras_attention.protocol import first_id

SCORED_LENGTHS = 64  # targets are scored with room for a multiple of so many tokens


@dataclasses.dataclass(frozen=True)
class Translation:
    """The n-best translations of one text.

    Attributes:
        texts: The translations, best first; fewer than the beam width where no more exist.
        scores: Their log-probabilities, after the penalties.
        source_tokens: The source as the model saw it, the EOS token last; None unless alignments
            were asked for, and so the others.
        tokens: The tokens of the best translation.
        alignment: Its attention weights, `(len(tokens), len(source_tokens))`.
    """

    texts: list[str]
    scores: list[float]
    source_tokens: list[str] | None = None
    tokens: list[str] | None = None
    alignment: np.ndarray | None = None


class Translator:
    """Translates texts with an encoder and a decoder, and exports them, by the same functions.

    The searches are compiled graphs, each traced on first use and then kept for texts of any
    number and length. They read the weights of the moment: train `model` before or in between.

    Args:
        encoder: A layer or functional model named "encoder", from ids `(batch, source)` to a dict
            of `memory`, `(batch, source, dim)`, and, if the decoder starts from one,
            `initial_state`. A single tensor is the memory alone.
        decoder: A decoder of this library, or a layer with the same methods, named "decoder".
        source: Tokenizer of the source side.
        target: Tokenizer of the target side.
        xla: None, or a `Compilation`: then `greedy` and `beam` run XLA programs of its sizes.
        **options: `beam_width`, `max_length`, `max_source_length`, `length_penalty`,
            `coverage_penalty`, `min_length`, `banned_ids` and `no_repeat_ngram`, as
            `export_translator` takes them. By default `max_length` is 128, or the positions
            that the decoder has learned if that is less.

    Attributes:
        model: The functional model from `{"source", "target"}` ids to logits, for `compile` and
            `fit`.

    Raises:
        ValueError: If a part has another name or returns something else, a tokenizer has more
            tokens than the model, or an option is out of range.

    Example:

    >>> import keras
    >>> from keras_attention import BahdanauDecoder
    >>> from keras_attention.export import Translator, tokenizers
    >>> words = tokenizers.train("words", ["ein hund", "a dog"])
    >>> ids = keras.Input([None], dtype="int32")
    >>> embedded = keras.layers.Embedding(words.vocabulary_size, 8, mask_zero=True)(ids)
    >>> memory = keras.layers.GRU(8, return_sequences=True)(embedded)
    >>> encoder = keras.Model(ids, {"memory": memory}, name="encoder")
    >>> decoder = BahdanauDecoder(words.vocabulary_size, 8, 8, name="decoder")
    >>> translator = Translator(encoder, decoder, source=words, target=words, max_length=5)
    >>> inputs, labels = translator.encode_pairs(["ein hund"], ["a dog"])
    >>> tuple(inputs["source"].shape), tuple(labels.shape)
    ((1, 3), (1, 3))
    >>> len(translator.greedy(["ein hund", "hund"]))
    2
    """

    def __init__(
        self,
        encoder: keras.layers.Layer,
        decoder: keras.layers.Layer,
        *,
        source: Tokenizer,
        target: Tokenizer,
        xla: Compilation | None = None,
        **options,
    ):
        model = connect_parts("Translator", encoder, decoder)
        self._begin(model, source, target, xla, options)

    @classmethod
    def from_model(
        cls,
        model: keras.Model,
        *,
        source: Tokenizer,
        target: Tokenizer,
        xla: Compilation | None = None,
        **options,
    ) -> "Translator":
        """Returns a translator around a model that has its encoder and decoder already.

        Args:
            model: What `export_translator` takes.
            source, target, xla, **options: As the class takes them.
        """
        translator = cls.__new__(cls)
        translator._begin(model, source, target, xla, options)
        return translator

    def _begin(self, model, source, target, xla, options):
        owner = "Translator"
        check_translator(owner, model)
        self.model, self.source, self.target = model, source, target
        defaults = {
            "beam_width": 4,
            "max_length": default_limit(model, None),
            "max_source_length": "auto",
            "length_penalty": None,
            "coverage_penalty": None,
            "min_length": 0,
            "banned_ids": (),
            "no_repeat_ngram": None,
        }
        unknown = sorted(set(options) - set(defaults))
        if unknown:
            raise ValueError(
                f"{owner} expects options among {', '.join(defaults)}. "
                f"Received: {', '.join(unknown)}"
            )
        self._options = defaults | options
        checked = checked_options(owner, model, source, target, **self._options)
        self._source_limit = checked.max_source_length
        searches = (checked.beam_search, checked.constraints, xla)
        self._functions = TranslatorFunctions(
            model, source, target, self._source_limit, checked.max_length, *searches
        )
        self._scorers, self._compiled = {}, {}

    def encode_pairs(self, texts: list[str], targets: list[str]) -> tuple[dict, tf.Tensor]:
        """Returns the inputs and labels that `model.fit` learns pairs of texts from.

        Args:
            texts: Source texts.
            targets: Their translations.

        Returns:
            A dict of `source` `(pairs, source)` and `target` `(pairs, target)`, the tokens before
            each label, and the labels `(pairs, target)`; all int32, padded with 0. Leave the
            padding out of the loss: `SparseCategoricalCrossentropy(True, ignore_class=0)`.
        """
        source_ids, _ = self._functions.translating.source_ids(_strings(texts))
        labels = end_after(*self.target.encode(_strings(targets)))
        first = first_id(self.model.get_layer("decoder"))
        before = tf.concat([tf.fill([tf.shape(labels)[0], 1], first), labels[:, :-1]], axis=1)
        # No token is read after the last: where a label is padding, the input is too.
        before = tf.where(labels == 0, 0, before)
        return {"source": source_ids, "target": before}, labels

    def greedy(self, texts: list[str], batch_size: int = 64) -> list[str]:
        """Returns one translation of each text, the most probable token at every step.

        Args:
            texts: Source texts.
            batch_size: Number of texts that are translated together.
        """
        found = self._answers(self._function("greedy", self._functions), batch_size, texts)
        return [row["text"].decode() for row in found]

    def beam(
        self, texts: list[str], return_alignments: bool = False, batch_size: int = 32
    ) -> list[Translation]:
        """Returns the n-best translations of each text by beam search.

        Args:
            texts: Source texts.
            return_alignments: Whether each `Translation` has tokens and attention weights.
            batch_size: Number of texts that are translated together.
        """
        name = "translate_with_alignment" if return_alignments else "serving_default"
        found = self._answers(self._function(name, self._functions), batch_size, texts)
        return [_translation(row) for row in found]

    def score(
        self, texts: list[str], targets: list[str], batch_size: int = 64
    ) -> list[list[float]]:
        """Returns the log-probability of each token of given translations, the EOS token last.

        The sum of a row is the log-probability of the whole translation, whatever its length.

        Args:
            texts: Source texts.
            targets: A translation of each.
            batch_size: Number of pairs that are scored together.

        Raises:
            ValueError: If there are not as many targets as texts, or a target is longer than the
                positions that the decoder has learned.
        """
        if len(texts) != len(targets):
            raise ValueError(
                "Translator.score expects as many `targets` as `texts`. "
                f"Received: {len(texts)} texts and {len(targets)} targets"
            )
        if not len(texts):
            return []
        longest = int(tf.reduce_max(self.target.encode(_strings(targets))[1])) + 1
        room = -(-longest // SCORED_LENGTHS) * SCORED_LENGTHS  # few programs for many lengths
        learned = learned_positions(self.model).get("target", room)
        if longest > learned:
            raise ValueError(
                f"Translator.score expects targets of at most {learned} tokens, the positions "
                f"that the decoder has learned. Received: one of {longest} tokens"
            )
        room = min(room, learned)
        found = self._answers(
            self._function("score", self._scorer(room)), batch_size, texts, targets
        )
        return [row["token_log_prob"][: row["length"]].tolist() for row in found]

    def export(
        self,
        directory: str | os.PathLike,
        *,
        version: int | None = None,
        name: str | None = None,
        xla: Compilation | None = None,
        run: dict | None = None,
    ) -> pathlib.Path:
        """Writes the translator as a SavedModel version, with the same options.

        Args:
            directory, version, name, xla, run: As `export_translator` takes them.

        Returns:
            The path of the version, `<directory>/<version>`.
        """
        return export_translator(
            self.model,
            directory,
            source=self.source,
            target=self.target,
            version=version,
            name=name,
            xla=xla,
            run=run,
            **self._options,
        )

    def _function(self, name, functions):
        """The compiled function of a signature, made once."""
        key = name, functions.translating.max_length
        if key not in self._compiled:
            self._compiled[key] = traced(getattr(functions, name), *INPUTS[name])
        return self._compiled[key]

    def _scorer(self, room):
        """The signatures for targets of up to `room` tokens, made once."""
        if room not in self._scorers:
            self._scorers[room] = TranslatorFunctions(
                self.model, self.source, self.target, self._source_limit, room, {}, {}
            )
        return self._scorers[room]

    def _answers(self, function, batch_size, *columns):
        """The outputs of each text as a dict of arrays; texts of similar length go together."""
        columns = [_strings(column) for column in columns]
        sizes = tf.strings.length(columns[-1]).numpy()
        order = np.argsort(sizes, kind="stable")
        found = [None] * len(order)
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            answer = function(*(tf.gather(column, rows) for column in columns))
            answer = {name: value.numpy() for name, value in answer.items()}
            for number, row in enumerate(rows):
                found[row] = {name: value[number] for name, value in answer.items()}
        return found


def _strings(texts):
    """Texts as a tensor `(batch,)`."""
    if isinstance(texts, (str, bytes)):
        raise ValueError(f"A list of texts is expected. Received: {texts!r}")
    return tf.constant(list(texts), tf.string, shape=(len(texts),))


def _translation(row):
    """A row of `serving_default` or `translate_with_alignment`, without what does not exist."""
    count = int((row["score"] > IMPOSSIBLE).sum())
    texts = [text.decode() for text in row["text"][:count]]
    scores = row["score"][:count].tolist()
    if "alignment" not in row:
        return Translation(texts, scores)
    source_length, length = row["source_length"], max(0, row["length"][0])
    return Translation(
        texts,
        scores,
        source_tokens=[token.decode() for token in row["source_tokens"][:source_length]],
        tokens=[token.decode() for token in row["tokens"][0, :length]],
        alignment=row["alignment"][0, :length, :source_length],
    )

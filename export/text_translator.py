"""`Translator`: an encoder, a decoder and two tokenizers as one object, from text to text."""

import dataclasses
import os
import pathlib
from collections.abc import Iterator, Mapping

import keras
import numpy as np
import tensorflow as tf

from keras_attention.decoders import get_decoder_start_id
from keras_attention.export._connect_encoder_decoder import connect_encoder_decoder
from keras_attention.export._required_phrases import encode_phrases
from keras_attention.export._search_memory import check_search_ram
from keras_attention.export._signatures import MAX_TEMPERATURE, TEXT, TranslatorSignatures
from keras_attention.export._streamed_signatures import StreamedSignature
from keras_attention.export._tf_functions import make_tf_function
from keras_attention.export._type_aliases import JSONValue
from keras_attention.export.compilation import XLABuckets
from keras_attention.export.length_limits import count_learned_positions
from keras_attention.export.search_options import SearchOptions, resolve_search_options
from keras_attention.export.tokenizers import Tokenizer
from keras_attention.export.translator_export import export_translator
from keras_attention.search.beam import PADDING_SCORE
from keras_attention.validation import check_int_at_least, check_number_in_range

SCORE_LENGTH_MULTIPLE = 64  # targets are padded to a multiple of it, so that few graphs serve all


@dataclasses.dataclass(frozen=True)
class Translation:
    """The n-best translations of one text.

    Attributes:
        texts: The translations, best first; fewer than the beam width if no more exist.
        scores: Their log-probabilities after the penalties, with a language model if there is one.
        source_tokens: The source tokens that the model read, EOS last. This and the next two are
            None unless `return_alignments=True`.
        tokens: The tokens of the best translation.
        alignment: Its attention weights, `(len(tokens), len(source_tokens))`.
    """

    texts: list[str]
    scores: list[float]
    source_tokens: list[str] | None = None
    tokens: list[str] | None = None
    alignment: np.ndarray | None = None


class Translator:
    """Translates texts with an encoder and a decoder, and exports them with the same functions.

    Each search is a TensorFlow graph that is traced on first use and serves any number of texts of
    any length. The searches read the current weights: `model` may be trained before or in between.

    Args:
        encoder: A layer or functional model named "encoder", from ids `(batch, source)` to a dict
            of `memory`, `(batch, source, dim)`, and, if the decoder starts from one,
            `initial_state`. A single tensor is taken as the memory.
        decoder: A decoder of this library, or a layer with the same methods, named "decoder".
        source: Tokenizer of the source side.
        target: Tokenizer of the target side.
        search: A `SearchOptions`: the beam width, the maximum lengths and the other options of
            all searches.
        xla: None, or an `XLABuckets`: then `greedy` and `beam` run XLA programs of its sizes.

    Attributes:
        model: The functional model from `{"source", "target"}` ids to logits, for `compile` and
            `fit`.

    Raises:
        ValueError: If the encoder or decoder has a different name or different outputs, a tokenizer
            has more tokens than the model, or an option is out of range.

    Example:

    >>> import keras
    >>> from keras_attention import BahdanauDecoder
    >>> from keras_attention.export import SearchOptions, Translator, tokenizers
    >>> words = tokenizers.train("words", ["ein hund", "a dog"])
    >>> ids = keras.Input([None], dtype="int32")
    >>> embedded = keras.layers.Embedding(words.vocabulary_size, 8, mask_zero=True)(ids)
    >>> memory = keras.layers.GRU(8, return_sequences=True)(embedded)
    >>> encoder = keras.Model(ids, {"memory": memory}, name="encoder")
    >>> decoder = BahdanauDecoder(words.vocabulary_size, 8, 8, name="decoder")
    >>> search = SearchOptions(max_length=5)
    >>> translator = Translator(encoder, decoder, source=words, target=words, search=search)
    >>> inputs, labels = translator.encode_pairs(["ein hund"], ["a dog"])
    >>> tuple(inputs["source"].shape), tuple(labels.shape)
    ((1, 3), (1, 3))
    >>> len(translator.greedy(["ein hund", "hund"]))
    2
    """

    model: keras.Model
    source: Tokenizer
    target: Tokenizer

    def __init__(
        self,
        encoder: keras.layers.Layer,
        decoder: keras.layers.Layer,
        *,
        source: Tokenizer,
        target: Tokenizer,
        search: SearchOptions = SearchOptions(),
        xla: XLABuckets | None = None,
    ) -> None:
        model = connect_encoder_decoder("Translator", encoder, decoder)
        self._initialize(model, source, target, search, xla)

    @classmethod
    def from_model(
        cls,
        model: keras.Model,
        *,
        source: Tokenizer,
        target: Tokenizer,
        search: SearchOptions = SearchOptions(),
        xla: XLABuckets | None = None,
    ) -> "Translator":
        """Returns a translator for a model that already contains its encoder and decoder.

        Args:
            model: A translator as `export_translator` takes it.
            source, target, search, xla: As the class takes them.
        """
        translator = cls.__new__(cls)
        translator._initialize(model, source, target, search, xla)
        return translator

    def _initialize(self, model, source, target, search, xla):
        self._search = resolve_search_options("Translator", search, model, source, target)
        self.model, self.source, self.target = model, source, target
        self._functions = TranslatorSignatures(model, source, target, self._search, xla)
        check_search_ram(self._functions.pipeline, self._search, xla)
        self._scoring_signatures, self._compiled, self._streamed = {}, {}, {}

    def encode_pairs(
        self, texts: list[str], targets: list[str]
    ) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        """Returns inputs and labels for `model.fit` from pairs of texts.

        Args:
            texts: Source texts.
            targets: Their translations.

        Returns:
            A dict of ids `source` `(pairs, source)` and `target` `(pairs, target)`, the decoder's
            inputs, and the labels `(pairs, target)`. All are int32, padded with 0. Exclude the
            padding from the loss: `SparseCategoricalCrossentropy(True, ignore_class=0)`.
        """
        texts, targets = map(_make_string_tensor, (texts, targets))
        source_ids, _ = self._functions.pipeline.tokenize_source(texts)
        labels = self._functions.pipeline.tokenize_target(targets, texts)
        first = get_decoder_start_id(self.model.get_layer("decoder"))
        decoder_inputs = tf.concat(
            [tf.fill([tf.shape(labels)[0], 1], first), labels[:, :-1]], axis=1
        )
        # The decoder reads no token after EOS: if a label is padding, so is its input.
        decoder_inputs = tf.where(labels == 0, 0, decoder_inputs)
        return {"source": source_ids, "target": decoder_inputs}, labels

    def greedy(self, texts: list[str], batch_size: int = 64) -> list[str]:
        """Returns one translation of each text, by greedy search.

        Args:
            texts: Source texts.
            batch_size: Number of texts in a batch.
        """
        found = self._run_in_batches(
            self._get_function("greedy", self._functions), batch_size, texts
        )
        return [row["text"].decode() for row in found]

    def beam(
        self,
        texts: list[str],
        return_alignments: bool = False,
        batch_size: int = 32,
        phrases: list[list[str]] | None = None,
    ) -> list[Translation]:
        """Returns the n-best translations of each text by beam search.

        Args:
            texts: Source texts.
            return_alignments: Whether each `Translation` includes tokens and attention weights.
            batch_size: Number of texts in a batch.
            phrases: None, or a list of phrases for each text, such as `[["red car"], []]`. Every
                translation contains the tokens of all its phrases, each in one piece; a subword
                may follow them, as in "red cars". Give the beam a place more than the phrases
                have tokens. XLA programs are not used.

        Raises:
            ValueError: If a phrase has a word that the target tokenizer does not know or the search
                options forbid, or the phrases of a text are longer than an output may be.
        """
        texts = _make_string_tensor(texts)
        if phrases is not None:
            phrases = encode_phrases(phrases, len(texts), self.target, self._search)
        if phrases is not None:
            function = self._get_phrase_function(*phrases.shape[1:])
            found = self._run_in_batches(function, batch_size, texts, tf.constant(phrases))
            kept = None if return_alignments else ("text", "score")
            return [_make_translation({n: row[n] for n in kept or row}) for row in found]
        name = "translate_with_alignment" if return_alignments else "serving_default"
        found = self._run_in_batches(self._get_function(name, self._functions), batch_size, texts)
        return [_make_translation(row) for row in found]

    def sample(
        self,
        texts: list[str],
        num_samples: int = 1,
        *,
        seed: int = 0,
        temperature: float = 1.0,
        batch_size: int = 64,
    ) -> list[list[str]]:
        """Returns sampled translations of each text, such as `minimum_bayes_risk` compares.

        They depend on the text, the seed and their number, not on the other texts.

        Args:
            texts: Source texts.
            num_samples: Number of samples of each text.
            seed: Int from 0 to 2e9; the samples have the seeds from it on.
            temperature: Number from 0, the most probable token at each step, to 100.
            batch_size: Number of samples in a batch.
        """
        owner = "Translator.sample"
        check_int_at_least(owner, "num_samples", num_samples, 1)
        check_number_in_range(owner, "seed", check_int_at_least(owner, "seed", seed, 0), 0, 2e9)
        check_number_in_range(owner, "temperature", temperature, 0, MAX_TEMPERATURE)
        texts = _make_string_tensor(texts)
        found = self._run_in_batches(
            self._get_function("sample", self._functions),
            batch_size,
            tf.repeat(texts, num_samples),
            tf.tile(seed + tf.range(num_samples), tf.shape(texts)),
            tf.fill([len(texts) * num_samples], float(temperature)),
        )
        samples = [row["text"].decode() for row in found]
        return [samples[i : i + num_samples] for i in range(0, len(samples), num_samples)]

    def stream(self, text: str, *, greedy: bool = False) -> Iterator[str]:
        """Yields the translation of a text in pieces, as they become certain.

        The pieces together are the first text of `beam([text])`, or that of `greedy([text])`. A
        piece never changes. XLA programs are not used.

        Args:
            text: The source text.
            greedy: Whether to search greedily: then each token is certain once it is chosen. A
                beam search releases tokens in bursts.

        Example:

            for piece in translator.stream("ein Mann läuft"):
                print(piece, end="", flush=True)
        """
        if not isinstance(text, (str, bytes)):
            raise ValueError(f"Translator.stream expects one text. Received: {text!r}")
        name = "greedy" if greedy else "serving_default"
        if name not in self._streamed:
            self._streamed[name] = StreamedSignature(self._functions, name).functions
        functions, sent = self._streamed[name], b""
        found = functions["start"](_make_string_tensor([text]))
        while True:
            certain = found.pop("text").numpy()[0]
            if len(certain) > len(sent):
                yield certain[len(sent) :].decode()
                sent = certain
            if not found.pop("active").numpy()[0]:
                return
            found = functions["advance"](tf.ones([1], tf.int32), *map(found.get, sorted(found)))

    def score(
        self, texts: list[str], targets: list[str], batch_size: int = 64
    ) -> list[list[float]]:
        """Returns the log-probability of each token of given translations, EOS last.

        Their sum is the log-probability of the whole translation, whatever its length.

        Args:
            texts: Source texts.
            targets: One translation for each text.
            batch_size: Number of pairs in a batch.

        Raises:
            ValueError: If the numbers of texts and targets differ, or a target has more tokens
                than the decoder has learned positions.
        """
        if len(texts) != len(targets):
            raise ValueError(
                "Translator.score expects as many `targets` as `texts`. "
                f"Received: {len(texts)} texts and {len(targets)} targets"
            )
        if not len(texts):
            return []
        longest = int(tf.reduce_max(self.target.encode(_make_string_tensor(targets))[1])) + 1
        padded_length = (
            -(-longest // SCORE_LENGTH_MULTIPLE) * SCORE_LENGTH_MULTIPLE
        )  # few graphs for many lengths
        learned = count_learned_positions(self.model).get("target", padded_length)
        if longest > learned:
            raise ValueError(
                f"Translator.score expects targets of at most {learned} tokens, the positions "
                f"that the decoder has learned. Received: one of {longest} tokens"
            )
        padded_length = min(padded_length, learned)
        found = self._run_in_batches(
            self._get_function("score", self._get_scoring_signatures(padded_length)),
            batch_size,
            texts,
            targets,
        )
        return [row["token_log_prob"][: row["length"]].tolist() for row in found]

    def export(
        self,
        directory: str | os.PathLike[str],
        *,
        version: int | None = None,
        name: str | None = None,
        xla: XLABuckets | None = None,
        run: Mapping[str, JSONValue] | None = None,
    ) -> pathlib.Path:
        """Writes the translator as a SavedModel version, with the same search options.

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
            search=self._search,
            xla=xla,
            run=run,
        )

    def _get_function(self, name, functions):
        """Returns the `tf.function` of a signature, which is made once."""
        key = name, functions.pipeline.max_length
        if key not in self._compiled:
            self._compiled[key] = functions.get_function(name)
        return self._compiled[key]

    def _get_phrase_function(self, num_phrases, length):
        """Returns the `tf.function` of a search with phrases of one shape, which is made once."""
        key = "phrases", num_phrases, length
        if key not in self._compiled:
            spec = tf.TensorSpec([None, num_phrases, length], tf.int32, name="phrase_ids")
            function = self._functions.translate_with_phrase_ids
            self._compiled[key] = make_tf_function(function, TEXT, spec)
        return self._compiled[key]

    def _get_scoring_signatures(self, padded_length):
        """Returns the signatures for targets of up to `padded_length` tokens, made once."""
        if padded_length not in self._scoring_signatures:
            search = dataclasses.replace(self._search, max_length=padded_length)
            self._scoring_signatures[padded_length] = TranslatorSignatures(
                self.model, self.source, self.target, search
            )
        return self._scoring_signatures[padded_length]

    def _run_in_batches(self, function, batch_size, *columns):
        """Returns a dict of arrays for each text; batches hold texts of similar length."""
        check_int_at_least("Translator", "batch_size", batch_size, 1)
        columns = [c if tf.is_tensor(c) else _make_string_tensor(c) for c in columns]
        *_, longest = (column for column in columns if column.dtype == tf.string)
        sizes = tf.strings.length(longest).numpy()
        order = np.argsort(sizes, kind="stable")
        found = [None] * len(order)
        for start in range(0, len(order), batch_size):
            indices = order[start : start + batch_size]
            outputs = function(*(tf.gather(column, indices) for column in columns))
            outputs = {name: value.numpy() for name, value in outputs.items()}
            for number, index in enumerate(indices):
                found[index] = {name: value[number] for name, value in outputs.items()}
        return found


def _make_string_tensor(texts):
    """Returns texts as a string tensor `(batch,)`."""
    if isinstance(texts, (str, bytes)):
        raise ValueError(f"Translator expects a list of texts. Received: {texts!r}")
    texts = list(texts)
    for number, text in enumerate(texts):
        if not isinstance(text, (str, bytes)):
            raise ValueError(f"Translator expects texts. Received: texts[{number}]={text!r}")
    return tf.constant(texts, tf.string, shape=(len(texts),))


def _make_translation(row):
    """Returns one example's outputs of a translation signature, without padding hypotheses."""
    count = int((row["score"] > PADDING_SCORE).sum())
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

"""SentencePiece tokenizer: `sentencepiece` trains the model, TensorFlow Text runs it."""

import io
from collections.abc import Iterable, Sequence

import tensorflow as tf

from keras_attention.data import atomic_files
from keras_attention.export._type_aliases import Texts
from keras_attention.export.tokenizers._tensorflow_text import sentencepiece_ops, tensorflow_text
from keras_attention.export.tokenizers.base import (
    SPECIAL_TOKENS,
    UNKNOWN_ID,
    UNKNOWN_TEXT,
    Tokenizer,
    squeeze_whitespace,
)
from keras_attention.validation import missing_package_error

WORD_MARK = "\u2581"  # SentencePiece writes it for the space before a word


class _SharedModelResource(sentencepiece_ops._SentencepieceModelResource):
    """TensorFlow Text's model resource with a name, so that `tf.random.set_seed` keeps it.

    Without a name the resource belongs to a cached eager kernel. `tf.random.set_seed` clears that
    cache and so destroys the resource of every existing tokenizer (TensorFlow Text 2.21).
    """

    def _create_resource(self):
        name = f"sentencepiece_{atomic_files.sha256(self._model)}"
        ops = sentencepiece_ops.gen_sentencepiece_tokenizer
        return ops.sentencepiece_op(model=self._model, shared_name=name)


def _make_tensorflow_text_tokenizer(model):
    tokenizer = tensorflow_text.SentencepieceTokenizer(model, out_type=tf.int32)
    tokenizer._model_resource = _SharedModelResource(model, name=None)
    return tokenizer


class SentencePieceTokenizer(Tokenizer):
    """Splits NFC text into the subwords of a SentencePiece model.

    Runs of white space, U+2581 included, become one space, and decoding returns that text. The
    class uses the exact tokenizer of TensorFlow Text; its "fast" one returns different ids for BPE
    models.

    Args:
        model: The bytes of an `spm.model`, trained with padding 0, unknown 1, BOS 2 and
            EOS 3, as by `train("sentencepiece", ...)`.
        lowercase: Whether texts are lower-cased first.
        symbols: The user-defined symbols of the model, for `tokenizer.json`.

    Raises:
        ValueError: If `model` is not a SentencePiece model, or has different special ids.
    """

    kind = "sentencepiece"
    file_name = "spm.model"

    def __init__(self, model: bytes, lowercase: bool = False, symbols: Sequence[str] = ()) -> None:
        with tf.init_scope():
            try:
                tokenizer = _make_tensorflow_text_tokenizer(model)
                size = int(tokenizer.vocab_size())
                special = tokenizer.id_to_string(tf.range(len(SPECIAL_TOKENS))).numpy().tolist()
            except (tf.errors.OpError, TypeError, ValueError) as error:
                raise ValueError(
                    "SentencePieceTokenizer expects `model` to be the bytes of a SentencePiece "
                    f"model. Received: {_summarize_model(model)}"
                ) from error
        if special != [token.encode() for token in SPECIAL_TOKENS]:
            raise ValueError(
                "SentencePieceTokenizer expects a model with the ids 0 <pad>, 1 <unk>, 2 <s>, "
                "3 </s>. Train it with pad_id=0, unk_id=1, bos_id=2, eos_id=3. "
                f"Received: the first pieces {[piece.decode() for piece in special]}"
            )
        super().__init__(size, lowercase, symbols)
        self._subwords = tokenizer
        self._model = model

    @staticmethod
    def normalize_texts(texts: Texts, lowercase: bool = False) -> tf.Tensor:
        texts = Tokenizer.normalize_texts(texts, lowercase)
        return squeeze_whitespace(tf.strings.regex_replace(texts, WORD_MARK, " "))

    def _split_to_ids(self, texts):
        return self._subwords.tokenize(texts)

    def _join(self, ids):
        return self._subwords.detokenize(ids)

    def _get_tokens(self, ids):
        pieces = self._subwords.id_to_string(tf.reshape(ids, [-1]))
        return tf.reshape(pieces, tf.shape(ids))

    def get_content(self) -> bytes:
        return self._model


def train_sentencepiece(
    texts: Iterable[str],
    *,
    vocabulary_size: int | None,
    symbols: Sequence[str],
    model_type: str,
    character_coverage: float,
) -> bytes:
    """Trains a model on normalized `texts`, deterministically, and returns its bytes.

    Raises:
        ImportError: If the `sentencepiece` library is not installed.
        ValueError: If the training fails; usually the vocabulary is too large or too small for
            the texts.
    """
    try:
        import sentencepiece
    except ModuleNotFoundError as error:
        purpose = "Training a SentencePiece tokenizer"
        raise missing_package_error(purpose, "sentencepiece", "export") from error
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(texts),
            model_writer=model,
            model_type=model_type,
            vocab_size=vocabulary_size,
            hard_vocab_limit=model_type != "unigram",
            character_coverage=character_coverage,
            normalization_rule_name="identity",  # the text arrives in NFC
            user_defined_symbols=list(symbols),
            pad_id=0,
            unk_id=UNKNOWN_ID,
            bos_id=2,
            eos_id=3,
            unk_surface=UNKNOWN_TEXT,
            byte_fallback=False,
            shuffle_input_sentence=False,
            num_threads=1,  # sums of floats depend on the number of threads
            max_sentence_length=1 << 20,
            minloglevel=2,
        )
    except (RuntimeError, OSError) as error:
        reason = str(error).rstrip().splitlines()[-1]
        raise ValueError(
            "SentencePiece could not train. Change `vocabulary_size`, or pass more text. "
            f"Received: vocabulary_size={vocabulary_size}, model_type={model_type!r}; it reports: "
            f"{reason}"
        ) from error
    return model.getvalue()


def _summarize_model(model):
    return f"{len(model)} bytes" if isinstance(model, bytes) else f"model={type(model).__name__}"

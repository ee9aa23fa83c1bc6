"""SentencePiece subwords: the library trains the model, TensorFlow Text runs it in the graph."""

import io

import tensorflow as tf

from keras_attention.export import files
from keras_attention.export.text_ops import sentencepiece_ops, tensorflow_text
from keras_attention.export.tokenizers.base import (
    SPECIAL_TOKENS,
    UNKNOWN_ID,
    UNKNOWN_TEXT,
    Tokenizer,
    squeeze_whitespace,
)
from keras_attention.extras import missing_package

WORD_MARK = "\u2581"  # SentencePiece's sign for the space before a word


class _LastingModel(sentencepiece_ops._SentencepieceModelResource):
    """TensorFlow Text's model resource under a name of its own, so that it lasts.

    Without a name the resource belongs to a cached eager kernel, and `tf.random.set_seed`,
    which empties that cache, takes it from every tokenizer alive (TensorFlow Text 2.21).
    """

    def _create_resource(self):
        name = f"sentencepiece_{files.sha256(self._model)}"
        ops = sentencepiece_ops.gen_sentencepiece_tokenizer
        return ops.sentencepiece_op(model=self._model, shared_name=name)


def _tensorflow_text_tokenizer(model):
    tokenizer = tensorflow_text.SentencepieceTokenizer(model, out_type=tf.int32)
    tokenizer._model_resource = _LastingModel(model, name=None)
    return tokenizer


class SentencePieceTokenizer(Tokenizer):
    """Splits NFC text into the subwords of a SentencePiece model.

    White space is squeezed, as SentencePiece does with spaces, and U+2581, its sign for a
    space, is white space too; decoding gives the squeezed text back. The exact tokenizer of
    TensorFlow Text is used; its "fast" one returns other ids for BPE models.

    Args:
        model: The bytes of an `spm.model`, trained with padding 0, unknown 1, start 2 and
            end 3 (`train("sentencepiece", ...)` does so).
        lowercase: Whether texts are lower-cased first.
        symbols: The user-defined symbols the model was trained with, for `tokenizer.json`.

    Raises:
        ValueError: If `model` is not a SentencePiece model, or has other special ids.
    """

    kind = "sentencepiece"
    file_name = "spm.model"

    def __init__(self, model: bytes, lowercase: bool = False, symbols=()):
        with tf.init_scope():
            try:
                tokenizer = _tensorflow_text_tokenizer(model)
                size = int(tokenizer.vocab_size())
                special = tokenizer.id_to_string(tf.range(len(SPECIAL_TOKENS))).numpy().tolist()
            except (tf.errors.OpError, TypeError, ValueError) as error:
                raise ValueError(
                    "SentencePieceTokenizer expects `model` to be the bytes of a SentencePiece "
                    f"model. Received: {_summary(model)}"
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

    def normalize(self, texts):
        texts = tf.strings.regex_replace(super().normalize(texts), WORD_MARK, " ")
        return squeeze_whitespace(texts)

    def _split_to_ids(self, texts):
        return self._subwords.tokenize(texts)

    def _join(self, ids):
        return self._subwords.detokenize(ids)

    def _pieces(self, ids):
        pieces = self._subwords.id_to_string(tf.reshape(ids, [-1]))
        return tf.reshape(pieces, tf.shape(ids))

    def _content(self) -> bytes:
        return self._model


def train_sentencepiece(
    texts, *, vocabulary_size, symbols, model_type, character_coverage
) -> bytes:
    """Returns the bytes of a model trained on normalized `texts` (strings), deterministically.

    Raises:
        ImportError: If the `sentencepiece` library is not installed.
        ValueError: If it cannot train, with its reason: the vocabulary too large or too
            small for the texts, as a rule.
    """
    try:
        import sentencepiece
    except ModuleNotFoundError as error:
        purpose = "Training a SentencePiece tokenizer"
        raise missing_package(purpose, "sentencepiece", "examples") from error
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
            "SentencePiece could not train. Change `vocabulary_size`, or give it more text. "
            f"Received: vocabulary_size={vocabulary_size}, model_type={model_type!r}; it says: "
            f"{reason}"
        ) from error
    return model.getvalue()


def _summary(model):
    return f"{len(model)} bytes" if isinstance(model, bytes) else f"model={type(model).__name__}"

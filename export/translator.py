"""A trained translator as one SavedModel version: text in, ranked text, scores, alignments out."""

import os
import pathlib

import keras
import tensorflow as tf

from keras_attention import checks
from keras_attention.decoding import CoveragePenalty, GNMTLengthPenalty
from keras_attention.export import files, signatures, versions
from keras_attention.export.contract import check_translator, check_vocabularies
from keras_attention.export.tokenizers import Tokenizer
from keras_attention.export.validate import validate_export

OWNER = "export_translator"


class ServedTranslator(tf.Module):
    """What a SavedModel of a translator holds: variables, tokenizers and its signatures.

    Args:
        functions: A `TranslatorFunctions`.
        variables: The model's `tf.Variable`s, raw: a Keras variable or a Keras model as an
            attribute would be stored beside them once more.
        source: Tokenizer of the source side.
        target: Tokenizer of the target side.
    """

    def __init__(self, functions, variables, source, target):
        super().__init__(name="translator")
        self.parameters = variables
        self.source_tokenizer = source
        self.target_tokenizer = target
        text, ids = (signatures.TEXT,), (signatures.IDS, signatures.LENGTH)
        self.serving_default = signatures.traced(functions.serving_default, *text)
        self.translate_with_alignment = signatures.traced(functions.translate_with_alignment, *text)
        self.ids = signatures.traced(functions.ids, *ids)
        self.greedy = signatures.traced(functions.greedy, *text)
        self.score = signatures.traced(functions.score, *text, signatures.TARGET)

    def signatures(self) -> dict:
        """The functions under the names a client asks for."""
        # As they are: asked for their concrete functions, they would be traced once more on saving.
        names = ("serving_default", "translate_with_alignment", "ids", "greedy", "score")
        return {name: getattr(self, name) for name in names}


def export_translator(
    model: keras.Model,
    directory: str | os.PathLike,
    *,
    source: Tokenizer,
    target: Tokenizer,
    version: int | None = None,
    beam_width: int = 4,
    max_length: int = 128,
    max_source_length: int | None = 512,
    length_penalty=None,
    coverage_penalty=None,
    min_length: int = 0,
) -> pathlib.Path:
    """Writes a translator as a SavedModel version that a stock TensorFlow model server loads.

    Tokenizers, encoder, decoder and beam search are one graph of TensorFlow and TensorFlow
    Text ops; neither this library nor Keras is needed to answer. The version is written
    beside its name and renamed, so a server never sees a part of it.

    Signatures, with B the batch, N the beam width, S and T the longest source and output
    of the batch in tokens (end marks included); all float32, int32 or string:

        serving_default           text (B,)
            -> text (B, N), score (B, N)
        translate_with_alignment  text (B,)
            -> text (B, N), score (B, N), tokens (B, N, T), length (B, N),
               alignment (B, N, T, S), source_tokens (B, S), source_length (B,)
        ids                       ids (B, S), length (B,)
            -> ids (B, N, T), length (B, N), score (B, N)
        greedy                    text (B,)
            -> text (B,), log_prob (B,), length (B,)
        score                     text (B,), target (B,)
            -> log_prob (B,), token_log_prob (B, T), length (B,)

    `score` is the log-probability after the penalties, best first; `log_prob` is without
    them. A `length` counts the end mark; where fewer than N outputs exist, the rest have
    the text `""`, score -1e9 and length -1. Ids end with 3 and are padded with 0, tokens
    with `""`. `ids` takes what the source tokenizer's `encode` gives: the graph adds the
    end mark, reads no id past `length`, and takes special ids and ids outside the
    vocabulary for unknown. A target of more than `max_length` tokens is scored up to there,
    without an end mark.

    Args:
        model: A functional model over `source` and `target` ids with the children `encoder`
            (ids to `memory` and `initial_state`) and `decoder` (prepare, start, step).
        directory: Base directory of the model; the version is a folder in it.
        source: Tokenizer of the source side.
        target: Tokenizer of the target side.
        version: Positive int; None for the one after the highest that is there.
        beam_width: Number of hypotheses kept and returned.
        max_length: Longest output in tokens, the end mark counted.
        max_source_length: Longest source in tokens, the end mark not counted; the rest of
            a longer one is cut off. None for no limit, which lets one request take all memory.
        length_penalty: None, the alpha of a `GNMTLengthPenalty`, or a penalty object.
        coverage_penalty: None, the beta of a `CoveragePenalty`, or a penalty object.
        min_length: Shortest output in tokens, the end mark counted.

    Returns:
        The path of the version, `<directory>/<version>`.

    Raises:
        FileExistsError: If the version exists.
        ValueError: If an argument is out of range, the model is not such a translator, its
            vocabulary is smaller than a tokenizer's, or `validate_export` finds something.

    Reference: what a server asks of an export, https://www.tensorflow.org/tfx/serving.
    """
    check_translator(OWNER, model)
    check_vocabularies(model, source, target)
    checks.positive_int(OWNER, "beam_width", beam_width)
    checks.positive_int(OWNER, "max_length", max_length)
    checks.int_at_least(OWNER, "min_length", min_length, 0)
    if min_length > max_length:
        raise ValueError(
            f"{OWNER} expects `min_length` to be at most `max_length`. "
            f"Received: min_length={min_length}, max_length={max_length}"
        )
    if max_source_length is not None:
        checks.positive_int(OWNER, "max_source_length", max_source_length)
    if version is not None:
        checks.positive_int(OWNER, "version", version)
    if isinstance(length_penalty, (int, float)):
        length_penalty = GNMTLengthPenalty(length_penalty)
    if isinstance(coverage_penalty, (int, float)):
        coverage_penalty = CoveragePenalty(coverage_penalty)
    functions = signatures.TranslatorFunctions(
        model,
        source,
        target,
        max_source_length,
        max_length,
        search_options={
            "beam_width": beam_width,
            "length_penalty": length_penalty,
            "coverage_penalty": coverage_penalty,
            "min_length": min_length,
        },
        greedy_options={"min_length": min_length} if min_length else {},
    )
    variables = [variable.value for variable in model.variables]
    served = ServedTranslator(functions, variables, source, target)
    path = versions.new_version(directory, version)
    with files.new_directory(path) as beside:
        tf.saved_model.save(served, str(beside), signatures=served.signatures())
        findings = validate_export(beside)
        if findings:
            raise ValueError(
                f"{OWNER} expects a model that a stock server can run, without Python or XLA in "
                f"its layers. Received: {'; '.join(findings)}"
            )
    return path

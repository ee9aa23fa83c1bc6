"""Exports a translator as a SavedModel version: text in; n-best text, scores, alignments out."""

import dataclasses
import os
import pathlib
from collections.abc import Mapping, Sequence

import keras

from keras_attention import validation
from keras_attention.export import _model_card, _signature_descriptions
from keras_attention.export._search_memory import check_search_ram
from keras_attention.export._search_options import resolve_search_options
from keras_attention.export._signatures import TranslatorSignatures
from keras_attention.export._text_types import JSONValue
from keras_attention.export._translator_requests import make_translator_requests
from keras_attention.export._version_writer import (
    ServedModule,
    VersionContents,
    resolve_model_name,
    write_version,
)
from keras_attention.export.compilation import XLABuckets
from keras_attention.export.length_limits import DEFAULT_MAX_LENGTH, count_learned_positions
from keras_attention.export.tokenizers import Tokenizer
from keras_attention.search.penalties import CoveragePenaltyFunction, LengthPenalty

OWNER = "export_translator"


def export_translator(
    model: keras.Model,
    directory: str | os.PathLike[str],
    *,
    source: Tokenizer,
    target: Tokenizer,
    version: int | None = None,
    name: str | None = None,
    beam_width: int = 4,
    max_length: int = DEFAULT_MAX_LENGTH,
    max_source_length: int | str | None = "auto",
    length_penalty: LengthPenalty | None = None,
    coverage_penalty: CoveragePenaltyFunction | None = None,
    min_length: int = 0,
    suppress_ids: Sequence[int] = (),
    no_repeat_ngram_size: int | None = None,
    xla: XLABuckets | None = None,
    run: Mapping[str, JSONValue] | None = None,
) -> pathlib.Path:
    """Writes a translator as a SavedModel version that an unmodified TensorFlow Serving loads.

    Tokenizers, encoder, decoder and beam search become one graph of TensorFlow and TensorFlow
    Text ops. A server needs neither this library nor Keras. The function writes the version
    into a temporary folder and renames it, so a server never loads an incomplete version.

    The signatures use float32, int32 and string tensors. B is the batch size and N the beam
    width. S and T are the longest source and output of the batch in tokens, EOS included:

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
        search                    text (B,), length_penalty (B,), max_length (B,)
            -> text (B, N), score (B, N), length (B, N)
        sample                    text (B,), seed (B,), temperature (B,)
            -> text (B,), log_prob (B,), length (B,)

    `score` is the log-probability after the penalties, best first; `log_prob` is the
    log-probability without penalties. A `length` includes EOS. If fewer than N outputs exist,
    padding hypotheses follow them: text `""`, score -1e9, length -1. Ids end with 3 (EOS) and
    are padded with 0, tokens with `""`.

    * `ids` takes the ids that the source tokenizer's `encode` returns. The graph appends EOS,
      ignores ids beyond `length`, and replaces special and out-of-vocabulary ids by 1, unknown.
    * `score` truncates a target to `max_length` tokens; a truncated target is scored without EOS.
    * `search` takes a GNMT alpha and a maximum length for each example. It clips them to [-5, 5]
      and to [1, `max_length`].
    * `sample` takes a seed for each example. Temperature 0 takes the most probable token; higher
      temperatures are clipped to 100.

    The folder `assets.extra/` of the version holds warm-up requests, a model card and example
    configurations of the server. The function runs the warm-up requests once before it renames
    the version.

    The model is functional, from ids `source` and `target` to the decoder's logits. Its layer
    `encoder` returns a dict of `memory`, `(batch, source, dim)`, and, if the decoder starts
    from one, `initial_state`. A single tensor is taken as the memory. Its layer `decoder` has
    `prepare`, `start` and `step`, as every decoder of this library. `Translator` builds such a
    model; `docs/export.md` has a complete example.

    Args:
        model: A translator, see above.
        directory: Base directory of the model. The version becomes a folder in it.
        source: Tokenizer of the source side.
        target: Tokenizer of the target side.
        version: Positive int; None for the highest existing version plus 1.
        name: Name of the model in a server; None for the name of `directory`.
        beam_width: Number of hypotheses that the search keeps and returns.
        max_length: Maximum output length in tokens, EOS included; at most the number of
            positions that the decoder has learned.
        max_source_length: Maximum source length in tokens, EOS not included; longer sources are
            truncated. `"auto"` is 512, or the number of positions that the encoder has learned
            minus 1 for EOS, if that is less; the model card reports it. None sets no limit: then
            one request can exhaust the memory.
        length_penalty: None, the alpha of a `GNMTLengthPenalty`, or a penalty object.
        coverage_penalty: None, the beta of a `CoveragePenalty`, or a penalty object.
        min_length: Minimum output length in tokens, EOS included.
        suppress_ids: Target ids that the searches never produce, such as 1, unknown.
        no_repeat_ngram_size: None, or a positive int n: no n-gram occurs twice in an output.
        xla: None, or an `XLABuckets`: then XLA compiles the searches of `serving_default`,
            `translate_with_alignment`, `ids` and `greedy`. They run several times as fast, but a
            server needs the flag `--xla_cpu_compilation_enabled`.
        run: Settings of the training run, for the model card; paths are shortened to file names.

    Returns:
        The path of the version, `<directory>/<version>`.

    Raises:
        FileExistsError: If the version exists.
        ValueError: If an argument is out of range, the model is not such a translator, its
            vocabulary is smaller than a tokenizer's, the search would take more than 32 GiB, or
            `validate_export` reports a problem.

    Reference: TensorFlow Serving, https://www.tensorflow.org/tfx/serving.
    """
    searches = resolve_search_options(
        OWNER,
        model,
        source,
        target,
        beam_width=beam_width,
        max_length=max_length,
        max_source_length=max_source_length,
        length_penalty=length_penalty,
        coverage_penalty=coverage_penalty,
        min_length=min_length,
        suppress_ids=suppress_ids,
        no_repeat_ngram_size=no_repeat_ngram_size,
    )
    if version is not None:
        validation.check_positive_int(OWNER, "version", version)
    if xla is not None and not isinstance(xla, XLABuckets):
        raise ValueError(
            f"{OWNER} expects `xla` to be None or an `XLABuckets`, such as "
            f"XLABuckets(batch_sizes=(1, 8), source_lengths=(16, 64)). Received: xla={xla!r}"
        )
    name = resolve_model_name(OWNER, name, directory)
    translator_signatures = TranslatorSignatures(model, source, target, searches, xla)
    check_search_ram(translator_signatures.pipeline, beam_width, no_repeat_ngram_size, xla)
    functions = translator_signatures.signatures()
    tokenizers = {"source": source, "target": target}
    variables = [variable.value for variable in model.variables]
    options = searches.list_options() | {
        f"learned_{side}_positions": n for side, n in count_learned_positions(model).items()
    }
    card = _model_card.draft_card(
        name,
        "translator",
        model,
        tokenizers,
        _signature_descriptions.TRANSLATOR_SIGNATURES,
        options=options,
        xla=dataclasses.asdict(xla) if xla else None,
        run=run,
    )
    contents = VersionContents(
        ServedModule("translator", variables, tokenizers, functions),
        functions,
        card,
        make_translator_requests(translator_signatures.pipeline, xla),
        batch_sizes=xla.batch_sizes if xla else (1, 2, 4, 8, 16, 32),
        pad_inputs=True,
    )
    return write_version(OWNER, contents, directory, version)

"""A trained translator as one SavedModel version: text in, ranked text, scores, alignments out."""

import dataclasses
import os
import pathlib

import keras

from keras_attention import checks
from keras_attention.export import meanings, model_card
from keras_attention.export.compilation import Compilation
from keras_attention.export.limits import OUTPUT_LIMIT, learned_positions
from keras_attention.export.search_options import checked_options
from keras_attention.export.signatures import TranslatorFunctions
from keras_attention.export.tokenizers import Tokenizer
from keras_attention.export.translator_requests import translator_requests
from keras_attention.export.writing import Served, Version, checked_name, write_version

OWNER = "export_translator"


def export_translator(
    model: keras.Model,
    directory: str | os.PathLike,
    *,
    source: Tokenizer,
    target: Tokenizer,
    version: int | None = None,
    name: str | None = None,
    beam_width: int = 4,
    max_length: int = OUTPUT_LIMIT,
    max_source_length: int | str | None = "auto",
    length_penalty=None,
    coverage_penalty=None,
    min_length: int = 0,
    banned_ids=(),
    no_repeat_ngram: int | None = None,
    xla: Compilation | None = None,
    run: dict | None = None,
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
        search                    text (B,), length_penalty (B,), max_length (B,)
            -> text (B, N), score (B, N), length (B, N)
        sample                    text (B,), seed (B,), temperature (B,)
            -> text (B,), log_prob (B,), length (B,)

    `score` is the log-probability after the penalties, best first; `log_prob` is without
    them. A `length` counts the end mark; where fewer than N outputs exist, the rest have
    the text `""`, score -1e9 and length -1. Ids end with 3 and are padded with 0, tokens
    with `""`. `ids` takes what the source tokenizer's `encode` gives: the graph adds the
    end mark, reads no id past `length`, and takes special ids and ids outside the
    vocabulary for unknown. A target of more than `max_length` tokens is scored up to there,
    without an end mark. `search` ranks a row with its own GNMT alpha, clipped to -5..5, and
    limits it to its own length, clipped to 1 and `max_length`. `sample` draws by a row's own
    seed; a temperature of 0 takes the likeliest token, larger ones are clipped to 100.

    In `assets.extra/` of the version are requests for the server to warm up with, a model card
    and example configurations of the server. Before the version appears, those requests are
    answered once.

    The model is functional, over ids `source` and `target`, and ends in the decoder's logits. Its
    layer `encoder` returns a dict of `memory`, `(batch, source, dim)`, and, if the decoder starts
    from one, `initial_state`; a single tensor is the memory alone. Its layer `decoder` has
    `prepare`, `start` and `step`, as every decoder of this library. `docs/export.md` has a
    complete example; `Translator` puts such a model together.

    Args:
        model: A translator, see above.
        directory: Base directory of the model; the version is a folder in it.
        source: Tokenizer of the source side.
        target: Tokenizer of the target side.
        version: Positive int; None for the one after the highest that is there.
        name: Name of the model in a server; None for the name of `directory`.
        beam_width: Number of hypotheses kept and returned.
        max_length: Longest output in tokens, the end mark counted; no more than the positions
            that the decoder has learned.
        max_source_length: Longest source in tokens, the end mark not counted; the rest of
            a longer one is cut off. `"auto"` for 512, or for what the encoder has learned
            positions for if that is less (the end mark takes one of them; the model card says
            it). None for no limit, which lets one request take all memory.
        length_penalty: None, the alpha of a `GNMTLengthPenalty`, or a penalty object.
        coverage_penalty: None, the beta of a `CoveragePenalty`, or a penalty object.
        min_length: Shortest output in tokens, the end mark counted.
        banned_ids: Target ids that are never produced, such as 1, the unknown one.
        no_repeat_ngram: None, or the positive int n: no n tokens stand in an output twice.
        xla: None, or a `Compilation`: then `serving_default`, `translate_with_alignment`, `ids`
            and `greedy` search with compiled programs, which are several times as fast and
            which a server runs only if started with `--xla_cpu_compilation_enabled`.
        run: Settings of the training run, for the model card; paths are cut to file names.

    Returns:
        The path of the version, `<directory>/<version>`.

    Raises:
        FileExistsError: If the version exists.
        ValueError: If an argument is out of range, the model is not such a translator, its
            vocabulary is smaller than a tokenizer's, the search would take more than 32 GiB, or
            `validate_export` finds something.

    Reference: what a server asks of an export, https://www.tensorflow.org/tfx/serving.
    """
    searches = checked_options(
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
        banned_ids=banned_ids,
        no_repeat_ngram=no_repeat_ngram,
    )
    if version is not None:
        checks.positive_int(OWNER, "version", version)
    if xla is not None and not isinstance(xla, Compilation):
        raise ValueError(
            f"{OWNER} expects `xla` to be None or a `Compilation`, such as "
            f"Compilation(batch_sizes=(1, 8), source_lengths=(16, 64)). Received: xla={xla!r}"
        )
    name = checked_name(OWNER, name, directory)
    made = TranslatorFunctions(
        model,
        source,
        target,
        searches.max_source_length,
        max_length,
        searches.beam_search,
        searches.constraints,
        xla,
    )
    functions = made.signatures()
    tokenizers = {"source": source, "target": target}
    variables = [variable.value for variable in model.variables]
    options = {"max_length": max_length, "max_source_length": searches.max_source_length}
    options |= searches.beam_search
    options |= {f"learned_{side}_positions": n for side, n in learned_positions(model).items()}
    card = model_card.beginning(
        name,
        "translator",
        model,
        tokenizers,
        meanings.TRANSLATOR,
        options=options,
        xla=dataclasses.asdict(xla) if xla else None,
        run=run,
    )
    contents = Version(
        Served("translator", variables, tokenizers, functions),
        functions,
        card,
        translator_requests(made.translating, xla),
        batch_sizes=xla.batch_sizes if xla else (1, 2, 4, 8, 16, 32),
        pads=True,
    )
    return write_version(OWNER, contents, directory, version)

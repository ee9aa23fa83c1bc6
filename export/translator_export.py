"""Exports a translator as a SavedModel version: text in; n-best text, scores, alignments out."""

import dataclasses
import os
import pathlib
from collections.abc import Mapping

import keras

from keras_attention import validation
from keras_attention.export import _model_card, _signature_descriptions
from keras_attention.export._search_memory import check_search_ram
from keras_attention.export._signatures import TranslatorSignatures
from keras_attention.export._streamed_signatures import describe_streamed_signatures
from keras_attention.export._translator_warmup_requests import (
    make_streamed_requests,
    make_translator_requests,
)
from keras_attention.export._type_aliases import JSONValue
from keras_attention.export._version_writer import (
    ServedModule,
    VersionContents,
    resolve_model_name,
    write_version,
)
from keras_attention.export.compilation import XLABuckets
from keras_attention.export.length_limits import count_learned_positions
from keras_attention.export.search_options import SearchOptions, resolve_search_options
from keras_attention.export.tokenizers import Tokenizer

OWNER = "export_translator"
# What the search options hold, the tokenizers determine, the signatures show, or an export cannot
# have.
NOT_IN_CARD = {
    *("constraints", "options", "special_ids", "reorder_cache"),
    *("max_lengths", "prefix", "prefix_lengths", "phrases", "memory_mask", "return_tree"),
}


def export_translator(
    model: keras.Model,
    directory: str | os.PathLike[str],
    *,
    source: Tokenizer,
    target: Tokenizer,
    version: int | None = None,
    name: str | None = None,
    search: SearchOptions = SearchOptions(),
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

    With `BeamOptions(return_tree=True)` there is one more, for `plotting.explore_beam_search`:

        beam_tree                 text (B,)
            -> tokens (B, T, 2 N), parent (B, T, 2 N), log_prob (B, T, 2 N),
               state (B, T, 2 N), length (B,)

    With `SearchOptions(phrases=True)` there is

        translate_with_phrases    text (B,), phrases (B,)
            -> text (B, N), score (B, N), length (B, N)

    If the encoder has a layer `SplitSources`, there is one for a text of each of its sources:

        translate_sources         text (B,), text_2 (B,), ...
            -> text (B, N), score (B, N)

    With `replace_unknown` every `text` but not `tokens` and `ids` has source words in place of
    unknown ones. A `PointerGeneratorDecoder` or `CopyNetDecoder` copies words; in `ids` the k-th
    unknown word of a source, from 0, is the vocabulary size plus k. `score` is the log-probability
    after the penalties, with a language model if there is one, best first; `log_prob` is that of
    the decoder alone. A `length` includes EOS. If fewer than N outputs exist, padding hypotheses
    follow them: text `""`, score -1e9, length -1. Ids end with 3 (EOS) and are padded with 0,
    tokens with `""`.

    * `ids` takes the ids that the source tokenizer's `encode` returns. The graph appends EOS,
      ignores ids beyond `length`, and replaces special and out-of-vocabulary ids by 1, unknown.
    * `score` truncates a target to `max_length` tokens; a truncated target is scored without EOS.
    * `search` takes a GNMT alpha and a maximum length for each example. It clips them to [-5, 5]
      and to [1, `max_length`].
    * `sample` takes a seed for each example. Temperature 0 takes the most probable token; higher
      temperatures are clipped to 100.
    * `translate_with_phrases` takes the phrases of each text, one per line, that all its outputs
      contain: at most 8, of at most 16 tokens each. A phrase that no output can contain, such as
      one with an unknown word, fails the request with an error that names it.
    * `translate_sources` joins its texts by the separator, as the other signatures take them, and
      answers as `serving_default`. Separators inside of a text are removed.
    * `beam_tree` returns the hypotheses of each step of the search of `serving_default`: the last
      token of each, the place that its parent has in the step before, its log-probability so far,
      and its state: 0 padding, 1 alive, 2 ended. `length` is the number of steps.

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
        search: A `SearchOptions`: the beam width, the maximum lengths and the other options of
            all searches. The model card reports them.
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
    search = resolve_search_options(OWNER, search, model, source, target)
    if isinstance(search.constraints.logits_processor, keras.layers.Layer):
        raise ValueError(
            f"{OWNER} saves the weights of the model alone, so it expects `logits_processor` to be "
            f"a function. Received: logits_processor={search.constraints.logits_processor!r}"
        )
    if version is not None:
        validation.check_positive_int(OWNER, "version", version)
    if xla is not None and not isinstance(xla, XLABuckets):
        raise ValueError(
            f"{OWNER} expects `xla` to be None or an `XLABuckets`, such as "
            f"XLABuckets(batch_sizes=(1, 8), source_lengths=(16, 64)). Received: xla={xla!r}"
        )
    name = resolve_model_name(OWNER, name, directory)
    translator_signatures = TranslatorSignatures(model, source, target, search, xla)
    check_search_ram(translator_signatures.pipeline, search, xla)
    functions = translator_signatures.signatures()
    descriptions = _signature_descriptions.TRANSLATOR_SIGNATURES
    if "translate_sources" in functions:
        joiner = translator_signatures.pipeline.source_joiner
        descriptions = descriptions | _signature_descriptions.describe_translate_sources(joiner)
    tokenizers = {"source": source, "target": target}
    language_model = getattr(search.fusion, "language_model", None)
    own_ids = set(map(id, model.variables))  # the language model may share some
    more_variables = [
        variable
        for variable in getattr(language_model, "variables", ())
        if id(variable) not in own_ids
    ]
    variables = [variable.value for variable in (*model.variables, *more_variables)]
    options = _list_options(search) | {
        f"learned_{side}_positions": n for side, n in count_learned_positions(model).items()
    }
    card = _model_card.draft_card(
        name,
        "translator",
        model,
        tokenizers,
        descriptions | describe_streamed_signatures(functions, descriptions),
        options=options,
        xla=dataclasses.asdict(xla) if xla else None,
        run=run,
        more_variables=more_variables,
    )
    module = ServedModule("translator", variables, tokenizers, functions)
    module.unknown_words = translator_signatures.unknown_words  # its table is stored with it
    contents = VersionContents(
        module,
        functions,
        card,
        make_translator_requests(translator_signatures.pipeline, functions, xla)
        + make_streamed_requests(translator_signatures.pipeline, functions),
        batch_sizes=xla.batch_sizes if xla else (1, 2, 4, 8, 16, 32),
        pad_inputs=True,
    )
    return write_version(OWNER, contents, directory, version)


def _list_options(search):
    """Returns the fields of `search`, its constraints and its beam options, and the end ids."""
    fields = {}
    for part in (search, search.constraints, search.options):
        fields |= {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
    if search.fusion is not None:
        language_model = type(search.fusion.language_model).__name__
        fields["fusion"] = {"language_model": language_model, "weight": search.fusion.weight}
    if not isinstance(search.replace_unknown, bool):
        fields["replace_unknown"] = f"a dictionary of {len(search.replace_unknown)} words"
    fields["end_id"] = search.constraints.special_ids.end_id
    processor = search.constraints.logits_processor
    if processor is not None:
        fields["logits_processor"] = getattr(processor, "__name__", type(processor).__name__)
    return {name: value for name, value in fields.items() if name not in NOT_IN_CARD}

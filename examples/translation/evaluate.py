"""`python -m examples evaluate`: a run's numbers on data it has not seen."""

import json
import time

from examples.commands import arguments as shared
from examples.data.batches import Batches
from examples.data.parallel import Corpus
from examples.training.fitting import evaluate
from examples.translation import corpora, error_rates, positions, scoring
from examples.translation.arguments import add_files, files_of
from examples.translation.lengths import pair_limits, tell_cut_sources
from examples.translation.opened import (
    has_attention,
    learned_from_files,
    open_run,
    trained_format,
    translator,
)
from examples.translation.own_words import own_words_perplexity
from examples.translation.train import make_metrics
from keras_attention import TokenCrossentropy
from keras_attention.decoders import get_decoder_start_id
from keras_attention.export.search_arguments import add_search_arguments, make_search_options

SUMMARY = "measure a run on unseen dates, or on your own test files"
EPILOG = """\
examples:
  python -m examples evaluate runs/dates
  python -m examples evaluate runs/mine --source test.de --target test.en --output out.en
  python -m examples evaluate runs/g2p --pairs test.tsv.gz --format targets

what the numbers mean:
  perplexity, token accuracy   of the reference's tokens, each after the right ones before it
  perplexity own words         the same, after the likeliest tokens of the model itself
  exact match                  share of outputs that equal their reference, or one of them
  wer, per                     percent of words that equal no reference of theirs; edits to the
                               nearest reference in percent of its phonemes, summed over words
  bleu, chrf                   sacrebleu's, from 0 to 100; its signature says how
  position distance            from where local attention predicts to where the largest weight is
  position within one          share of tokens for which that is at most one position
  year attended                dates: share whose year is written looking at the written year
"""
BLEU_TOKENIZERS = ("none", "13a", "intl", "char", "zh")
MEASURES = ("bleu", "wer", "exact_match")


def add_arguments(parser) -> None:
    """Adds the options of `evaluate`."""
    shared.add_run(parser)
    hint = " (default: unseen dates, for a run on dates)"
    add_files(parser, "test", hint=hint, default_format="that of the training, or tsv")
    parser.add_argument(
        "--invalid-lines",
        choices=("refuse", "skip"),
        default="refuse",
        help="what to do with empty, overlong or undecodable lines of the files; skip measures "
        "without them, and --output has an empty line in the place of each (default: %(default)s)",
    )
    parser.add_argument(
        "--max-examples",
        type=shared.positive_int,
        metavar="N",
        help="take only the first N pairs (default: all)",
    )
    parser.add_argument(
        "--measure",
        choices=MEASURES,
        help="what is measured of the outputs, exact match in any case; wer has per with it and "
        "joins the lines of one source (default: wer from characters to words, exact_match for "
        "--format scan, else bleu)",
    )
    parser.add_argument(
        "--bleu-tokenize",
        choices=BLEU_TOKENIZERS,
        help="sacrebleu's tokenizer (default: none for a run on words, whose texts are "
        "tokenized; else 13a)",
    )
    parser.add_argument(
        "--aligned-by",
        metavar="RUN",
        help="for attention that predicts positions: the run, on the same tokens, whose "
        "alignment they are compared with (default: the run itself)",
    )
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="write the outputs, one for each line of the file, or for each source where its "
        "lines are joined",
    )
    parser.add_argument("--json", metavar="FILE", help="write the numbers")
    add_search_arguments(parser, add_max_source_length=False)


def run(arguments) -> None:
    """Prints perplexity, exact match and what is measured of such outputs."""
    opened = open_run(arguments.run)
    files = files_of(arguments, "test", default_form=trained_format(opened))
    if learned_from_files(opened) and not files:
        raise shared.UsageError(
            f"{arguments.run} was trained on your own data. Name test files: --source and "
            "--target, or --pairs."
        )
    _check_measures(arguments, files)
    make_search_options(arguments, opened)  # refused before the work
    paths = [shared.check_writable(path) for path in (arguments.output, arguments.json)]
    if files:
        corpus = files.read("test", arguments.invalid_lines)
    else:
        pairs = corpora.date_pairs("test", arguments.max_examples)
    other = _aligned_by(opened, arguments.aligned_by)
    began = time.monotonic()
    if files:
        measure = arguments.measure or _default_measure(opened, files.form)
        if arguments.bleu_tokenize and measure != "bleu":
            raise shared.UsageError(
                f"--bleu-tokenize is for BLEU, and {measure.replace('_', ' ')} is measured here. "
                "Leave it out, or add --measure bleu."
            )
        several = measure == "wer" or files.form == "targets"
        texts, references, lines = _rows(corpus, several, arguments.max_examples)
        names = [f"{corpus.name}:{line}" for line in lines]
        batches = _reference_batches(opened, other, _with_lines(corpus, texts, references, lines))
        tell_cut_sources(opened, texts, names)
        measured, outputs = _on_files(opened, arguments, measure, texts, references)
        if corpus.report.left_out:
            whole = arguments.max_examples is None or len(lines) < arguments.max_examples
            last = files.count_lines() if whole else lines[-1]
            outputs = _in_place(outputs, lines, corpus, last)
    else:
        texts, references = map(list, zip(*pairs, strict=True))
        batches = _reference_batches(opened, other, pairs)
        tell_cut_sources(opened, texts, [f"date {place}" for place in range(1, len(texts) + 1)])
        measured, outputs = _on_dates(opened, arguments, texts, references)
    numbers = {
        "pairs": len(texts),
        "beam": arguments.beam_width,
        **_of_references(opened, batches, other),
        **measured,
        "seconds": time.monotonic() - began,
    }
    _tell(numbers)
    for path, text in zip(
        paths,
        ("".join(f"{line}\n" for line in outputs), json.dumps(numbers, indent=2) + "\n"),
        strict=True,
    ):
        if path is not None:
            path.write_text(text, encoding="utf-8", newline="\n")


def _check_measures(arguments, files):
    """Raises if something was asked for that is not measured on dates."""
    for name in ("measure", "bleu_tokenize", "format"):
        if not files and getattr(arguments, name):
            raise shared.UsageError(
                f"--{name.replace('_', '-')} is for files, and this run is measured on dates. "
                "Leave it out, or name files with --pairs."
            )


def _default_measure(opened, form):
    if form == "scan":
        return "exact_match"
    kinds = (opened.source_tokenizer.kind, opened.target_tokenizer.kind)
    return "wer" if kinds == ("characters", "words") else "bleu"


def _rows(corpus, several, most):
    """Texts, the reference or references of each, and the (first) line of each."""
    if several:
        texts, references = scoring.grouped(corpus)
        first = {}
        for (source, _), line in zip(corpus, corpus.lines, strict=True):
            first.setdefault(source, line)
        lines = list(first.values())
    else:
        texts, references = map(list, zip(*corpus, strict=True))
        lines = corpus.lines
    return texts[:most], references[:most], lines[:most]


def _with_lines(corpus, texts, references, lines):
    """A pair for each reference, under the line of its text."""
    pairs = scoring.ungrouped(texts, references)
    counts = (1 if isinstance(one, str) else len(one) for one in references)
    lines = [line for line, count in zip(lines, counts, strict=True) for _ in range(count)]
    return Corpus(pairs, lines, corpus.name, corpus.report)


def _in_place(outputs, lines, corpus, last):
    """The outputs, with an empty one for each line up to `last` that was left out."""
    left_out = set(range(1, last + 1)).difference(corpus.lines)
    rows = [*zip(lines, outputs, strict=True), *((line, "") for line in left_out)]
    return [output for _, output in sorted(rows)]


def _on_files(opened, arguments, measure, texts, references):
    """Exact match and the measure asked for, and the outputs."""
    tokenizer = opened.target_tokenizer
    references = scoring.as_read(tokenizer, references)
    outputs = translator(opened, arguments).best(texts)
    numbers = {"exact_match": scoring.exact_match(outputs, references)}
    if measure == "wer":
        numbers["wer"] = error_rates.word_error_rate(outputs, references)
        numbers["per"] = error_rates.phoneme_error_rate(outputs, references)
    elif measure == "bleu":
        tokenize = arguments.bleu_tokenize or scoring.bleu_tokenizer(tokenizer.kind)
        numbers["bleu"], numbers["bleu_signature"] = scoring.corpus_bleu(
            outputs, references, tokenize, tokenizer.lowercase
        )
        numbers["chrf"] = scoring.corpus_chrf(outputs, references)
    return numbers, outputs


def _on_dates(opened, arguments, texts, references):
    """Exact match and where the year's digits look, and the outputs."""
    found = translator(opened, arguments).translate(texts)
    outputs = [one.texts[0] for one in found]
    numbers = {"exact_match": scoring.exact_match(outputs, references)}
    if has_attention(opened.model):
        share, count = scoring.years_attended(found, texts)
        numbers |= {"year_attended": share, "years_in_digits": count}
    return numbers, outputs


def _aligned_by(opened, directory):
    """The run whose alignment predicted positions are compared with; None if there are none."""
    if not positions.predicts_positions(opened.model):
        if directory is not None:
            raise shared.UsageError(
                f"--aligned-by is for attention that predicts positions, which that of "
                f"{opened.directory} does not. Leave it out."
            )
        return None
    other = opened if directory is None else open_run(directory)
    for side in ("source", "target"):
        files = [run.directory / f"{side}.tokenizer" / "tokenizer.json" for run in (opened, other)]
        if files[0].read_bytes() != files[1].read_bytes():
            raise ValueError(
                f"{files[0].parent} and {files[1].parent} are not the same: a run can only be "
                "aligned by one on the same tokens."
            )
    return other


def _reference_batches(opened, other, pairs):
    """Sources and references, without those that are longer than the learned positions."""
    sides = opened.source_tokenizer, opened.target_tokenizer
    limits = pair_limits(opened.model, *([] if other is None else [other.model]))
    first = get_decoder_start_id(opened.model.get_layer("decoder"))
    batches = Batches.from_pairs(pairs, *sides, max_shapes=3, decoder_start_id=first, **limits)
    if batches.report.left_out:
        print(f"references: {batches.report}")
    return batches


def _of_references(opened, batches, other):
    """What the model says to the references: perplexities, accuracy and predicted positions."""
    sides = opened.source_tokenizer, opened.target_tokenizer
    forced = evaluate(opened.model, batches.epoch(0), TokenCrossentropy(), make_metrics())
    numbers = {
        "perplexity": forced["perplexity"],
        "perplexity_own_words": own_words_perplexity(opened.model, *sides, batches),
        "token_accuracy": forced["accuracy"],
    }
    if other is not None:
        numbers |= positions.predicted_positions(opened.model, batches.evaluation(), other.model)
    return numbers


def _tell(numbers):
    for name, value in numbers.items():
        shown = f"{value:.4f}" if isinstance(value, float) else value
        print(f"{name.replace('_', ' '):<20} {shown}")

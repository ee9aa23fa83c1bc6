"""`python -m examples evaluate`: a run's numbers on data it has not seen."""

import json
import time

from examples.commands import arguments as shared
from examples.data.batches import Batches
from examples.training.evaluation import Evaluation
from examples.translation import corpora, scoring
from examples.translation.arguments import add_files, add_search, files_of
from examples.translation.opened import learned_from_files, open_run, translator

SUMMARY = "measure a run on unseen dates, or on your own test files"
EPILOG = """\
examples:
  python -m examples evaluate runs/dates
  python -m examples evaluate runs/mine --source test.de --target test.en --output out.en

what the numbers mean:
  perplexity, token accuracy   of the reference's tokens, each after the right ones before it
  exact match                  share of outputs that equal their reference
  bleu, chrf                   sacrebleu's, from 0 to 100; its signature says how
  year attended                dates: share whose year is written looking at the written year
"""
BLEU_TOKENIZERS = ("none", "13a", "intl", "char", "zh")


def add_arguments(parser) -> None:
    """Adds the options of `evaluate`."""
    shared.add_run(parser)
    add_files(parser, "test", hint=" (default: unseen dates, for a run on dates)")
    parser.add_argument(
        "--max-pairs",
        type=shared.positive_int,
        metavar="N",
        help="take only the first N pairs (default: all)",
    )
    parser.add_argument(
        "--bleu-tokenize",
        choices=BLEU_TOKENIZERS,
        help="sacrebleu's tokenizer (default: none for a run on words, whose texts are "
        "tokenized; else 13a)",
    )
    parser.add_argument("--output", metavar="FILE", help="write the outputs, one a line")
    parser.add_argument("--json", metavar="FILE", help="write the numbers")
    add_search(parser)


def run(arguments) -> None:
    """Prints perplexity, exact match, BLEU and, for dates, where the year's digits look."""
    files = files_of(arguments, "test")
    opened = open_run(arguments.run)
    if learned_from_files(opened) and not files:
        raise shared.UsageError(
            f"{arguments.run} was trained on your own data. Name test files: --source and "
            "--target, or --pairs."
        )
    paths = [shared.check_writable(path) for path in (arguments.output, arguments.json)]
    if files:
        pairs = files.read("test").pairs[: arguments.max_pairs]
    else:
        pairs = corpora.date_pairs("test", arguments.max_pairs)
    began = time.monotonic()
    numbers = {"pairs": len(pairs), "beam": arguments.beam, **_teacher_forced(opened, pairs)}
    measured, outputs = (_on_files if files else _on_dates)(opened, arguments, pairs)
    numbers = {**numbers, **measured, "seconds": time.monotonic() - began}
    _tell(numbers)
    for path, text in zip(
        paths,
        ("".join(f"{line}\n" for line in outputs), json.dumps(numbers, indent=2) + "\n"),
        strict=True,
    ):
        if path is not None:
            path.write_text(text, encoding="utf-8", newline="\n")


def _on_files(opened, arguments, pairs):
    """Exact match, BLEU and chrF, and the outputs."""
    texts, references = map(list, zip(*pairs, strict=True))
    tokenizer = opened.target_tokenizer
    references = scoring.as_read(tokenizer, references)
    outputs = translator(opened, arguments).best(texts)
    tokenize = arguments.bleu_tokenize or scoring.bleu_tokenizer(tokenizer.kind)
    bleu, signature = scoring.corpus_bleu(outputs, references, tokenize, tokenizer.lowercase)
    numbers = {
        "exact_match": scoring.exact_match(outputs, references),
        "bleu": bleu,
        "bleu_signature": signature,
        "chrf": scoring.corpus_chrf(outputs, references),
    }
    return numbers, outputs


def _on_dates(opened, arguments, pairs):
    """Exact match and where the year's digits look, and the outputs."""
    texts, references = map(list, zip(*pairs, strict=True))
    found = translator(opened, arguments).translate(texts)
    outputs = [one.texts[0] for one in found]
    share, count = scoring.years_attended(found, texts)
    numbers = {
        "exact_match": scoring.exact_match(outputs, references),
        "year_attended": share,
        "years_in_digits": count,
    }
    return numbers, outputs


def _teacher_forced(opened, pairs):
    """Perplexity and token accuracy with the reference words fed."""
    batches = Batches.from_pairs(
        pairs, opened.source_tokenizer, opened.target_tokenizer, max_shapes=3
    )
    if batches.report.left_out:
        print(f"teacher-forced: {batches.report}")
    result = Evaluation(opened.model, jit_compile=False)(batches)  # once: compiling takes longer
    return {
        "perplexity": result["perplexity"],
        "token_accuracy": result["accuracy"],
    }


def _tell(numbers):
    for name, value in numbers.items():
        shown = f"{value:.4f}" if isinstance(value, float) else value
        print(f"{name.replace('_', ' '):<18} {shown}")

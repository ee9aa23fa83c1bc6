"""`python -m examples evaluate`: a run's numbers on data it has not seen."""

import json
import pathlib
import time

from examples import scoring
from examples.commands import arguments as shared
from examples.commands.opened import open_run, translator
from examples.data import dates
from examples.data.batches import Batches
from examples.training.evaluation import Evaluation

SUMMARY = "measure a run on unseen dates, or on your own test files"


def add_arguments(parser) -> None:
    """Adds the options of `evaluate`."""
    shared.add_run(parser)
    shared.add_files(parser, "test")
    parser.add_argument("--output", metavar="FILE", help="write the outputs, one a line")
    parser.add_argument("--json", metavar="FILE", help="write the numbers")
    shared.add_search(parser)


def run(arguments) -> None:
    """Prints perplexity, exact match, BLEU and, for dates, where the year's digits look."""
    opened = open_run(arguments.run)
    files = shared.files_of(arguments)
    pairs = files.read("test").pairs if files else dates.date_pairs("test")
    texts, references = map(list, zip(*pairs, strict=True))
    numbers = {"pairs": len(pairs), "beam": arguments.beam}
    began = time.monotonic()
    numbers.update(_teacher_forced(opened, pairs))
    translate = translator(opened, arguments)
    if files:
        outputs = translate.best(texts)
        bleu, signature = scoring.corpus_bleu(outputs, _as_tokenized(opened, references))
        numbers.update(bleu=bleu, bleu_signature=signature)
    else:
        found = translate.translate(texts)
        outputs = [one.texts[0] for one in found]
        share, count = scoring.years_attended(found, texts)
        numbers.update(year_attended=share, years_in_digits=count)
    numbers["exact_match"] = scoring.exact_match(outputs, _as_tokenized(opened, references))
    numbers["seconds"] = time.monotonic() - began
    _tell(numbers)
    if arguments.output:
        pathlib.Path(arguments.output).write_text("".join(f"{line}\n" for line in outputs))
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(numbers, indent=2) + "\n")


def _as_tokenized(opened, references):
    """References lower-cased where the run lower-cases; unknown words stay what they are."""
    lowercase = opened.settings.get("training", {}).get("lowercase")
    return [text.lower() for text in references] if lowercase else references


def _teacher_forced(opened, pairs):
    """Perplexity and token accuracy with the reference words fed."""
    batches = Batches.from_pairs(
        pairs, opened.source_tokenizer, opened.target_tokenizer, max_shapes=3
    )
    if batches.report.left_out:
        print(f"teacher-forced: {batches.report}")
    result = Evaluation(opened.model)(batches)
    return {
        "perplexity": result["perplexity"],
        "token_accuracy": result["accuracy"],
    }


def _tell(numbers):
    for name, value in numbers.items():
        shown = f"{value:.4f}" if isinstance(value, float) else value
        print(f"{name.replace('_', ' '):<18} {shown}")

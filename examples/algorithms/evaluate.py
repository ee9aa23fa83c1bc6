"""`python -m examples evaluate` for the tasks of the Neural Turing Machine."""

import json
import time

import numpy as np

from examples.algorithms.opened import open_run
from examples.algorithms.options import add_sizes, sizes_of
from examples.algorithms.train import TEST_SEED
from examples.commands import arguments as shared
from examples.tasks.base import cost_in_bits
from examples.tasks.streams import Stream

SUMMARY = "measure a run on sequences it has not seen"
EPILOG = """\
examples:
  python -m examples evaluate runs/copy                       the lengths it was trained on
  python -m examples evaluate runs/copy --size length=50      longer ones
  python -m examples evaluate runs/copy --size length=120 --sequences 100

what the numbers mean:
  bits a sequence    cross-entropy in base 2, summed over the steps and channels that are due
  optimum            dynamic n-grams: the same of the best predictor, on the same sequences
  bit error          share of the bits due that are wrong
  wrong sequences    share of the sequences with a wrong bit
"""
BATCH_SIZE = 32


def add_arguments(parser) -> None:
    """Adds the options of `evaluate`."""
    shared.add_run(parser)
    add_sizes(parser)
    parser.add_argument(
        "--sequences",
        type=shared.positive_int,
        default=1024,
        metavar="N",
        help="sequences at least, in batches of one length (default: %(default)s)",
    )
    parser.add_argument("--json", metavar="FILE", help="write the numbers")


def run(arguments) -> None:
    """Prints bits a sequence and the share of wrong bits."""
    opened = open_run(arguments.run)
    sizes = {**opened.sizes, **sizes_of(arguments.size, opened.task)}
    path = shared.check_writable(arguments.json)
    began = time.monotonic()
    numbers = {"task": opened.task.name, **{name: list(ends) for name, ends in sizes.items()}}
    numbers |= measure(opened, sizes, arguments.sequences)
    numbers["seconds"] = time.monotonic() - began
    for name, value in numbers.items():
        shown = f"{value:.6g}" if isinstance(value, float) else value
        print(f"{name.replace('_', ' '):<18} {shown}")
    if path is not None:
        path.write_text(json.dumps(numbers, indent=2) + "\n", encoding="utf-8")


def measure(opened, sizes, num_sequences: int) -> dict:
    """Returns the numbers of a run on unseen sequences of these sizes."""
    batches = -(-num_sequences // BATCH_SIZE)
    stream = Stream(opened.task, BATCH_SIZE, batches, TEST_SEED, max_shapes=8, **sizes)
    costs, wrong, due, optimum = [], [], [], []
    for number in range(batches):
        example = stream.example(0, number)
        padded = stream.padded(example)
        outputs = opened.outputs(padded.inputs)
        costs.append(cost_in_bits(outputs, padded))
        errors = ((outputs > 0.5) != (padded.targets > 0.5)) & (padded.due[:, :, None] > 0)
        wrong.append(errors.sum(axis=(1, 2)))
        due.append(padded.due.sum(axis=1) * padded.targets.shape[2])
        if hasattr(opened.task, "optimal_bits"):
            optimum.append(opened.task.optimal_bits(example))
    costs, wrong, due = map(np.concatenate, (costs, wrong, due))
    numbers = {
        "sequences": len(costs),
        "bits_a_sequence": float(costs.mean()),
        "standard_error": float(costs.std() / np.sqrt(len(costs))),
        "bit_error": float(wrong.sum() / due.sum()),
        "wrong_sequences": float((wrong > 0).mean()),
    }
    if optimum:
        optimum = np.concatenate(optimum)
        numbers |= {
            "optimum": float(optimum.mean()),
            "above_optimum": float((costs - optimum).mean()),
        }
    return numbers

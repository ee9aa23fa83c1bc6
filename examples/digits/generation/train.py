"""What the training of a model that draws digits needs."""

from examples.digits.generation import options
from examples.digits.generation.bound import Bound, DrawingTrainer, make_metrics
from examples.digits.generation.drawn import binarized
from examples.digits.prepare import make_job
from examples.training.job import Job
from examples.training.workers import Workers

#: What a run may hold before it has a record.
WRITTEN_FIRST = frozenset()
BETA_1 = 0.5  # section 4 of the paper


def check(arguments) -> None:
    """Raises if options do not go together."""
    options.check(arguments)


def prepare(arguments, directory, system, is_new: bool, workers: Workers) -> Job:
    """Returns the training that the arguments ask for."""
    draw = binarized(arguments.steps, arguments.latent_dim)
    return make_job(
        arguments,
        directory,
        system,
        {"training": draw, "dev": draw},
        beta_1=BETA_1,
        loss=Bound(),
        metrics=make_metrics(),
        trainer=DrawingTrainer,
    )

"""What the training of a model that recognizes digits needs."""

from examples.digits.prepare import make_job
from examples.digits.recognition import options
from examples.digits.recognition.looks import intended, random
from examples.digits.recognition.loss import RecognitionLoss, RecognitionTrainer, make_metrics
from examples.training.job import Job
from examples.training.workers import Workers

#: What a run may hold before it has a record.
WRITTEN_FIRST = frozenset()


def check(arguments) -> None:
    """Raises if options do not go together."""
    options.check(arguments)


def prepare(arguments, directory, system, is_new: bool, workers: Workers) -> Job:
    """Returns the training that the arguments ask for."""
    glimpses = arguments.glimpses
    return make_job(
        arguments,
        directory,
        system,
        {"training": random(glimpses), "dev": intended(glimpses)},
        loss=RecognitionLoss(arguments.reward_weight),
        metrics=make_metrics(),
        trainer=RecognitionTrainer,
    )

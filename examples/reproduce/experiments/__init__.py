"""The table of the experiments.

Every choice was made on validation parts; the test part of an experiment is read once, by its
evaluation. Published figures are those that stand beside the data sets in their papers and
repositories; a dash says that there is none of this kind.
"""

from examples.reproduce.experiment import Experiment
from examples.reproduce.experiments.images import CAPTION_EXPERIMENTS, DIGIT_EXPERIMENTS
from examples.reproduce.experiments.pronunciation import (
    CMUDICT_EXPERIMENTS,
    SIGMORPHON_EXPERIMENTS,
)
from examples.reproduce.experiments.reading import LANGUAGE_EXPERIMENTS, READING_EXPERIMENTS
from examples.reproduce.experiments.scan import SCAN_EXPERIMENTS
from examples.reproduce.experiments.translation import MULTI30K_EXPERIMENTS

#: All experiments by name, in the order of the results' table.
EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        *MULTI30K_EXPERIMENTS,
        *CMUDICT_EXPERIMENTS,
        *SCAN_EXPERIMENTS,
        *SIGMORPHON_EXPERIMENTS,
        *READING_EXPERIMENTS,
        *CAPTION_EXPERIMENTS,
        *LANGUAGE_EXPERIMENTS,
        *DIGIT_EXPERIMENTS,
    )
}

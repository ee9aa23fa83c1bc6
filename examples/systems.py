"""The systems that the command line knows: one row a paper's model."""

import dataclasses
from types import ModuleType

import keras

from examples.models import rnnsearch


@dataclasses.dataclass(frozen=True)
class System:
    """A model that `python -m examples train NAME` builds.

    Attributes:
        name: What the command line calls it.
        module: The module that assembles it, with `TITLE`, `REFERENCE`, `OPTIONS`
            (option name to `Option`) and `build`.
    """

    name: str
    module: ModuleType

    def build(self, source_vocabulary_size, target_vocabulary_size, **options) -> keras.Model:
        """Returns the model; `options` are the module's, `seed` and `dtype`."""
        return self.module.build(source_vocabulary_size, target_vocabulary_size, **options)


SYSTEMS = {"rnnsearch": System("rnnsearch", rnnsearch)}


def find(name: str) -> System:
    """Returns the system of that name.

    Raises:
        ValueError: If there is none; the error lists those there are.
    """
    if name not in SYSTEMS:
        raise ValueError(
            f"There is no system {name!r}. Choose one of {', '.join(sorted(SYSTEMS))}; "
            "`python -m examples list` says what they are."
        )
    return SYSTEMS[name]

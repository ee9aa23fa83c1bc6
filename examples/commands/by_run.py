"""Commands whose options depend on the run they are given."""

import json
import pathlib
from types import ModuleType

from examples import systems

#: What is asked where no run is named: its errors say what is missing.
DEFAULT = "rnnsearch"


def part(command: str, text_arguments: list[str]) -> ModuleType:
    """Returns the command's module in the family of the run that the arguments name."""
    for text in text_arguments:
        name = _system(text)
        if name is not None:
            return systems.find(name).part(command)
    return systems.find(DEFAULT).part(command)


def _system(text):
    """The system of the run in a directory of that name, None if there is no such run."""
    path = pathlib.Path(text) / "run.json"
    try:
        settings = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None  # the command that opens the run says what is wrong
    name = settings.get("system") if isinstance(settings, dict) else None
    return name if name in systems.SYSTEMS else None

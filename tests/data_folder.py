"""The folder of public data sets: `$KERAS_ATTENTION_DATA`, or `../shared/data` beside the project.

Tests that read a data set are skipped where the folder does not hold it.
"""

import os
import pathlib

_BESIDE_THE_PROJECT = pathlib.Path(__file__).resolve().parents[2] / "shared" / "data"

DATA = pathlib.Path(os.environ.get("KERAS_ATTENTION_DATA") or _BESIDE_THE_PROJECT)

"""A decoder's step reaches the score in a few calls."""

import pathlib
import sys

import keras
import pytest
from keras import ops
from small_decoders import DECODERS

import keras_attention as ka

ROOT = str(pathlib.Path(ka.__file__).resolve().parent)
#: The functions that compute scores from queries and keys, the last call of a path.
SCORES = ("dense_additive_scores", "dot_scores")
MOST_CALLS = 6


def find_call_paths(function, *arguments):
    """Returns our functions that are on the stack, outermost first, whenever a score is computed.

    Only the library's functions count: those of Keras between them are left out.
    """
    paths = []

    def record(frame, event, _):
        if event != "call" or frame.f_code.co_name not in SCORES:
            return
        path = []
        while frame is not None:
            if str(pathlib.Path(frame.f_code.co_filename).resolve()).startswith(ROOT):
                path.insert(0, frame.f_code.co_name)
            frame = frame.f_back
        paths.append(path)

    sys.setprofile(record)
    try:
        function(*arguments)
    finally:
        sys.setprofile(None)
    return paths


@pytest.mark.parametrize("beams", [1, 2])
@pytest.mark.parametrize("name", DECODERS)
def test_a_step_reaches_the_score_in_a_few_calls(name, beams):
    decoder, ids, encoded = DECODERS[name](), ops.array([[2, 5], [2, 7]]), ops.ones((2, 7, 8))
    decoder(ids, encoded)
    memory = decoder.prepare(encoded)
    state = decoder.start(memory, max_length=4)
    state = keras.tree.map_structure(lambda leaf: ops.repeat(leaf, beams, axis=0), state)
    paths = find_call_paths(decoder.step, ops.repeat(ids[:, 0], beams, axis=0), state, memory)
    assert paths and all(path[0] == "step" for path in paths)
    assert max(len(path) - 1 for path in paths) <= MOST_CALLS, paths

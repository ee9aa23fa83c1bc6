"""Kills twenty trainings by SIGKILL, runs each again and compares it with one that lived.

`python -m callbacks.kill DIRECTORY KIND` prints a line for each. Children are forked from a process
that has imported the backend and computed nothing yet, which spares the imports of each.
"""

import os
import pathlib
import pickle
import random
import signal
import sys

import numpy as np
from callbacks.training import BATCHES, EPOCHS, StopAt, train


def _kill(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def _run(directory, kind, step=None, where=None):
    """Trains in a child, killed at a step if there is one, and returns the status and result."""
    result = directory / "result"
    child = os.fork()
    if child == 0:
        try:
            stop = _kill
            if where == "write":  # in the middle of it: the file has its old name

                def stop():
                    os.fsync = _kill

            callbacks = [StopAt(step, "batch_begin" if where == "write" else where, stop)]
            values = train(directory / "backup", kind, callbacks if step else [])
            result.write_bytes(pickle.dumps(values))
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    return status, pickle.loads(result.read_bytes()) if status == 0 else None


def main(directory, kind, kills=20):
    directory, draw = pathlib.Path(directory), random.Random(11)
    status, (expected, expected_history) = _run(directory, kind)
    assert status == 0
    for _ in range(kills):
        step, where = (
            draw.randint(1, BATCHES * EPOCHS),
            draw.choice(["batch_begin", "batch_end", "write"]),
        )
        status, _ = _run(directory, kind, step, where)
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, status
        assert step == 1 or (directory / "backup" / "training.backup").exists()
        status, (found, history) = _run(directory, kind)
        assert status == 0 and history == expected_history, (step, where)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=f"{step} {where}")
        print("same bits after a kill at step", step, where, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

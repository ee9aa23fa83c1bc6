"""The processes of one run: how they start together, decide as one and end.

Every worker goes through the same code with the same data. Whatever may differ between
them (clocks, signals, an evaluation) is decided in one place: the chief, worker 0, alone
evaluates and alone writes, and tells the others what came out, so that no worker waits
for a sum that another one never joins.
"""

import atexit
import contextlib
import json
import os
import signal
import sys
import threading
import traceback

import numpy as np
import tensorflow as tf

from examples.training.cluster import read_cluster

#: How often workers tell each other in an epoch whether the time is up, and the metrics.
STEPS_BETWEEN_MESSAGES = 10
#: How many numbers go from worker to worker at once.
WIDTH = 1024
#: How long a worker waits for the others to start.
SECONDS_TO_START = 600.0
KINDS = ("mirrored", "multi-worker")
START_AGAIN = "Start all workers again."
#: What a collective sum ends with when a worker is gone.
LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
)


def make_strategy(kind: str | None) -> tf.distribute.Strategy | None:
    """Returns the strategy of `--strategy`; call it before anything else of TensorFlow.

    Args:
        kind: `"mirrored"`, all devices of this machine; `"multi-worker"`, this process and
            the others that `TF_CONFIG` names; None, one device.

    Raises:
        ClusterError: If `TF_CONFIG` is missing or wrong.
        OSError: If this worker's port cannot be opened.
    """
    if kind is None:
        return None
    if kind == "mirrored":
        devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
        return tf.distribute.MirroredStrategy([device.name for device in devices])
    cluster = read_cluster()
    here = cluster.addresses[cluster.index]
    with _limit_wait(cluster):
        try:
            return tf.distribute.MultiWorkerMirroredStrategy()
        except tf.errors.OpError as error:
            if isinstance(error, LOST) and not isinstance(error, tf.errors.AbortedError):
                _end_without(cluster.index, START_AGAIN, error)
            raise OSError(  # "aborted" is an index that two workers have
                f"Worker {cluster.index} could not start at {here}. See that the port is free, "
                "that the address is this machine's, and that every worker has its own index "
                f"({error.message})."
            ) from error


class Workers:
    """The processes of a run, as one of them sees it.

    Args:
        strategy: A `tf.distribute` strategy, or None for one device.
        advice: Sentences for a worker that lost another one: what to do about it.

    Attributes:
        count: Number of processes.
        index: Which of them this is.
        replicas: Number of devices of all together.
    """

    def __init__(self, strategy: tf.distribute.Strategy | None = None, advice: str = START_AGAIN):
        self.strategy, self.advice = strategy, advice
        resolver = strategy.cluster_resolver if strategy is not None else None
        spec = resolver.cluster_spec().as_dict() if resolver is not None else {}
        self.count = max(1, sum(map(len, spec.values())))
        self.index = resolver.task_id or 0 if self.count > 1 else 0
        self.replicas = strategy.num_replicas_in_sync if strategy is not None else 1
        self._function = tf.function(self._sum, autograph=False)

    @property
    def is_chief(self) -> bool:
        """Whether this is the worker that evaluates, writes and reports."""
        return self.index == 0

    def scope(self):
        """Returns the context that model and optimizer are made in."""
        return self.strategy.scope() if self.strategy is not None else contextlib.nullcontext()

    @contextlib.contextmanager
    def quiet(self):
        """A context in which only the chief prints."""
        if self.is_chief:
            yield
            return
        with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            yield

    def any(self, *flags: bool) -> list[bool]:
        """Returns of each flag whether it is set in any worker."""
        if self.count == 1:
            return list(flags)
        return [bool(number) for number in self._sum_over_workers(flags)[: len(flags)]]

    def broadcast(self, value=None):
        """Returns the chief's value, which JSON can hold; the others' values do not matter."""
        if self.count == 1:
            return value
        content = json.dumps(value).encode() if self.is_chief else b""
        size = int(self._sum_over_workers([len(content)])[0])
        parts = [
            self._sum_over_workers(list(content[start : start + WIDTH]))
            for start in range(0, size, WIDTH)
        ]
        return json.loads(np.concatenate(parts)[:size].astype("uint8").tobytes())

    def wait(self) -> None:
        """Returns when every worker has come here."""
        self.any(False)

    def check_same(self, what: str, value) -> None:
        """Raises where a worker would go on with something else than the chief.

        Raises:
            ValueError: In the worker that differs; the others then lose it.
        """
        mine, chiefs = json.loads(json.dumps(value)), self.broadcast(value)
        if mine != chiefs:
            raise ValueError(
                f"Worker {self.index} has {what} that the chief has not. Start every worker with "
                f"the same command and the same files. Received: {_difference(mine, chiefs)}"
            )

    def _sum_over_workers(self, numbers):
        """Sums at most `WIDTH` numbers over the workers; always one size, so one program."""
        vector = np.zeros(WIDTH, "float32")  # what is sent are small whole numbers: exact
        vector[: len(numbers)] = numbers
        local = self.replicas // self.count
        values = self.strategy.experimental_distribute_values_from_function(
            lambda context: tf.constant(
                vector if context.replica_id_in_sync_group % local == 0 else 0 * vector
            )
        )
        return self._function(values).numpy()

    def _sum(self, values):
        def replica(vector):
            context = tf.distribute.get_replica_context()
            return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(vector))

        return self.strategy.experimental_local_results(self.strategy.run(replica, (values,)))[0]

    @contextlib.contextmanager
    def end_if_worker_is_lost(self):
        """A context in which a sum that a lost worker breaks off ends the process at once.

        Where the data are read this is the innermost context, and a variable outside of it holds
        their iterator: to delete one takes up to a minute, because tf.data waits for a thread of
        its own that sleeps. After another error the process ends as soon as Python is left, without
        taking TensorFlow down: that takes half a minute on a busy machine, and the other workers
        would receive heartbeats all the while.
        """
        if self.count == 1:
            yield
            return
        try:
            yield
        except LOST as error:
            _end_without(self.index, self.advice, error)
        except BaseException as error:
            atexit.register(_end, getattr(error, "status", 1))
            raise


def _end_without(index, advice, error):
    """Ends the process of a worker that lost another one."""
    if os.environ.get("KERAS_ATTENTION_DEBUG"):
        traceback.print_exc()
    print(
        f"error: Worker {index} lost another worker: it ended or cannot be reached. {advice} "
        f"TensorFlow says: {' '.join(error.message.split())[:300]}",
        file=sys.stderr,
    )
    _end(1)


def _end(status):
    """Ends the process at once."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


@contextlib.contextmanager
def _limit_wait(cluster):
    """A context that ends the process when the other workers do not come in time.

    TensorFlow waits for them in C++, out of the reach of exceptions and of Python's handlers.
    """

    def give_up():
        others = [a for i, a in enumerate(cluster.addresses) if i != cluster.index]
        print(
            f"error: Worker {cluster.index} waited {SECONDS_TO_START:.0f} seconds for the workers "
            f"at {', '.join(others)}. Start them all with the same list of addresses, and see "
            "that their ports can be reached from here.",
            file=sys.stderr,
            flush=True,
        )
        os._exit(1)

    if cluster.index == 0 and len(cluster.addresses) > 1:
        print(f"Waiting for {len(cluster.addresses)} workers to start.", flush=True)
    timer = threading.Timer(SECONDS_TO_START, give_up)
    timer.daemon = True
    previous = signal.signal(signal.SIGINT, signal.SIG_DFL)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, previous)


def _difference(mine, chiefs):
    if not isinstance(mine, dict) or not isinstance(chiefs, dict):
        return f"{mine}, the chief has {chiefs}"
    names = sorted(n for n in {*mine, *chiefs} if mine.get(n) != chiefs.get(n))
    return ", ".join(f"{n}={mine.get(n)}, the chief has {chiefs.get(n)}" for n in names)

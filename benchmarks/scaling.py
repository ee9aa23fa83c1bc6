"""Training on several workers: steps and sums measured on this machine, and a model of both.

    python -m benchmarks scaling
    python -m benchmarks scaling --repeats 31 --json scaling.json
    python -m benchmarks scaling --gpus                          # on paper, nothing is measured

Groups of 1, 2 and 4 processes of one thread each take turns: a training step of the Transformer as
`python -m examples train --strategy multi-worker` makes it, with different numbers of sentences a
worker, and sums of vectors of several sizes. The model (`benchmarks.scaling_model`) has four
numbers: seconds of a step without tokens and of a token, from the steps of one process; latency
and bandwidth, from the sums of two. All else is predicted and stands beside what was measured.

`--gpus` prints the model for 1 to 64 GPUs in machines of 8: the launches and products of an H100
as in `python -m benchmarks gpu --compile`, NVLink and one 400 Gbit/s adapter a GPU by their data
sheets, latencies of NCCL's own model (its `tuning.cc`, protocol "Simple").
"""

import functools
import json
import socket

from benchmarks import report as reports
from benchmarks.arguments import add_number
from benchmarks.gpu import cases, h100
from benchmarks.harness import Case, Side, available_cores, summary
from benchmarks.scaling_model import Ring, Training, fit_line, fit_ring

REPEATS = 15
FACTORY = "benchmarks.scaling_side:make_work"
WORKERS = (1, 2, 4)
LENGTH = 20
VOCABULARY = 2000
#: Sentences a worker; the model is fitted to the steps of one process with these.
BATCHES = (4, 8, 16, 32)
#: Bytes of the vectors that are summed.
SIZES = (4_000, 1_000_000, 4_000_000, 16_000_000)
GPUS = (1, 2, 4, 8, 16, 32, 64)
GPU_RING = Ring(3.4e-6, 450e9, per_machine=8, far_latency=9.6e-6, far_bandwidth=8 * 50e9)
#: Launches of a training step in float32, see docs/performance.md#launches.
GPU_LAUNCHES = {"Transformer": 605, "RNNsearch": 1602}
#: Tokens a GPU, as multiples of those of `python -m benchmarks gpu`.
GPU_TOKENS = (1, 32)


def add_arguments(parser) -> None:
    """Adds this suite's flags to its parser; the shared ones are there already."""
    parser.add_argument("--gpus", action="store_true", help="print the model for GPUs alone")
    add_number(parser, "--width", 128, "units of the Transformer of 2 + 2 layers")


def run(arguments, command: str, progress) -> dict:
    """Measures, fits and returns the filled report."""
    if arguments.gpus:
        return predict_gpus(command)
    title = (
        f"Workers of one thread each, medians of {arguments.repeats} rounds; Transformer, 2 + 2 "
        f"layers, width {arguments.width}, vocabulary {VOCABULARY:,}, {LENGTH} tokens a sentence"
    )
    report = reports.new_report("scaling", title, command, {"width": arguments.width})
    steps, sums, num_bytes = _measure(arguments, progress)
    fill(report, steps, sums, num_bytes, available_cores())
    return report


class Group:
    """Processes that train together, and do nothing between their turns.

    Args:
        count: Number of processes.
    """

    def __init__(self, count: int):
        sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
        addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
        for each in sockets:
            each.close()
        self._sides = []
        for index in range(count):
            task = {"type": "worker", "index": index}
            config = json.dumps({"cluster": {"worker": addresses}, "task": task})
            case = Case(f"worker {index} of {count}", FACTORY)
            self._sides.append(Side(case, 1, {"TF_CONFIG": config} if count > 1 else {}))

    def ask(self, **request) -> list[dict]:
        """Sends a request to all and returns their answers."""
        for side in self._sides:
            side.send(**request)
        return [side.receive() for side in self._sides]

    def time(self, **options) -> float:
        """Returns how long the slowest took for a step or a sum, see `benchmarks.scaling_side`."""
        self.ask(do="build", factory=FACTORY, options=options)
        return max(answer["seconds"][0] for answer in self.ask(do="call", times=1))

    def stop(self) -> None:
        """Ends the processes."""
        for side in self._sides:
            side.__exit__()


def _measure(arguments, progress):
    """Returns medians of steps by workers and sentences, of sums by workers and bytes."""
    shared = {"width": arguments.width, "length": LENGTH, "vocabulary": VOCABULARY}
    groups, times = {}, {}
    try:
        for count in WORKERS:
            progress(f"building {count} workers")
            groups[count] = Group(count)
            built = groups[count].ask(do="build", factory=FACTORY, options={**shared, "batch": 1})
            num_bytes = built[0]["facts"]["gradient_bytes"]
            times |= {(count, "batch", batch): [] for batch in BATCHES}
            times |= {(count, "size", size): [] for size in SIZES if count > 1}
        for number in range(-arguments.warmup, arguments.repeats):
            progress(f"round {number + 1} of {arguments.repeats}")
            for (count, kind, size), seconds in times.items():
                taken = groups[count].time(**shared, **{kind: size})
                seconds += [taken] if number >= 0 else []
    finally:
        for group in groups.values():
            group.stop()
    medians = {work: summary(seconds)["median_seconds"] for work, seconds in times.items()}
    steps, sums = (
        {(count, size): value for (count, what, size), value in medians.items() if what == kind}
        for kind in ("batch", "size")
    )
    return steps, sums, num_bytes


def fill(report: dict, steps: dict, sums: dict, num_bytes: int, cores: int) -> None:
    """Fits the model, and writes rows, lines and notes into the report.

    Args:
        report: The report.
        steps: Seconds of a step by workers and sentences a worker.
        sums: Seconds of a sum by workers and bytes.
        num_bytes: Bytes of the gradient.
        cores: Cores that all workers share.
    """
    alone = {batch: seconds for (count, batch), seconds in steps.items() if count == 1}
    fixed, per_token = fit_line([batch * LENGTH for batch in alone], list(alone.values()))
    two = {size: seconds for (count, size), seconds in sums.items() if count == 2}
    ring = fit_ring(2, list(two), list(two.values()))

    def compute(tokens):
        return fixed + tokens * per_token

    training = Training(compute, num_bytes, ring, cores)
    report["columns"] = ["workers", "what", "measured", "model", "model / measured", "efficiency"]
    for (count, size), seconds in sums.items():
        model = training.find_slowdown(count) * ring.all_reduce_seconds(size, count)
        _add(report, count, f"sum of {size / 1e6:g} MB", seconds, model)
    for (count, batch), seconds in steps.items():
        model = training.step_seconds(batch * LENGTH, count)
        _add(report, count, f"step, {batch} sentences each", seconds, model, steps[1, batch])
    report["model"] = {
        **{"fixed_seconds": fixed, "seconds_a_token": per_token, "gradient_bytes": num_bytes},
        **{"latency_seconds": ring.latency, "bandwidth": ring.bandwidth, "cores": cores},
    }
    report["notes"].append(
        f"Fitted: a step of {1e3 * fixed:.1f} ms and {1e6 * per_token:.0f} us a token; a sum of "
        f"{1e3 * ring.latency:.2f} ms a hop and {ring.bandwidth / 1e6:.0f} MB/s. The gradient has "
        f"{num_bytes / 1e6:.2f} MB."
    )
    report["notes"].append(
        f"Efficiency: time of one process over that of all, with as many sentences each; at most "
        f"{cores} workers have a core of their own."
    )


def predict_gpus(command: str) -> dict:
    """Returns the report of the model for GPUs; nothing is measured."""
    report = reports.new_report("scaling", "On paper: training on H100s", command, {})
    report["columns"] = ["model", "tokens each", "GPUs", "compute", "sum", "step", "efficiency"]
    report["columns"].append("sentences/s")
    (batch, length, *_) = cases.SENTENCES
    for row in cases.make_training_case(small=False).rows:
        name = row.what.removesuffix(", float32")
        if row.library != "jax" or name not in GPU_LAUNCHES:
            continue
        floor = functools.partial(_find_floor, GPU_LAUNCHES[name], row, batch * length)
        training = Training(floor, row.bytes / 7, GPU_RING)  # see `cases.make_training_case`
        for times in GPU_TOKENS:
            for count in GPUS:
                tokens = times * batch * length
                step = training.step_seconds(tokens, count)
                parts = [floor(tokens), training.all_reduce_seconds(count), step]
                efficiency, sentences = training.efficiency(tokens, count), count * times * batch
                report["lines"].append(
                    [
                        *(name, f"{tokens:,}", str(count), *map(reports.seconds_text, parts)),
                        *(f"{efficiency:.2f}", f"{sentences / step:,.0f}"),
                    ]
                )
                report["rows"].append(
                    {"model": name, "tokens": tokens, "gpus": count, "seconds": step}
                )
    report["notes"] = ["Compute is counted, not measured: launches, or products at the peak."]
    return report


def _find_floor(launches, row, row_tokens, tokens):
    """Returns the least time of a step on an H100, as `benchmarks.gpu.compile` has it."""
    products = row.flops * tokens / row_tokens / h100.PEAK["float32"]
    return max(launches * h100.LAUNCH_SECONDS, products, row.bytes / h100.BANDWIDTH)


def _add(report, count, what, seconds, model, alone=None):
    row = {"workers": count, "what": what, "seconds": seconds, "model_seconds": model}
    efficiency = "" if alone is None else f"{alone / seconds:.2f}"
    report["rows"].append(row)
    report["lines"].append(
        [
            *(str(count), what, reports.seconds_text(seconds), reports.seconds_text(model)),
            *(f"{model / seconds:.2f}", efficiency),
        ]
    )

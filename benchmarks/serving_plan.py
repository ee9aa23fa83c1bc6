"""`python -m benchmarks serve --plan EXPORT`: settings and replicas for a load and a percentile."""

import concurrent.futures
import dataclasses
import functools
import itertools
import math
import sys
from pathlib import Path

import numpy as np

from benchmarks import report as reports
from benchmarks.arguments import add_number, number_between, positive
from benchmarks.harness import BenchmarkError, Case, Side
from benchmarks.serving_queue import Setting, choose, find_replicas

TIMEOUTS = (0.0, 0.002, 0.005, 0.02)
MAX_ENQUEUED_BATCHES = 100  # as an export's: the server refuses requests beyond 10 by default


def add_arguments(parser) -> None:
    """Adds the flags of the plan."""
    plan = parser.add_argument_group(
        "plan", "measures an exported version instead, and prints settings and replicas"
    )
    plan.add_argument(
        "--plan",
        type=Path,
        nargs="?",
        const=True,
        metavar="EXPORT",
        help="base or version directory; without one the Transformer of the flags above",
    )
    plan.add_argument("--signature", default="serving_default", help="(default: %(default)s)")
    plan.add_argument(
        "--lines", type=Path, metavar="FILE", help="texts of a line each (default: the warm-up's)"
    )
    for flag, below, default, text in (
        ("--load", math.inf, 200.0, "requests of one row a second"),
        ("--percentile", 100.0, 95.0, "percentile of the latency"),
        ("--latency-ms", math.inf, 300.0, "its limit"),
    ):
        kind = functools.partial(number_between, below=below)
        plan.add_argument(flag, type=kind, default=default, help=f"{text} (default: {default:g})")
    add_number(plan, "--max-batch", 32, "largest batch that is measured")
    plan.add_argument(
        "--check",
        type=positive,
        metavar="REQUESTS",
        help="compare with the development server under an open-loop load of so many requests",
    )


def run(arguments, command: str, progress, version: Path | None = None, rows=None) -> dict:
    """Measures a version and returns the filled report.

    Args:
        arguments: The parsed flags.
        command: The command line, for the report.
        progress: Receives one line a stage.
        version: Directory of the version; the one of `--plan` by default.
        rows: Inputs of a row each; those of `read_rows` by default.

    Raises:
        BenchmarkError: If the version cannot be run, or the server does not start.
    """
    from benchmarks.serving_check import Check, describe

    path, base = find_version(version or arguments.plan)
    rows = rows or read_rows(path, arguments.signature, arguments.lines)
    cores, goal = arguments.threads, arguments.latency_ms / 1000
    title = (
        f"{base.name} {path.name}, {arguments.signature}: {arguments.load:g} requests/s, "
        f"p{arguments.percentile:g} within {arguments.latency_ms:g} ms, {cores} cores a replica"
    )
    settings = {name: getattr(arguments, name) for name in ("load", "percentile", "latency_ms")}
    report = reports.new_report("serve", title, command, settings)
    report["columns"] = ["instances x threads", "batch", "wait", "replicas", "used", "latency"]
    sizes = [2**power for power in range(arguments.max_batch.bit_length())]
    sizes = [size for size in sizes if size <= arguments.max_batch]
    measured = measure(path, arguments.signature, rows, sizes, cores, arguments.repeats, progress)
    instances, checked, percentiles = max(measured), [], sorted({50.0, arguments.percentile})
    progress("measuring a request through the server")
    server = (path, arguments.signature, rows, instances, cores, arguments.protocols[0])
    with Check(*server) as check:
        service = check.measure_service()
        if arguments.check:
            checked = check.run(service, arguments.check, percentiles, progress)
    protocol = max(0.0, float(np.mean(service.busy) - np.mean(measured[instances][1])))
    plans = []
    for instances, inside in measured.items():
        threads = cores // instances
        report["rows"].append(
            {"name": "times", "instances": instances, "threads": threads, "times": inside}
        )
        times = {size: [t + size * protocol for t in found] for size, found in inside.items()}
        for size in sizes:
            progress(f"simulating {instances} instances, batches of {size}")
            best = choose(
                [
                    find_replicas(
                        Setting(instances, size, timeout),
                        times,
                        arguments.load,
                        arguments.percentile,
                        goal,
                    )
                    for timeout in (TIMEOUTS if size > 1 else (0.0,))
                ]
            )
            plans.append(best)
            report["lines"].append(_make_line(f"{instances} x {threads}", size, best))
    _describe(report, choose(plans), sizes, cores)
    row = {"name": "service", "protocol": arguments.protocols[0], "protocol_seconds": protocol}
    report["rows"] += [{**row, **dataclasses.asdict(service)}, *checked]
    alone, busy = (1000 * float(np.median(seconds)) for seconds in (service.alone, service.busy))
    report["notes"] += [
        f"A request over {arguments.protocols[0]} to the development server takes {alone:,.1f} ms "
        f"alone and {busy:,.1f} ms of {service.instances} at once (medians). The protocol's part, "
        f"{1000 * protocol:.1f} ms, is added to each request of the plan.",
        *(describe(row, percentiles) for row in checked),
    ]
    return report


def find_version(directory: Path) -> tuple[Path, Path]:
    """Returns the newest version in a base directory, or the version itself, and the base.

    Raises:
        BenchmarkError: If there is none.
    """
    from keras_attention.export import versions

    directory = directory.resolve()
    if (directory / "saved_model.pb").is_file():
        return directory, directory.parent
    found = versions.find_versions(directory) if directory.is_dir() else {}
    if not found:
        raise BenchmarkError(f"--plan: there is no exported version in {directory}")
    return Path(found[max(found)]), directory


def read_rows(path: Path, signature: str, lines: Path | None = None) -> list[dict]:
    """Returns inputs of one row each: lines of a file, or the rows of the warm-up requests.

    Raises:
        BenchmarkError: If there are none, or an input is not a single value a row.
    """
    import tensorflow as tf
    from tensorflow_serving.apis.prediction_log_pb2 import PredictionLog

    file = path / "assets.extra" / "tf_serving_warmup_requests"
    if lines is not None:
        texts = [line for line in lines.read_text(encoding="utf-8").splitlines() if line.strip()]
        rows = [{"text": text} for text in texts]
    else:
        rows, records = [], tf.data.TFRecordDataset([str(file)] if file.is_file() else [])
        for record in records.as_numpy_iterator():
            request = PredictionLog.FromString(record).predict_log.request
            if request.model_spec.signature_name == signature and not request.output_filter:
                columns = {
                    name: tf.make_ndarray(tensor).tolist()
                    for name, tensor in request.inputs.items()
                }
                rows += [
                    dict(zip(columns, values, strict=True))
                    for values in zip(*columns.values(), strict=True)
                ]
        rows = [
            {k: v.decode() if isinstance(v, bytes) else v for k, v in row.items()} for row in rows
        ]
    if not rows or any(isinstance(value, list) for row in rows for value in row.values()):
        raise BenchmarkError(
            f"--plan needs rows of single values for the signature {signature}: name a file of "
            "texts with --lines, or a signature of texts that the version's warm-up has"
        )
    return rows


def measure(path, signature, rows, sizes, cores, repeats, progress) -> dict[int, dict]:
    """Returns the seconds of batches by instances and batch size.

    For 1, 2, 4 ... instances on `cores` cores, as many batches as there are instances run at the
    same time, each by its part of the cores, until the last of them ends. Processes take turns.
    """
    counts = [2**power for power in range(cores.bit_length()) if 2**power <= cores]
    sides, seconds = [], {count: [] for count in counts}
    try:
        for count in counts:
            options = {"path": str(path), "signature": signature, "rows": rows, "sizes": sizes}
            options |= {"instances": count, "threads": cores // count}
            progress(f"loading the version for {count} instances")
            case = Case(str(count), "benchmarks.serving_plan:make_calls", options)
            sides.append(Side(case, cores))
            sides[-1].build()
            sides[-1].call(2 * len(sizes))
        for number in range(repeats):
            progress(f"round {number + 1} of {repeats}")
            for count, side in zip(counts, sides, strict=True):
                seconds[count].append(side.call(len(sizes)))
    finally:
        for side in sides:
            side.__exit__(*sys.exc_info())
    return {
        count: dict(zip(sizes, map(list, zip(*found, strict=True)), strict=True))
        for count, found in seconds.items()
    }


def make_calls(path, signature, rows, sizes, instances, threads):
    """Returns a function that runs batches of the next of `sizes`, one in each instance."""
    import tensorflow as tf

    import keras_attention.export  # noqa: F401  registers the ops of TensorFlow Text
    from benchmarks.serve import load

    config = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=threads, inter_op_parallelism_threads=instances * threads
    )
    ask = load(path, config)
    generator = np.random.default_rng(0)
    turns = itertools.cycle(sizes)
    pool = concurrent.futures.ThreadPoolExecutor(instances)

    def draw(size):
        chosen = [rows[index] for index in generator.integers(len(rows), size=size)]
        return {name: [row[name] for row in chosen] for name in chosen[0]}

    def call():
        size = next(turns)
        batches = [draw(size) for _ in range(instances)]
        list(pool.map(lambda inputs: ask(signature, inputs), batches))
        return 0.0

    return call


def _make_line(threads, size, plan):
    if plan is None:
        return [threads, str(size), "-", "none", "-", "-"]
    return [
        threads,
        str(size),
        f"{1000 * plan.setting.timeout:g} ms",
        str(plan.replicas),
        f"{100 * plan.utilization:.0f} %",
        f"{1000 * plan.latency:,.0f} ms",
    ]


def _describe(report, plan, sizes, cores):
    """Writes the chosen setting into `report`, as the model server takes it."""
    if plan is None:
        report["notes"].append(
            "No setting keeps the limit: allow more milliseconds, or shorten the search."
        )
        return
    setting = plan.setting
    row = {"name": "chosen", "instances": setting.instances, "replicas": plan.replicas}
    row |= {"max_batch_size": setting.max_batch_size, "timeout": setting.timeout}
    report["rows"].append({**row, "utilization": plan.utilization, "latency": plan.latency})
    allowed = " ".join(
        f"allowed_batch_sizes: {size}" for size in sizes if size <= setting.max_batch_size
    )
    report["notes"] += [
        f"Replicas: {plan.replicas}, each at {100 * plan.utilization:.0f} % of what it can do.",
        f"batching.config: max_batch_size {{ value: {setting.max_batch_size} }} {allowed} "
        f"batch_timeout_micros {{ value: {setting.timeout * 1e6:.0f} }} "
        f"num_batch_threads {{ value: {setting.instances} }} "
        f"max_enqueued_batches {{ value: {MAX_ENQUEUED_BATCHES} }}",
        "Flags: --enable_batching --batching_parameters_file=batching.config "
        f"--tensorflow_intra_op_parallelism={cores // setting.instances} "
        f"--tensorflow_inter_op_parallelism={cores}",
    ]

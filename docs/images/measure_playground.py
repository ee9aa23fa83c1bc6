"""Measures whether the page to try the models slows the REST interface down.

    python docs/images/measure_playground.py

The toy translator of the tests is served by four processes: two without the page, one with it, and
one whose page is open in Chromium. They are asked in turn, one text after another, in each repeat
in another order. Ratios are those to the first process, of the median latency and of the calls a
second in each repeat; those of the second process show how much two equal processes differ.
"""

import argparse
import contextlib
import http.client
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "references"), str(ROOT / "tests" / "export")]
BODY = json.dumps({"instances": ["abc def"]}).encode()
SIDES = {
    "without": "--no-playground",
    "without, again": "--no-playground",
    "with": "--playground",
    "with, open": "--playground",
}


@contextlib.contextmanager
def serve(base: pathlib.Path, flag: str):
    """Yields the REST port of a server in a process of its own."""
    command = [sys.executable, "-m", "keras_attention.export.serve", str(base), flag]
    command += ["--port", "0", "--rest-api-port", "0"]
    server = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        printed = ""
        while "Ready." not in printed:
            line = server.stdout.readline()
            assert line, f"The server has ended: {printed}"
            printed += line
        yield int(re.search(r"http://[^:]+:(\d+)", printed)[1])
    finally:
        server.terminate()
        server.wait(timeout=60)
        server.stdout.close()


def ask(connection: http.client.HTTPConnection, calls: int) -> list[float]:
    """Returns the seconds of each call."""
    seconds = []
    for _ in range(calls):
        start = time.perf_counter()
        connection.request("POST", "/v1/models/toy:predict", BODY)
        answer = connection.getresponse()
        text = answer.read()
        seconds.append(time.perf_counter() - start)
        assert answer.status == 200, text
    return seconds


def interval(ratios: list[float]) -> np.ndarray:
    """Returns the 95 % interval of the median, by 10,000 bootstrap samples."""
    drawn = np.random.default_rng(1).choice(ratios, (10_000, len(ratios)))
    return np.percentile(np.median(drawn, axis=1), [2.5, 97.5])


def main() -> None:
    """Prints the medians and the ratios."""
    from chromium import Browser
    from toy_export import write_toy

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=21)
    parser.add_argument("--calls", type=int, default=200, help="of each side in a repeat")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        base = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory())) / "toy"
        write_toy(base)
        ports = {side: stack.enter_context(serve(base, flag)) for side, flag in SIDES.items()}
        asked = {side: http.client.HTTPConnection("127.0.0.1", ports[side]) for side in SIDES}
        browser = Browser()
        stack.callback(browser.close)
        browser.open(f"http://127.0.0.1:{ports['with, open']}/")
        latency, rate = {side: [] for side in SIDES}, {side: [] for side in SIDES}
        for connection in asked.values():
            ask(connection, options.calls)
        for repeat in range(options.repeats):
            for side in np.random.default_rng(repeat).permutation(list(SIDES)):
                seconds = ask(asked[side], options.calls)
                latency[side].append(statistics.median(seconds))
                rate[side].append(options.calls / sum(seconds))
    for side in SIDES:
        print(f"{side:14} {1000 * statistics.median(latency[side]):.2f} ms, ", end="")
        print(f"{statistics.median(rate[side]):.0f} calls a second")
        for name, values in ("latency", latency), ("calls a second", rate):
            ratios = [one / base for one, base in zip(values[side], values["without"], strict=True)]
            low, high = interval(ratios)
            print(f"  {name}: {statistics.median(ratios):.3f}, 95 % {low:.3f} to {high:.3f}")


if __name__ == "__main__":
    main()

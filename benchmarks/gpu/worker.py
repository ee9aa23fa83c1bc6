"""The process of one library: builds sides, several at a time, and calls them in bursts.

Requests come as lines of JSON on standard input and are answered in the same way on what was
standard output; anything a library prints goes to standard error instead.

    {"do": "build", "sides": {name: {"factory", "options"}}}  -> {name: what was built, or "error"}
    {"do": "call", "side": name}                              -> {"seconds": of one call, "calls"}
    {"do": "describe"}                                        -> what it runs on
    {"do": "drop"}                                            -> {}
"""

import concurrent.futures
import contextlib
import fcntl
import importlib
import json
import math
import os
import sys
import time

from benchmarks.gpu.h100 import H100Library

#: A burst repeats a call until it takes about so long; calls that take longer run alone.
BURST_SECONDS = 0.02
MAX_CALLS = 200


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    library = {"jax": JaxLibrary, "torch": TorchLibrary, "h100": H100Library}[sys.argv[1]]()
    sides = {}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["do"] == "build":
                answer = _build(library, request["sides"], sides, request["warmup"])
            elif request["do"] == "describe":
                answer = library.describe()
            elif request["do"] == "call":
                answer = _burst(library, *sides[request["side"]])
            else:
                sides.clear()
                library.drop()
                answer = {}
        except Exception as error:
            answer = {"error": _text(error)}
        answers.write(json.dumps(answer) + "\n")


def _build(library, requested, sides, warmup):
    """Makes the sides one after the other, compiles them together and calls each."""
    found, made = {}, {}
    for name, side in requested.items():
        start = time.perf_counter()
        try:
            module, function = side["factory"].split(":")
            factory = getattr(importlib.import_module(module), function)
            made[name] = library.prepare(factory(**side["options"]))
            found[name] = {"trace_seconds": time.perf_counter() - start}
        except Exception as error:
            found[name] = {"error": _text(error)}
    for name, result in library.finish(made).items():
        if isinstance(result, Exception):
            found[name] = {"error": _text(result)}
            continue
        call, built = result
        found[name].update(built)
        if call is None:
            continue
        try:
            found[name].update(_first_calls(library, call, warmup))
            sides[name] = call, found[name]["calls"]
        except Exception as error:
            found[name] = {"error": _text(error)}
    return found


def _first_calls(library, call, warmup):
    start = time.perf_counter()
    value = library.number(call())
    first = time.perf_counter() - start
    library.start_memory()
    library.wait(call())
    memory = library.read_memory()
    seconds = _time_calls(library, call, 1)
    calls = max(1, min(MAX_CALLS, int(BURST_SECONDS / max(seconds, 1e-6))))
    for _ in range(warmup - 1):
        _time_calls(library, call, calls)
    if not math.isfinite(value):
        raise ArithmeticError(f"computed {value}, which is not a finite number")
    return {"value": value, "first_call_seconds": first, "calls": calls} | memory


def _burst(library, call, calls):
    return {"seconds": _time_calls(library, call, calls) / calls, "calls": calls}


def _time_calls(library, call, calls):
    start = time.perf_counter()
    for _ in range(calls):
        result = call()
    library.wait(result)
    return time.perf_counter() - start


def _text(error):
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


class JaxLibrary:
    """How programs of JAX are compiled, awaited and read."""

    def describe(self):
        """Returns what it runs on."""
        from benchmarks.gpu import jax_sides

        return jax_sides.describe()

    def prepare(self, program):
        """Returns the program, lowered."""
        import jax

        donated = (0,) if program.carries else ()
        jitted = jax.jit(program.function, donate_argnums=donated)
        return jitted.lower(*program.arguments), program

    def finish(self, prepared):
        """Compiles all; returns a pair of a callable and what was found, or the error."""
        results = {}
        with _one_compiler(), concurrent.futures.ThreadPoolExecutor(16) as pool:
            futures = {
                name: pool.submit(self._compile, *pair, name) for name, pair in prepared.items()
            }
            for name, future in futures.items():
                results[name] = future.exception() or future.result()
        return results

    def _compile(self, lowered, program, name):
        start = time.perf_counter()
        compiled = lowered.compile()
        built = {"compile_seconds": time.perf_counter() - start}
        with contextlib.suppress(Exception):
            built["extra_bytes"] = int(compiled.memory_analysis().temp_size_in_bytes)
        if os.environ.get("BENCHMARKS_HLO"):
            path = os.path.join(os.environ["BENCHMARKS_HLO"], name.replace(" ", "_") + ".hlo")
            with open(path, "w") as file:
                file.write(compiled.as_text())
        if not program.carries:
            return (lambda: compiled(*program.arguments)), built
        state, rest = [program.arguments[0]], program.arguments[1:]

        def call():
            state[0], result = compiled(state[0], *rest)
            return result

        return call, built

    def wait(self, result):
        """Returns when the device is done."""
        import jax

        jax.block_until_ready(result)

    def number(self, result):
        """Returns the mean size of the first output."""
        import jax
        import jax.numpy as jnp

        first = jax.tree_util.tree_leaves(result)[0]
        return float(jnp.mean(jnp.abs(first.astype("float32"))))

    def start_memory(self):
        """Memory is what the compiler reports."""

    def read_memory(self):
        return {}

    def drop(self):
        """Forgets what was compiled."""
        import gc

        import jax

        jax.clear_caches()
        gc.collect()


class TorchLibrary:
    """How calls of PyTorch are awaited and read."""

    def describe(self):
        """Returns what it runs on."""
        from benchmarks.gpu import torch_sides

        return torch_sides.describe()

    def prepare(self, call):
        return call

    def finish(self, prepared):
        return {name: (call, {}) for name, call in prepared.items()}

    def wait(self, result):
        """Returns when the device is done."""
        import torch

        if torch.cuda.is_available():
            torch.cuda.synchronize()

    def number(self, result):
        """Returns the mean size of the result."""
        return float(result.detach().float().abs().mean())

    def start_memory(self):
        import torch

        if torch.cuda.is_available():
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            self._before = torch.cuda.memory_allocated()

    def read_memory(self):
        """Returns the largest number of bytes that a call allocated.

        JAX counts a gradient that a step drops, and no results; PyTorch counts results, and no
        gradient that takes the place of the last one.
        """
        import torch

        if not torch.cuda.is_available():
            return {}
        return {"extra_bytes": torch.cuda.max_memory_allocated() - self._before}

    def drop(self):
        import gc

        import torch

        torch.compiler.reset()
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


@contextlib.contextmanager
def _one_compiler():
    """Lets one process compile at a time: XLA times candidates for products on the GPU."""
    path = os.environ.get("BENCHMARKS_LOCK")
    if path is None:
        yield
        return
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    main()

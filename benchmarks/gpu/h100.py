"""Compiles programs of JAX for an H100 that is described to the compiler and need not be there.

XLA's plugin for CUDA compiles without a device, as `jax[cuda12]` 0.7 brings it. Products and
convolutions are left to NVIDIA's libraries, since their kernels are otherwise chosen by timing.
Set `make_environment(folder)` before JAX is imported.
"""

import functools
import os
import pathlib
import time

from benchmarks.gpu.hlo import count_launches

BANDWIDTH = 3.35e12  # bytes a second
#: Operations a second of dense products: float32 ones run in TF32, as JAX has it by default.
PEAK = {"bfloat16": 989e12, "float32": 495e12}
#: The least that was measured for a launch; docs/performance.md, "Launches".
LAUNCH_SECONDS = 1.5e-6
_DESCRIPTION = """
gpu_device_info {
  core_count: 132 fpus_per_core: 128 clock_rate_ghz: 1.98
  threads_per_warp: 32 threads_per_block_limit: 1024 threads_per_core_limit: 2048
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
  shared_memory_per_block: 49152 shared_memory_per_block_optin: 232448
  shared_memory_per_core: 233472 l2_cache_size: 52428800
  memory_bandwidth: 3352320000000 device_memory_size: 85017624576
  cuda_compute_capability { major: 9 minor: 0 }
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 8 patch: 0 }
device_description_str: "NVIDIA H100 80GB HBM3"
"""


def make_environment(folder: str) -> dict[str, str]:
    """Returns the environment variables of a compiler that writes its programs into a folder."""
    flags = "--xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false --xla_dump_hlo_as_text"
    return {
        "BENCHMARKS_HLO": folder,
        "JAX_PLATFORMS": "cpu",
        "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
        "KERAS_BACKEND": "jax",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "XLA_FLAGS": f"{flags} --xla_dump_to={folder}",
    }


class H100Library:
    """How the worker compiles programs of JAX for an H100; none is called."""

    def __init__(self):
        import keras

        # The library asks Keras which devices there are; the described one is not among them.
        keras.distribution.list_devices = lambda device_type=None: ["gpu:0"]

    def describe(self):
        """Returns what compiles."""
        import jax
        import jaxlib
        import keras

        versions = {"jax": jax.__version__, "jaxlib": jaxlib.__version__}
        return {"device": "NVIDIA H100, described", **versions, "keras": keras.__version__}

    def prepare(self, program):
        """Returns the program, lowered for the described device."""
        import jax

        place = _find_place()

        def describe(value):
            return jax.ShapeDtypeStruct(value.shape, value.dtype, sharding=place)

        arguments = jax.tree_util.tree_map(describe, program.arguments)
        donated = (0,) if program.carries else ()
        jitted = jax.jit(program.function, donate_argnums=donated, out_shardings=place)
        return jitted.lower(*arguments), program

    def finish(self, prepared):
        """Compiles all; returns a pair of None and what was found, or the error."""
        results = {}
        for name, (lowered, program) in prepared.items():
            try:
                results[name] = None, _compile(lowered, program.turns)
            except Exception as error:
                results[name] = error
        return results

    def drop(self):
        """Forgets what was compiled."""
        import jax

        jax.clear_caches()


def _compile(lowered, turns):
    start = time.perf_counter()
    compiled = lowered.compile()
    launches = count_launches(_read_program(), turns)
    return {
        "compile_seconds": time.perf_counter() - start,
        "extra_bytes": int(compiled.memory_analysis().temp_size_in_bytes),
        "launches": launches.total,
        "launches_at_least": launches.at_least,
        "launches_a_turn": launches.a_turn,
        "conditionals_in_loops": launches.conditionals,
    }


def _read_program():
    """Returns the largest program after optimizations in the folder, and empties it."""
    files = [
        file for file in pathlib.Path(os.environ["BENCHMARKS_HLO"]).rglob("*") if file.is_file()
    ]
    programs = [file for file in files if file.name.endswith("gpu_after_optimizations.txt")]
    text = max(programs, key=lambda file: file.stat().st_size).read_text()
    for file in files:
        file.unlink()
    return text


@functools.cache
def _find_place():
    from jax.experimental import topologies
    from jax.sharding import SingleDeviceSharding

    topology = topologies.get_topology_desc(
        platform="cuda", topology_name="h100", topology="1x1x1", target_config=_DESCRIPTION
    )
    return SingleDeviceSharding(topology.devices[0])

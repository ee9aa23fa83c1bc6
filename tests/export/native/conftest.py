"""The probe, built by the system's compiler against the installed TensorFlow."""

import pathlib
import shutil
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
# The toy translator and the writer of warm-up files live beside this folder.
sys.path[:0] = [str(HERE.parent / "serving"), str(HERE.parent)]


@pytest.fixture(scope="session")
def probe(tmp_path_factory):
    """Returns `probe(version, requests, *flags)`, which gives the lines of JSON as dicts."""
    import json

    binary = _built(tmp_path_factory.mktemp("native") / "probe")
    libraries = [flag for path in _text_ops() for flag in ("--op", str(path))]

    def run(version, requests, *flags):
        command = [str(binary), str(version), str(requests), *libraries, *flags]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        assert "Python in this process: no" in done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


def _built(binary):
    import tensorflow as tf

    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip(
            "there is no C++ compiler (c++, g++, clang++): that an export runs without Python "
            "is NOT tested here"
        )
    if not sys.platform.startswith("linux"):
        pytest.skip("the probe is linked as Linux does it: native loading is NOT tested here")
    folder = pathlib.Path(tf.__file__).parent
    libraries = ["-l:libtensorflow_cc.so.2", "-l:libtensorflow_framework.so.2", "-ldl"]
    command = [compiler, "-std=c++17", "-O0", "-Wall", "-Wextra", "-Werror"]
    command += ["-isystem", str(folder / "include"), str(HERE / "probe.cc"), "-o", str(binary)]
    command += [f"-L{folder}", *libraries, f"-Wl,-rpath,{folder}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return binary


def _text_ops():
    import tensorflow_text

    folder = pathlib.Path(tensorflow_text.__file__).parent / "python" / "ops"
    libraries = sorted(folder.glob("*.so"))
    assert libraries
    return libraries


@pytest.fixture(scope="session")
def toy_path(tmp_path_factory):
    """The exported toy translator."""
    from toy_export import export_shared_toy

    return export_shared_toy(tmp_path_factory)

"""Keeps the programs that XLA compiles in a folder, so that a later run need not compile them."""

import hashlib
import importlib.metadata
import os
import pathlib
import platform
from collections.abc import MutableMapping

#: The environment variable that names the folder.
VARIABLE = "KERAS_ATTENTION_XLA_CACHE"
CPU_INFO = pathlib.Path("/proc/cpuinfo")


def enable_xla_cache(
    directory: str | os.PathLike, environment: MutableMapping[str, str] = os.environ
) -> pathlib.Path:
    """Tells TensorFlow to keep XLA's programs for the CPU; call it before TensorFlow is imported.

    A program is used again where model, batch shape and dtypes are the same. Each has a few MB and
    is not deleted. Programs are those of one processor, one version of TensorFlow, its flags of XLA
    and its number of threads, so each of these has a folder of its own in `directory`.

    Args:
        directory: The folder. It is made if it is absent.
        environment: Where `TF_XLA_FLAGS` is set; flags that are there stay.

    Returns:
        The folder inside of `directory` that is used.

    Raises:
        OSError: If the folder cannot be made or written.
    """
    parts = [importlib.metadata.version("tensorflow"), platform.machine(), _describe_processor()]
    parts += [str(os.cpu_count())]
    names = ("TF_XLA_FLAGS", "XLA_FLAGS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
    parts += [environment.get(name, "") for name in names]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    folder = pathlib.Path(directory).expanduser().resolve() / digest
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise PermissionError(13, "Permission denied", str(folder))
    flags = (
        f"--tf_xla_persistent_cache_directory={folder}",
        "--tf_xla_persistent_cache_read_only=false",
        "--tf_xla_persistent_cache_device_types=CPU",
    )
    environment["TF_XLA_FLAGS"] = " ".join([environment.get("TF_XLA_FLAGS", ""), *flags]).strip()
    # Else each program that is read writes screens of remarks on the processor as errors.
    environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return folder


def _describe_processor():
    """Returns what instructions the processor has, as far as the system says."""
    try:
        lines = CPU_INFO.read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")

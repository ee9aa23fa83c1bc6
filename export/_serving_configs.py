"""Writes example configurations of TensorFlow Serving into every version.

    assets.extra/models.config       models, their base directories and versions
    assets.extra/batching.config     batching of requests of several clients
    assets.extra/monitoring.config   metrics for Prometheus

Copy them out of the version to the directory in which the server starts; see `docs/serving.md`.
"""

import os
import pathlib

MAX_BATCH_SIZE = 256  # of a request with batching enabled
MODELS_CONFIG = """\
# tensorflow_model_server --model_config_file=models.config --rest_api_port=8501
# The server keeps the versions that the policy names; `specific` keeps several for a rollback.
model_config_list {{
  config {{
    name: "{name}"
    base_path: "/models/{name}"
    model_platform: "tensorflow"
    model_version_policy {{ latest {{ num_versions: 1 }} }}
  }}
}}
"""
BATCHING_CONFIG = """\
# tensorflow_model_server --enable_batching --batching_parameters_file=batching.config ...
# Applies to every signature. The server waits at most 2 ms for more requests of a batch.
# It refuses a request of more than {largest} examples.
# Do not set enable_large_batch_splitting: the server concatenates the bytes of a request's parts,
# although an output is only as wide as the longest text of its part.
max_batch_size {{ value: {largest} }}
{sizes}
batch_timeout_micros {{ value: 2000 }}
max_enqueued_batches {{ value: 100 }}
num_batch_threads {{ value: 4 }}
"""
PADDING_CONFIG = """\
# For `ids` only: the server pads requests of different lengths with their first element.
# This is safe because the signature ignores ids beyond `length`.
pad_variable_length_inputs: true
"""
MONITORING_CONFIG = """\
# tensorflow_model_server --monitoring_config_file=monitoring.config --rest_api_port=8501 ...
prometheus_config {
  enable: true
  path: "/monitoring/prometheus/metrics"
}
"""


def write(directory: str | os.PathLike[str], name: str, batch_sizes, pad_inputs: bool) -> None:
    """Writes the three files into `assets.extra/` of the version in `directory`.

    Args:
        directory: Directory of the version.
        name: Name of the model; letters, digits, `_`, `-` and `.`.
        batch_sizes: Increasing ints, the sizes that a server may round batches up to; doubles of
            the last one follow, up to 256.
        pad_inputs: Whether the server may pad inputs of different lengths.
    """
    folder = pathlib.Path(directory) / "assets.extra"
    folder.mkdir(exist_ok=True)
    allowed = list(batch_sizes)
    while allowed[-1] < MAX_BATCH_SIZE:
        allowed.append(min(2 * allowed[-1], MAX_BATCH_SIZE))
    sizes = "\n".join(f"allowed_batch_sizes: {size}" for size in allowed)
    batching = BATCHING_CONFIG.format(largest=allowed[-1], sizes=sizes)
    (folder / "models.config").write_text(MODELS_CONFIG.format(name=name), encoding="utf-8")
    (folder / "batching.config").write_text(
        batching + (PADDING_CONFIG if pad_inputs else ""), encoding="utf-8"
    )
    (folder / "monitoring.config").write_text(MONITORING_CONFIG, encoding="utf-8")

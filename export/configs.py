"""Example configurations of a TensorFlow model server, written beside every version.

    assets.extra/models.config       which models, from where, which versions
    assets.extra/batching.config     how requests of several clients are put together
    assets.extra/monitoring.config   figures for Prometheus

They stand inside the version because a server takes everything else in a base directory for
somebody else's; copy them to where it is started from. `docs/serving.md` says how.
"""

import os
import pathlib

MOST_ROWS = 256  # of a request under batching
MODELS = """\
# tensorflow_model_server --model_config_file=models.config --rest_api_port=8501
# Old versions stay as long as the policy names them: `specific` keeps several for a roll-back.
model_config_list {{
  config {{
    name: "{name}"
    base_path: "/models/{name}"
    model_platform: "tensorflow"
    model_version_policy {{ latest {{ num_versions: 1 }} }}
  }}
}}
"""
BATCHING = """\
# tensorflow_model_server --enable_batching --batching_parameters_file=batching.config ...
# Holds for every signature. Wait at most 2 ms for more requests, then run what has come.
# A request of more than {largest} rows is refused.
# Do not set enable_large_batch_splitting: the server lays the parts of a request end to end as
# bytes, though an output may be as wide as the longest text of its part.
max_batch_size {{ value: {largest} }}
{sizes}
batch_timeout_micros {{ value: 2000 }}
max_enqueued_batches {{ value: 100 }}
num_batch_threads {{ value: 4 }}
"""
PADS = """\
# For `ids` only: requests of different lengths, padded with whatever stands first in them.
# The signature reads no id beyond `length`, so that is safe.
pad_variable_length_inputs: true
"""
MONITORING = """\
# tensorflow_model_server --monitoring_config_file=monitoring.config --rest_api_port=8501 ...
prometheus_config {
  enable: true
  path: "/monitoring/prometheus/metrics"
}
"""


def write(directory: str | os.PathLike, name: str, batch_sizes, pads: bool) -> None:
    """Writes the three files into `assets.extra/` of the version in `directory`.

    Args:
        directory: Of the version.
        name: Name of the model; letters, digits, `_`, `-` and `.`.
        batch_sizes: Increasing ints, the sizes that a server may round batches up to; larger
            batches are rounded up to their doubles.
        pads: Whether inputs of different lengths may be padded.
    """
    folder = pathlib.Path(directory) / "assets.extra"
    folder.mkdir(exist_ok=True)
    allowed = list(batch_sizes)
    while allowed[-1] < MOST_ROWS:
        allowed.append(min(2 * allowed[-1], MOST_ROWS))
    sizes = "\n".join(f"allowed_batch_sizes: {size}" for size in allowed)
    batching = BATCHING.format(largest=allowed[-1], sizes=sizes)
    (folder / "models.config").write_text(MODELS.format(name=name), encoding="utf-8")
    (folder / "batching.config").write_text(batching + (PADS if pads else ""), encoding="utf-8")
    (folder / "monitoring.config").write_text(MONITORING, encoding="utf-8")

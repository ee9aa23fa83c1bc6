"""Imports TensorFlow without its remarks on CUDA, oneDNN and functions traced anew.

TF_CPP_MIN_LOG_LEVEL does not reach them; which ones come depends on the processor. A function is
traced for each shape of the batches on purpose.

Everything else that TensorFlow writes while it starts, errors above all, is passed on.
"""

import os
import sys
import tempfile

from examples.xla_cache import VARIABLE, enable_xla_cache

REMARKS = (
    "cudart_stub.cc",
    "cuda_platform.cc",
    "absl::InitializeLog()",
    "oneDNN custom operations are on",
    # Of the first transpose of integers or booleans; Eigen computes it as it should.
    "oneDNN supports DT_INT32 only",
    "oneDNN supports DT_BOOL only",
)


def import_tensorflow(start_runtime: bool = True) -> None:
    """Imports TensorFlow and looks at its devices, leaving out remarks that are no errors.

    XLA's programs are kept in the folder that the variable `KERAS_ATTENTION_XLA_CACHE` names.

    Args:
        start_runtime: Whether to run a transpose of ids, as searches do, here, where TensorFlow's
            remark on the first of a process is left out. False for a program that makes a
            distribution strategy, which must come before the runtime starts.
    """
    if directory := os.environ.get(VARIABLE):
        enable_xla_cache(directory)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as caught:
        os.dup2(caught.fileno(), 2)
        try:
            import tensorflow as tf

            tf.get_logger().addFilter(_is_no_retracing)
            tf.config.list_physical_devices()
            if start_runtime:
                with tf.device("CPU"):
                    for dtype in ("int32", "bool"):
                        tf.function(tf.transpose)(tf.zeros((2, 3), dtype))
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            caught.seek(0)
            for line in caught.read().decode(errors="replace").splitlines():
                if not any(remark in line for remark in REMARKS):
                    print(line, file=sys.stderr)


def _is_no_retracing(record) -> bool:
    return "triggered tf.function retracing" not in record.getMessage()

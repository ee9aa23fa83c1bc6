"""Imports TensorFlow without its remarks on CUDA and oneDNN.

TF_CPP_MIN_LOG_LEVEL does not reach them; which ones come depends on the processor.

Everything else that TensorFlow writes while it starts, errors above all, is passed on.
"""

import os
import sys
import tempfile

REMARKS = (
    "cudart_stub.cc",
    "cuda_platform.cc",
    "absl::InitializeLog()",
    "oneDNN custom operations are on",
)


def import_tensorflow() -> None:
    """Imports TensorFlow and looks at its devices, leaving out remarks that are no errors."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as caught:
        os.dup2(caught.fileno(), 2)
        try:
            import tensorflow as tf

            tf.config.list_physical_devices()
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            caught.seek(0)
            for line in caught.read().decode(errors="replace").splitlines():
                if not any(remark in line for remark in REMARKS):
                    print(line, file=sys.stderr)

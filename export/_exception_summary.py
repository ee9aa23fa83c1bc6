"""Extracts the informative line from a long error message of TensorFlow or Keras."""

# TensorFlow puts a heading and the Python lines that made the node before the reason.
_SKIPPED_PREFIXES = ("Graph execution error:", "Detected at node", "Node:", " ")


def summarize_error(error: BaseException) -> str:
    """Returns the line of an error's message that names the cause.

    >>> summarize_error(ValueError("Graph execution error:\\n\\nNo OpKernel.\\nDevices: []"))
    'No OpKernel.'
    """
    lines = [line for line in str(error).splitlines() if line.strip()]
    informative_lines = [line for line in lines if not line.startswith(_SKIPPED_PREFIXES)]
    return (informative_lines or lines or [type(error).__name__])[0].strip()

"""Why something of TensorFlow or Keras failed, in the one line of an error message."""

# What TensorFlow puts before the reason: a heading, and which Python lines made the node.
_BEFORE = ("Graph execution error:", "Detected at node", "Node:", " ")


def reason(error: BaseException) -> str:
    """Returns the line of an error's message that says what happened.

    >>> reason(ValueError("Graph execution error:\\n\\nNo OpKernel was registered.\\nDevices: []"))
    'No OpKernel was registered.'
    """
    lines = [line for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith(_BEFORE)]
    return (told or lines or [type(error).__name__])[0].strip()

"""ConvS2S' gated convolution in NumPy, one position after another."""

import numpy as np


def linear_in_numpy(layer):
    """Returns kernel and bias, each column of the kernel g v / |v| under weight normalization."""
    weights = {w.name: np.array(w).astype("float64") for w in layer.weights}
    kernel = weights["kernel"]
    if "gain" in weights:
        for column in range(kernel.shape[1]):
            v = kernel[:, column]
            kernel[:, column] = weights["gain"][column] * v / np.sqrt(sum(v**2))
    return kernel, weights["bias"]


def gate_in_numpy(z, kernel, bias, k, causal):
    """GLU of the convolution of `(time, dim)`, one position after another."""
    outputs = []
    for i in range(len(z)):
        first = i - k + 1 if causal else i - (k - 1) // 2
        total = bias.copy()
        for offset in range(k):
            if 0 <= first + offset < len(z):
                total += z[first + offset] @ kernel[offset * z.shape[1] :][: z.shape[1]]
        a, b = np.split(total, 2)
        outputs.append(a / (1 + np.exp(-b)))
    return np.array(outputs)

"""The unit of Cho et al. 2014 in NumPy."""

import numpy as np


def cho_step(cell, x, c, h):
    """SPEC 3, one row: z, r and q by their names."""
    kernel, recurrent, bias = (np.array(w) for w in (cell.kernel, cell.recurrent_kernel, cell.bias))
    n, m = cell.units, len(x)
    wz, wr, w = (kernel[:m, i * n : (i + 1) * n].T for i in range(3))
    cz, cr, cc = (kernel[m:, i * n : (i + 1) * n].T for i in range(3))
    uz, ur, u = (recurrent[:, i * n : (i + 1) * n].T for i in range(3))
    bz, br, b = bias[:n], bias[n : 2 * n], bias[2 * n :]
    z = 1 / (1 + np.exp(-(wz @ x + uz @ h + cz @ c + bz)))
    r = 1 / (1 + np.exp(-(wr @ x + ur @ h + cr @ c + br)))
    if cell.reset_covers_context:
        q = np.tanh(w @ x + r * (u @ h + cc @ c) + b)
    else:
        q = np.tanh(w @ x + u @ (r * h) + cc @ c + b)
    return z * h + (1 - z) * q

"""What all pictures share: figures without `pyplot`, color bars, and the check of numbers."""

import numpy as np

LARGEST_INCHES = 11.0


def require_matplotlib():
    """Raises an ImportError that names the extra to install, if matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "keras_attention.plotting draws with matplotlib, which is not installed. "
            'Install it with `pip install ".[plot]"` in the checkout.'
        ) from error


def new_figure(width, height, layout="constrained"):
    """Returns a figure of so many inches that belongs to no `pyplot`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(max(width, 2.0), max(height, 1.6)), dpi=150, layout=layout)
    FigureCanvasAgg(figure)
    return figure


def grow(figure, tries=3):
    """Enlarges a figure until all that is drawn lies inside."""
    for _ in range(tries):
        figure.draw_without_rendering()
        width, height = figure.get_size_inches()
        drawn = figure.get_tightbbox(figure.canvas.get_renderer())
        wider = max(0.0, -drawn.x0) + max(0.0, drawn.x1 - width)
        higher = max(0.0, -drawn.y0) + max(0.0, drawn.y1 - height)
        if max(wider, higher) < 0.005:
            return
        figure.set_size_inches(
            *(
                size + (more + 0.05 if more else 0.0)
                for size, more in ((width, wider), (height, higher))
            )
        )


def soften(bar, points):
    """Makes a color bar light, with labels of so many points."""
    bar.outline.set_edgecolor("0.8")
    bar.ax.tick_params(length=0, labelsize=points)


def numbers(owner, name, array):
    """Returns what was given as a float32 array."""
    try:
        return np.asarray(array).astype("float32")
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{owner} expects `{name}` to be an array of numbers. Received: {error}"
        ) from error


def check_shares(owner, weights):
    """Raises unless an array of weights holds numbers from 0 to 1, but for rounding."""
    if not np.isfinite(weights).all() or weights.min() < -1e-3 or weights.max() > 1 + 1e-3:
        raise ValueError(
            f"{owner} expects `weights` to be numbers from 0 to 1: attention weights after the "
            f"normalizer, not scores. Received: numbers from {weights.min()} to {weights.max()}"
        )

"""Helpers for all plots: figures without `pyplot`, color bars, and checks of arrays."""

import numpy as np

from keras_attention import validation
from keras_attention.validation import missing_package_error

LARGEST_INCHES = 11.0
CELL_INCHES = 0.36  # size of a cell in maps with few tokens
LEGIBLE_INCHES = 0.16  # minimum size of a cell with a label


def require_matplotlib():
    """Raises an ImportError that names the extra to install, if matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError as error:
        raise missing_package_error("keras_attention.plotting", "matplotlib", "plot") from error


def new_figure(width, height, layout="constrained"):
    """Returns a figure of this size in inches that is not managed by `pyplot`."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(max(width, 2.0), max(height, 1.6)), dpi=150, layout=layout)
    FigureCanvasAgg(figure)
    return figure


def enlarge_to_fit(figure, tries=3):
    """Enlarges a figure until all its artists lie inside."""
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


def cell_inches(rows, columns, height=LARGEST_INCHES, width=LARGEST_INCHES):
    """Returns height and width of the cells of a map with a maximum size.

    Cells are squares. If only one side has many tokens, the cells are thin along that side.
    """
    square = min(CELL_INCHES, height / rows, width / columns)
    return (
        max(square, min(LEGIBLE_INCHES, height / rows)),
        max(square, min(LEGIBLE_INCHES, width / columns)),
    )


def style_color_bar(bar, points):
    """Makes a color bar light, with labels of the given size in points."""
    bar.outline.set_edgecolor("0.8")
    bar.ax.tick_params(length=0, labelsize=points)


def make_float_array(owner, name, array):
    """Returns `array` as a float32 array."""
    try:
        return np.asarray(array).astype("float32")
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{owner} expects `{name}` to be an array of numbers. Received: {error}"
        ) from error


def check_weights(owner, weights, name="weights"):
    """Raises unless an array contains numbers from 0 to 1, up to rounding."""
    finite = np.isfinite(weights)
    if not finite.all():
        place = tuple(int(i) for i in np.argwhere(~finite)[0])
        raise ValueError(
            f"{owner} expects `{name}` to be finite numbers from 0 to 1. Received: "
            f"{np.count_nonzero(~finite)} of {weights.size} not finite, the first "
            f"{name}[{', '.join(map(str, place))}]={weights[place]}"
        )
    if (weights < -1e-3).any() or (weights > 1 + 1e-3).any():
        raise ValueError(
            f"{owner} expects `{name}` to be numbers from 0 to 1: attention weights after the "
            f"normalizer, not scores. Received: numbers from {weights.min()} to {weights.max()}"
        )


def choose_full_weight(weights):
    """Returns the weight that gets the full color if a figure has its own scale.

    It is four times the mean weight, or the largest weight if that is more, and 1 at most. So
    uniform weights are light, however many there are, and outstanding weights are dark.
    """
    return max(float(weights.max()), min(1.0, 4.0 * float(weights.mean()))) or 1.0


def resolve_vmax(owner, vmax, weights):
    """Returns the checked `vmax`; for None the result of `choose_full_weight` for all arrays."""
    if vmax is None:
        return choose_full_weight(np.concatenate([np.ravel(array) for array in weights]))
    return validation.check_number_in_range(owner, "vmax", vmax, 0, 1, exclude_low=True)


def get_colormap(owner, cmap, name="cmap"):
    """Returns the matplotlib colormap of that name; a colormap is returned unchanged."""
    require_matplotlib()
    from matplotlib import colormaps
    from matplotlib.colors import Colormap

    if isinstance(cmap, Colormap):
        return cmap
    if not isinstance(cmap, str) or cmap not in colormaps:
        raise ValueError(
            f"{owner} expects `{name}` to be the name of a matplotlib colormap, such as 'Blues' or "
            f"'viridis'. Received: {name}={cmap!r}"
        )
    return colormaps[cmap]

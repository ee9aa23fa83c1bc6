"""Figures of bits and weights: axes of exact sizes, each with one array."""

import numpy as np

from keras_attention.plotting import _figures
from keras_attention.plotting._text_layout import FONT_POINTS, TextLayout

POINTS = 8.0
ROOM_INCHES = 0.3  # space for a number beside an axis
BAR_WIDTH, BAR_HEIGHT = 0.1, 0.7


class PanelGrid:
    """A figure with axes of given sizes, in inches from the top left; see `fit_to_axes`."""

    def __init__(self):
        self.figure = _figures.new_figure(1.0, 1.0, layout=None)
        self._boxes = []

    def axes(self, left, top, width, height):
        """Returns new axes at this position."""
        axes = self.figure.add_axes((0, 0, 1, 1), label=f"axes {len(self._boxes)}")
        self._boxes.append((axes, left, top, width, height))
        return axes

    def draw_color_bar(self, image, left, top=0.0):
        """Draws the color bar of an image at this position."""
        low, high = image.get_clim()
        axes = self.axes(left, top, BAR_WIDTH, BAR_HEIGHT)
        bar = self.figure.colorbar(image, cax=axes)
        places = [low, (low + high) / 2, high]
        bar.set_ticks(places, labels=[f"{place:.2g}" for place in places])
        _figures.style_color_bar(bar, FONT_POINTS[0])

    def fit_to_axes(self, margin=0.08):
        """Returns the figure, resized to contain its axes and all their labels."""
        width = max(left + width for _, left, _, width, _ in self._boxes)
        height = max(top + height for _, _, top, _, height in self._boxes)
        self._lay_out(0.0, 0.0, width, height)
        drawn = self.figure.get_tightbbox(self.figure.canvas.get_renderer())
        left, above = margin - drawn.x0, margin + drawn.y1 - height
        self._lay_out(left, above, drawn.width + 2 * margin, drawn.height + 2 * margin)
        return self.figure

    def _lay_out(self, left, above, width, height):
        self.figure.set_size_inches(width, height)
        for axes, x, y, across, down in self._boxes:
            bottom = height - above - y - down
            axes.set_position(((left + x) / width, bottom / height, across / width, down / height))


def draw_array(axes, array, title=None):
    """Plots the rows of an array: white is 0, blue is positive, red is negative."""
    largest = max(1.0, float(np.abs(array).max()))
    signed = array.min() < 0
    image = axes.imshow(
        array,
        cmap="RdBu" if signed else "Blues",
        vmin=-largest if signed else 0.0,
        vmax=largest,
        aspect="auto",
        interpolation="nearest",
    )
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_color("0.7")
    if title:
        axes.set_title(title, loc="left", fontsize=POINTS, pad=3)
    return image


def label_ticks(axis, numbers, inches):
    """Labels an axis with as many integers as fit, at round steps."""
    room = max(1, int(inches / ROOM_INCHES))
    steps = (factor * 10**power for power in range(9) for factor in (1, 2, 5))
    step = next(step for step in steps if len(numbers) <= step * room)
    places = [place for place, number in enumerate(numbers) if number % step == 0]
    axis.set_ticks(places, [str(numbers[place]) for place in places], fontsize=FONT_POINTS[0])
    axis.set_tick_params(length=2, pad=1, color="0.7")


def write_axes_title(axes, text, stacklevel):
    """Writes a line in any script above the axes and their title."""
    text_layout = TextLayout([text], stacklevel)
    axes.annotate(
        text_layout.replace_missing(text),
        (0.0, 1.0),
        xytext=(0.0, 17.0 if axes.get_title(loc="left") else 4.0),
        xycoords="axes fraction",
        textcoords="offset points",
        annotation_clip=False,
        fontsize=POINTS + 2,
        **text_layout.style,
    )

"""Pictures of bits and weights: axes of exact sizes, each with one array in them."""

import numpy as np

from keras_attention.plotting import figures
from keras_attention.plotting.lettering import FONT_POINTS, Lettering

POINTS = 8.0
ROOM_INCHES = 0.3  # of a number beside an axis
BAR_WIDTH, BAR_HEIGHT = 0.1, 0.7


class Sheet:
    """A figure of axes of given sizes, in inches from the top left; `finished` fits it to them."""

    def __init__(self):
        self.figure = figures.new_figure(1.0, 1.0, layout=None)
        self._boxes = []

    def axes(self, left, top, width, height):
        """Returns new axes at that place."""
        axes = self.figure.add_axes((0, 0, 1, 1), label=f"axes {len(self._boxes)}")
        self._boxes.append((axes, left, top, width, height))
        return axes

    def bar(self, image, left, top=0.0):
        """Draws the color bar of an image at that place."""
        low, high = image.get_clim()
        axes = self.axes(left, top, BAR_WIDTH, BAR_HEIGHT)
        bar = self.figure.colorbar(image, cax=axes)
        places = [low, (low + high) / 2, high]
        bar.set_ticks(places, labels=[f"{place:.2g}" for place in places])
        figures.soften(bar, FONT_POINTS[0])

    def finished(self, margin=0.08):
        """Returns the figure, as large as its axes and all their labels."""
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


def draw(axes, array, title=None):
    """Draws the rows of an array: white is 0, blue is positive, red is negative."""
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


def mark(axis, numbers, inches):
    """Writes as many of the whole numbers along an axis as have room: round ones."""
    room = max(1, int(inches / ROOM_INCHES))
    steps = (factor * 10**power for power in range(9) for factor in (1, 2, 5))
    step = next(step for step in steps if len(numbers) <= step * room)
    places = [place for place, number in enumerate(numbers) if number % step == 0]
    axis.set_ticks(places, [str(numbers[place]) for place in places], fontsize=FONT_POINTS[0])
    axis.set_tick_params(length=2, pad=1, color="0.7")


def write_above(axes, text, stacklevel):
    """Writes a line of any script above the axes and their title."""
    letters = Lettering([text], stacklevel)
    axes.annotate(
        letters.drawable(text),
        (0.0, 1.0),
        xytext=(0.0, 17.0 if axes.get_title(loc="left") else 4.0),
        xycoords="axes fraction",
        textcoords="offset points",
        annotation_clip=False,
        fontsize=POINTS + 2,
        **letters.style,
    )

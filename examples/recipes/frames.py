"""Rows of small images with boxes on them, as a figure and as an animation."""

import dataclasses

import numpy as np

INCHES = 0.9
FRAMES_PER_SECOND, GIF_DPI = 3, 100
LAST_FRAMES = 4  # how often an animation shows the last frame again


@dataclasses.dataclass(frozen=True)
class Cell:
    """A small image.

    Attributes:
        image: Array `(height, width)` from 0 to 1, 1 is ink.
        boxes: Boxes `(left, top, width, height)` in pixels, drawn on it; the last one is strong.
        title: What stands above.
    """

    image: np.ndarray
    boxes: tuple = ()
    title: str = ""


def plot_cells(rows: list[list[Cell]]):
    """Returns a figure of rows of cells."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    columns = max(map(len, rows))
    size = max(INCHES * columns, 2.0), max((INCHES + 0.12) * len(rows), 1.6)
    figure = Figure(size, dpi=150, layout="tight")
    FigureCanvasAgg(figure)
    axes = figure.subplots(len(rows), columns, squeeze=False)
    for line, row in zip(axes, rows, strict=True):
        for one, cell in zip(line, row, strict=False):
            _draw(one, cell)
        for one in line[len(row) :]:
            one.remove()
    return figure


@dataclasses.dataclass(frozen=True)
class Animation:
    """An animated GIF, written as a figure is.

    Attributes:
        frames: Frames, each rows of cells, all of one shape.
    """

    frames: list[list[list[Cell]]]

    def savefig(self, path, dpi: float | None = None) -> None:
        """Writes the file, with `GIF_DPI` dots an inch: `dpi` is that of figures."""
        from matplotlib.animation import PillowWriter

        figure = plot_cells(self.frames[0])
        figure.canvas.draw()
        figure.set_layout_engine("none")  # laid out once, not for every frame
        writer = PillowWriter(fps=FRAMES_PER_SECOND)
        with writer.saving(figure, path, dpi=GIF_DPI):
            for frame in [*self.frames, *[self.frames[-1]] * LAST_FRAMES]:
                for one, cell in zip(figure.axes, (c for row in frame for c in row), strict=True):
                    one.clear()
                    _draw(one, cell)
                writer.grab_frame()


def _draw(axes, cell):
    from matplotlib.patches import Rectangle

    axes.imshow(cell.image, cmap="gray_r", vmin=0.0, vmax=1.0, interpolation="nearest")
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_color("0.8")
    axes.set_title(cell.title, fontsize=7, pad=2)
    limits = axes.get_xlim(), axes.get_ylim()
    for number, (left, top, width, height) in enumerate(cell.boxes, 1):
        last = number == len(cell.boxes)
        axes.add_patch(
            Rectangle(
                (left, top),
                width,
                height,
                fill=False,
                edgecolor="tab:red" if last else "tab:blue",
                linewidth=1.4 if last else 0.6,
            )
        )
    axes.set_xlim(limits[0])  # a box may reach beyond the image
    axes.set_ylim(limits[1])

"""What the tests of pictures ask of a figure."""

import warnings


def texts(labels):
    return [label.get_text() for label in labels]


def draw(figure):
    """Draws the figure; whatever matplotlib warns of would fail here."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure.canvas.draw()

"""What the tests of pictures ask of a figure."""

import warnings


def texts(labels):
    return [label.get_text() for label in labels]


def assert_inside(figure):
    """Asserts that all that is drawn lies inside the figure, and that every text is legible."""
    draw(figure)
    assert_legible(figure)
    renderer, (width, height) = figure.canvas.get_renderer(), figure.bbox.max
    drawn = [*figure.axes, *figure.texts]
    if figure._suptitle is not None:
        drawn.append(figure._suptitle)
    for artist in drawn:
        box = artist.get_tightbbox(renderer)
        assert box.x0 >= -1 and box.y0 >= -1, (artist, box)
        assert box.x1 <= width + 1 and box.y1 <= height + 1, (artist, box)


def assert_legible(figure):
    """Asserts that no text is smaller than the guide says."""
    from matplotlib.text import Text

    small = {text.get_text() for text in figure.findobj(Text) if text.get_fontsize() < 7.5}
    assert small <= {""}, "letters of less than 7.5 points"


def draw(figure):
    """Draws the figure; whatever matplotlib warns of would fail here."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure.canvas.draw()

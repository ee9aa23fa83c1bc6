import numpy as np
import pytest

from examples.recipes.drawing import make_box
from examples.recipes.frames import Animation, Cell, plot_cells
from examples.recipes.recognition import get_widest_patch, make_cells
from keras_attention import RetinaGlimpse


def test_a_box_stands_where_the_patch_is_read():
    """A single pixel of ink is seen as far as it lies in the box."""
    retina = RetinaGlimpse(size=3, num_scales=2)
    for location in ([0.3, -0.5], [-0.9, 0.1], [0.0, 0.0]):
        location = np.array(location, "float32")
        left, top, width, height = get_widest_patch(retina, (11, 13), location)
        assert (width, height) == (6, 6)
        pixels = np.eye(11 * 13, dtype="float32").reshape(-1, 11, 13)
        patches = np.asarray(retina(pixels, np.repeat(location[None], 11 * 13, axis=0)))
        columns, rows = np.arange(13), np.arange(11)
        across, down = (
            np.clip(np.minimum(n + 0.5, low + 6) - np.maximum(n - 0.5, low), 0, 1)
            for n, low in ((columns, left), (rows, top))
        )
        seen = patches[:, 1].sum(axis=(1, 2)) * 4  # a cell of the wide patch is four pixels
        np.testing.assert_allclose(seen.reshape(11, 13), down[:, None] * across, atol=1e-5)


def test_what_was_not_seen_is_pale():
    retina, image = RetinaGlimpse(size=4), np.ones((8, 8))
    locations = np.array([[-0.5, -0.5], [0.5, 0.5]])
    first, second, last = make_cells(retina, image, 3, np.eye(10)[5], locations)
    expected = np.full((8, 8), 0.25)
    expected[:4, :4] = 1
    np.testing.assert_array_equal(first.image, expected)
    expected[4:, 4:] = 1
    np.testing.assert_array_equal(second.image, expected)
    assert last.title == "5 (100 %), not 3"
    assert last.boxes == (*first.boxes, *second.boxes)


def test_a_window_holds_the_middles_of_its_filters():
    # Five filters, two pixels apart, around pixel 10 of a row that counts from 1: 6 to 14.
    left, top, width, height = make_box(np.array([10.0, 4.0, 1.0, 2.0, 1.0]), 5)
    assert (left + 0.5, left + width - 0.5) == (5.0, 13.0)
    assert (top + 0.5, top + height - 0.5) == (-1.0, 7.0)


def test_an_animation_has_a_frame_a_step_and_rests_on_the_last(tmp_path):
    image = pytest.importorskip("PIL.Image")
    frames = [[[Cell(np.full((5, 5), shade), ((1, 1, 2, 2),))] * 2] for shade in (0.2, 0.5, 0.9)]
    assert len(plot_cells(frames[0]).axes) == 2
    Animation(frames).savefig(tmp_path / "steps.gif", dpi=150)
    with image.open(tmp_path / "steps.gif") as gif:
        assert gif.n_frames >= 3  # equal frames may be joined
        shades = []
        for number in (0, 1, 2):
            gif.seek(number)
            shades.append(np.asarray(gif.convert("L")).mean())
    assert shades[0] > shades[1] > shades[2]  # more ink is darker

"""Scenes of digits: what is drawn and said, their ids, their order, and what is measured."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from examples.data import scenes
from examples.data.scene_stream import Encoder, SceneStream, make_tokenizer
from examples.recipes import caption_training
from examples.recipes.caption_metrics import (
    CaptionTrainer,
    PointingAccuracy,
    make_loss,
    make_metrics,
)
from examples.recipes.captions import Captions
from examples.training.fitting import evaluate
from keras_attention.export import tokenizers

# Two pictures a digit: a frame of ink as bright as the digit says, 20 points wide.
LABELS = np.repeat(np.arange(10), 2)
IMAGES = np.zeros((20, 28, 28), np.uint8)
IMAGES[:, 4:24, 4:24] = (100 + 10 * LABELS)[:, None, None]


def painter(**options):
    return scenes.Painter(IMAGES, LABELS, **options)


def draw_scenes(count, **options):
    generator = np.random.default_rng(1)
    paint = painter(**options)
    return [paint.draw(generator) for _ in range(count)]


def stream(seed=1, batches=3, guided=False, **options):
    paint = painter(guided=guided, **options)
    encoder = Encoder(make_tokenizer(), paint.longest)
    names = ("image", "guide", "target") if guided else ("image", "target")
    return SceneStream(paint, encoder, 5, batches, seed, names)


# Scenes.


class Drawn:
    """Draws one matrix."""

    def __init__(self, *rows):
        self.matrix = np.array(rows)

    def uniform(self, low, high, shape):
        assert (low, high, shape) == (-0.2, 0.2, self.matrix.shape)
        return self.matrix


def test_a_distorted_image_shows_at_each_point_what_was_where_the_matrix_leads():
    image = np.random.default_rng(1).integers(0, 256, (5, 5)).astype(np.uint8)
    turned = scenes.distort(image, 0.2, Drawn([-2, 0], [0, -2]))
    np.testing.assert_array_equal(turned, image[::-1, ::-1])
    mirrored = scenes.distort(image, 0.2, Drawn([-1, 1], [1, -1]))
    np.testing.assert_array_equal(mirrored, image.T)
    smaller = scenes.distort(image, 0.2, Drawn([1, 0], [0, 0.5]))
    rows = np.zeros((5, 7))
    rows[1:4, 1:6] = image[::2]
    between = (rows[:, 1] + rows[:, 2]) / 2  # half of a point to the right of the first column
    np.testing.assert_array_equal(smaller[:, 1], np.rint(between))
    np.testing.assert_array_equal(smaller[:, 0], np.zeros(5))


def test_digits_are_distorted_in_training_alone(monkeypatch):
    monkeypatch.setattr(caption_training, "read_mnist", lambda *_: (IMAGES, LABELS))
    painters = Captions(mnist=".", distortion=0.2).read_data()
    drawn = {
        name: [painter.draw(np.random.default_rng(seed)) for seed in range(5)]
        for name, painter in {"plain": painter(), **painters}.items()
    }
    for plain, training, held_out in zip(*drawn.values(), strict=True):
        np.testing.assert_array_equal(held_out.image, plain.image)
        assert training.digits == plain.digits and np.any(training.image != plain.image)


def test_every_digit_is_whole_inside_its_cell_and_nowhere_else():
    counts = set()
    for scene in draw_scenes(50, grid=3, digits=(2, 4)):
        assert scene.image.shape == (72, 72, 1)
        covered = np.zeros((72, 72), bool)
        for digit, (top, left, bottom, right) in zip(scene.digits, scene.boxes, strict=True):
            cell = scene.image[top:bottom, left:right, 0]
            assert set(np.unique(cell)) == {0, 100 + 10 * digit}
            assert (cell > 0).sum() == 20 * 20
            covered[top:bottom, left:right] = True
        assert not scene.image[~covered].any()
        assert list(scene.boxes) == sorted(set(scene.boxes))  # reading order
        assert scene.caption.split() == [scenes.NAMES[digit] for digit in scene.digits]
        assert scene.named == scene.boxes
        counts.add(len(scene.digits))
    assert counts == {2, 3, 4}


def test_digits_move_inside_their_cells():
    tops = {
        int(np.argmax(scene.image.any(axis=(1, 2))))
        for scene in draw_scenes(60, grid=1, digits=(1, 1))
    }
    assert tops == {0, 1, 2, 3, 4}


def test_a_describe_place_tells_where_the_one_digit_is_that_the_sentence_names():
    rows, columns = {0: "top", 24: "middle", 48: "bottom"}, {0: "left", 24: "center", 48: "right"}
    guides = set()
    for scene in draw_scenes(50, guided=True):
        assert len(set(scene.digits)) == len(scene.digits)
        (named,) = {word for word in scene.guide.split() if word in scenes.NAMES}
        place = scene.digits.index(scenes.NAMES.index(named))
        top, left = scene.boxes[place][:2]
        assert scene.caption == f"at the {rows[top]} {columns[left]}"
        assert scene.named == (scene.boxes[place],) * 4
        guides.add(scene.guide.replace(named, "{}"))
    assert guides == set(scenes.GUIDES)


def test_arguments_of_a_painter_are_checked():
    with pytest.raises(ValueError, match="from 1 to at most 4, on a grid of 2 x 2"):
        painter(grid=2, digits=(2, 5))
    with pytest.raises(ValueError, match="`grid`"):
        painter(grid=4)
    for amount in (-0.1, 1.0):
        with pytest.raises(ValueError, match=r"`distortion` to be a number in \[0, 1\)"):
            painter(distortion=amount)
    with pytest.raises(ValueError, match="Received: none of 0, 7"):
        scenes.Painter(IMAGES, np.where((LABELS == 0) | (LABELS == 7), 1, LABELS))


# Ids and batches.


def test_captions_are_shifted_and_padded_and_boxes_stand_with_their_words():
    inputs, labels = stream().arrays(0, 0)
    tokenizer = make_tokenizer()
    for row, scene in enumerate(stream().scenes(0, 0)):
        ids = tokenizer.encode([scene.caption])[0].numpy()[0].tolist()
        behind = [0] * (4 - len(ids))
        assert inputs["target"][row].tolist() == [2, *ids, *behind]
        assert labels["caption"][row].tolist() == [*ids, 3, *behind]
        assert labels["box"][row, : len(ids)].tolist() == [list(box) for box in scene.boxes]
        assert not labels["box"][row, len(ids) :].any()
        np.testing.assert_array_equal(inputs["image"][row], scene.image)


def test_guides_are_ids_of_the_words_said():
    inputs, _ = stream(guided=True).arrays(0, 0)
    texts = make_tokenizer().decode(inputs["guide"]).numpy()
    assert [text.decode() for text in texts] == [
        scene.guide for scene in stream(guided=True).scenes(0, 0)
    ]


def test_the_tokenizer_comes_back_and_knows_every_word(tmp_path):
    make_tokenizer().save(tmp_path / "words")
    tokenizer = tokenizers.load(tmp_path / "words")
    texts = [guide.format("three") for guide in scenes.GUIDES]
    texts += [scenes.describe_place(row, column, 3) for row in range(3) for column in range(3)]
    assert not (tokenizer.encode(texts)[0].numpy() == 1).any()


def test_batches_are_a_function_of_seed_epoch_and_number():
    def epoch(number, start=0, **options):
        batches = stream(**options).epoch(number, start)
        return [(i["image"].numpy(), labels["logits"].numpy()) for i, labels in batches]

    whole, rest = epoch(4), epoch(4, start=1)
    assert len(whole) == 3
    for (image, caption), (again, same) in zip(whole[1:], rest, strict=True):
        np.testing.assert_array_equal(image, again)
        np.testing.assert_array_equal(caption, same)
    for other in (epoch(5), epoch(4, seed=2**32 + 1)):
        assert not np.array_equal(whole[0][0], other[0][0])
    assert not np.array_equal(whole[0][0], whole[1][0])
    assert stream().digest() == stream().digest() != stream(seed=2).digest()


# What is measured.


def test_words_and_looks_are_counted_without_padding():
    caption = tf.constant([[4, 5, 3], [6, 3, 0]])
    box = np.zeros((2, 3, 4), np.float32)
    box[0, 0], box[0, 1], box[1, 0] = (0, 0, 8, 8), (8, 16, 16, 24), (0, 8, 8, 16)
    looks = np.zeros((2, 3, 18), np.float32)  # 3 rows, 6 columns on 24 points: 8 by 4 each
    looks[0, 0, 1] = 1.0  # y 4, x 6: inside
    looks[0, 1, 6 + 3] = 1.0  # y 12, x 14: just beside
    looks[1, 0, 2] = 1.0  # y 4, x 10: inside
    looks[:, 2, 0] = 1.0  # of the EOS token and of padding: no place
    logits = tf.one_hot([[4, 6, 3], [6, 3, 0]], 9) * 9.0
    inputs = {
        "logits": keras.Input([3, 9], name="logits"),
        "weights": keras.Input([None, 18], name="weights"),
    }
    outputs = {name: keras.layers.Identity()(tensor) for name, tensor in inputs.items()}
    model = keras.Model(inputs, outputs)
    batch = {"logits": logits, "weights": looks}, {"logits": caption, "weights": box}
    data = tf.data.Dataset.from_tensors(batch)
    metrics = make_metrics((3, 6), side=24)
    numbers = evaluate(model, data, make_loss(), metrics, trainer=CaptionTrainer)
    assert sorted(numbers) == ["accuracy", "loss", "perplexity", "pointing_accuracy"]
    log_probs = tf.nn.log_softmax(logits).numpy()
    loss = -np.mean([log_probs[0, n, [4, 5, 3][n]] for n in range(3)] + [log_probs[1, 0, 6]] * 2)
    assert numbers["loss"] == pytest.approx(loss, rel=1e-5)
    assert numbers["perplexity"] == pytest.approx(np.exp(loss), rel=1e-5)
    assert numbers["accuracy"] == pytest.approx(4 / 5)
    assert numbers["pointing_accuracy"] == pytest.approx(2 / 3)
    for weights in (looks, looks[:, :1]):  # the second: one look for all words of a caption
        pointing = PointingAccuracy((3, 6), side=24)
        pointing.update_state(tf.constant(box), tf.constant(weights))
        assert (float(pointing.total), float(pointing.count)) == (2.0, 3.0)

"""Compiled searches: any size goes through a few shapes, and the answers are the plain ones."""

import answer
import numpy as np
import pytest
import tensorflow as tf
from served_translators import TEXTS, column
from toy_translator import toy_translator

from keras_attention.export import (
    Compilation,
    export_translator,
    model_card,
    tokenizers,
    validate_export,
    warmup,
)


@pytest.fixture(scope="module")
def bucketed():
    """Sums of ids, a matrix over the source, and the shape that the program had."""

    def function(ids, length):
        shape = tf.stack([tf.shape(ids)[0], tf.shape(ids)[1]])
        keep = tf.sequence_mask(length, tf.shape(ids)[1])
        return {
            "sum": tf.reduce_sum(tf.where(keep, ids, 0), axis=1),
            "alignment": tf.cast(tf.stack([ids, 2 * ids], axis=1), tf.float32),
            "shape": tf.tile(shape[None], [tf.shape(ids)[0], 1]),
        }

    return Compilation((2, 3), (4, 8)).in_buckets(function)


@pytest.mark.parametrize(
    ("rows", "columns", "shape"),
    [
        (1, 1, (2, 4)),
        (2, 4, (2, 4)),
        (3, 5, (3, 8)),
        (7, 8, (3, 8)),  # three parts
        (2, 9, (2, 16)),  # beyond the largest: a multiple of it
        (0, 3, (2, 4)),
    ],
)
def test_every_size_goes_through_its_bucket(bucketed, rows, columns, shape):
    generator = np.random.default_rng(rows + columns)
    ids = generator.integers(1, 9, (rows, columns)).astype("int32")
    length = generator.integers(1, columns + 1, rows).astype("int32")
    found = bucketed(tf.constant(ids), tf.constant(length))
    keep = np.arange(columns) < length[:, None]
    assert found["sum"].numpy().tolist() == (ids * keep).sum(axis=1).tolist()
    assert found["alignment"].numpy().tolist() == np.stack([ids, 2 * ids], axis=1).tolist()
    assert found["shape"].numpy().tolist() == [list(shape)] * rows


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"batch_sizes": ()}, r"`batch_sizes` to be positive ints that increase.*\(\)"),
        ({"batch_sizes": (8, 1)}, "batch_sizes=.8, 1."),
        ({"source_lengths": (0, 4)}, "`source_lengths` to be a positive int.*source_lengths=0"),
    ],
)
def test_sizes_are_checked(options, text):
    with pytest.raises(ValueError, match=text):
        Compilation(**options)


@pytest.mark.slow
def test_compiled_signatures_say_what_plain_ones_say(tmp_path):
    source = tokenizers.train("characters", ["<de> abc defg", "hij klm"], symbols=["<de>"])
    target = tokenizers.train("words", ["one two three four five six seven"])
    model = toy_translator(source.vocabulary_size, target.vocabulary_size + 3)
    options = {"source": source, "target": target, "beam_width": 3, "max_length": 7}
    options["max_source_length"] = 13
    plain = export_translator(model, tmp_path, **options)
    xla = Compilation((2, 4), (8, 16))
    compiled = export_translator(model, tmp_path, xla=xla, **options)
    assert validate_export(plain) == validate_export(compiled) == []
    assert model_card.read(plain)["xla"] is None
    assert model_card.read(compiled)["xla"]["batch_sizes"] == [2, 4]
    assert "--xla_cpu_compilation_enabled" in (compiled / model_card.MARKDOWN_FILE).read_text()
    (compiled / model_card.JSON_FILE).rename(tmp_path / "card")
    assert any("asks for XLA" in finding for finding in validate_export(compiled))

    shapes = {
        (r.inputs["ids"].shape[0], r.inputs["ids"].shape[1] + 1)
        for r in warmup.read_requests(compiled)
        if r.signature == "ids"
    }
    assert shapes == set(xla.shapes())
    versions = [answer.Loaded(path) for path in (plain, compiled)]
    ids, length = source.encode(TEXTS[:3])
    requests = [("ids", {"ids": ids.numpy(), "length": length.numpy()})]
    for texts in (TEXTS, TEXTS[:1], TEXTS[:0]):  # 5 rows are two parts of 4
        for signature in ("serving_default", "translate_with_alignment", "greedy"):
            requests.append((signature, {"text": column(texts)}))
    for signature, inputs in requests:
        expected, found = (version.ask(signature, **inputs) for version in versions)
        for name, value in expected.items():
            assert found[name].shape == value.shape, (signature, name)
            if value.dtype == np.float32:
                np.testing.assert_allclose(found[name], value, atol=1e-5)
            else:
                assert np.array_equal(found[name], value), (signature, name)

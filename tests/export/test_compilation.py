"""Compiled searches: any size goes through a few shapes, and the answers are the plain ones."""

import answer
import keras
import numpy as np
import pytest
import tensorflow as tf
from served_translators import TEXTS, column
from toy_translator import toy_translator

from examples.models import transformer
from keras_attention.export import (
    SearchOptions,
    XLABuckets,
    _model_card,
    _saved_model_file,
    _warmup_requests,
    export_translator,
    tokenizers,
    validate_export,
)
from keras_attention.export._digest_manifest import write_manifest
from keras_attention.export._pipeline import IDS, TranslationPipeline
from keras_attention.export._tf_functions import make_tf_function
from keras_attention.kernels.matmul_precision import kernel_matmul


def describe_batch(ids, length):
    """Sums of ids, a matrix over the source, and the shape that the program had."""
    shape = tf.stack([tf.shape(ids)[0], tf.shape(ids)[1]])
    keep = tf.sequence_mask(length, tf.shape(ids)[1])
    return {
        "sum": tf.reduce_sum(tf.where(keep, ids, 0), axis=1),
        "alignment": tf.cast(tf.stack([ids, 2 * ids], axis=1), tf.float32),
        "shape": tf.tile(shape[None], [tf.shape(ids)[0], 1]),
    }


@pytest.fixture(scope="module")
def bucket_search():
    return XLABuckets((2, 3), (4, 8)).compile_in_buckets(describe_batch)


@pytest.mark.thorough
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
def test_every_size_goes_through_its_bucket(bucket_search, rows, columns, shape):
    generator = np.random.default_rng(rows + columns)
    ids = generator.integers(1, 9, (rows, columns)).astype("int32")
    length = generator.integers(1, columns + 1, rows).astype("int32")
    found = bucket_search(tf.constant(ids), tf.constant(length))
    keep = np.arange(columns) < length[:, None]
    assert found["sum"].numpy().tolist() == (ids * keep).sum(axis=1).tolist()
    assert found["alignment"].numpy().tolist() == np.stack([ids, 2 * ids], axis=1).tolist()
    assert found["shape"].numpy().tolist() == [list(shape)] * rows


def test_one_example_has_a_program_that_is_traced_for_it():
    traced = []

    def search(ids, length):
        traced.append(ids.shape[0])
        return describe_batch(ids, length)

    search = XLABuckets((1, 4), (4,)).compile_in_buckets(search)
    for rows, part in ((0, 1), (1, 1), (2, 4), (5, 4)):
        found = search(tf.ones([rows, 3], tf.int32), tf.fill([rows], 3))
        assert found["sum"].numpy().tolist() == [3] * rows
        assert found["shape"].numpy().tolist() == [[part, 4]] * rows
    assert 1 in traced and None in traced


@pytest.mark.parametrize(("rows", "part"), [(33, 32), (64, 32), (70, 32), (31, 31), (16, 31)])
def test_a_large_batch_is_split_and_put_together_in_order(rows, part):
    search = XLABuckets((31, 64), (4,), split=2).compile_in_buckets(describe_batch)
    ids = np.random.default_rng(rows).integers(1, 9, (rows, 3)).astype("int32")
    found = search(tf.constant(ids), tf.fill([rows], 3))
    assert found["sum"].numpy().tolist() == ids.sum(axis=1).tolist()
    assert found["shape"].numpy().tolist() == [[part, 4]] * rows


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"batch_sizes": ()}, r"`batch_sizes` to be increasing positive ints.*\(\)"),
        ({"batch_sizes": (8, 1)}, "batch_sizes=.8, 1."),
        ({"split": 0}, "`split` to be a positive int.*split=0"),
        ({"split": 10**11}, "at most the largest of `batch_sizes`, 32.*split=100000000000"),
        ({"precision": "int8"}, "`precision` to be.*bfloat16.*precision='int8'"),
        ({"source_lengths": (0, 4)}, "`source_lengths` to be a positive int.*source_lengths=0"),
    ],
)
def test_sizes_are_checked(options, text):
    with pytest.raises(ValueError, match=text):
        XLABuckets(**options)


def test_programs_multiply_as_precisely_as_they_are_told():
    inputs = np.random.default_rng(0).normal(size=(2, 7)).astype("float32")
    kernel = np.random.default_rng(1).normal(size=(7, 3)).astype("float32")

    def function(ids, length):
        rows = tf.repeat(tf.constant(inputs), tf.shape(ids)[0] // 2, axis=0)
        return {"product": kernel_matmul(rows, tf.constant(kernel))}

    ids, length = tf.ones((2, 4), tf.int32), tf.constant([4, 3])
    low = [np.asarray(tf.cast(tf.cast(x, "bfloat16"), "float32")) for x in (inputs, kernel)]
    for precision, expected in (("float32", inputs @ kernel), ("bfloat16", low[0] @ low[1])):
        search = XLABuckets((2,), (4,), precision=precision).compile_in_buckets(function)
        found = search(ids, length)["product"]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert np.abs(low[0] @ low[1] - inputs @ kernel).max() > 1e-3


@pytest.mark.slow
def test_compiled_signatures_say_what_plain_ones_say(tmp_path):
    source = tokenizers.train("characters", ["<de> abc defg", "hij klm"], symbols=["<de>"])
    target = tokenizers.train("words", ["one two three four five six seven"])
    model = toy_translator(source.vocabulary_size, target.vocabulary_size + 3)
    search = SearchOptions(beam_width=3, max_length=7, max_source_length=13)
    options = {"source": source, "target": target, "search": search}
    plain = export_translator(model, tmp_path, **options)
    xla = XLABuckets((2, 4), (8, 16))
    compiled = export_translator(model, tmp_path, xla=xla, **options)
    assert validate_export(plain) == validate_export(compiled) == []
    assert _model_card.read(plain)["xla"] is None
    assert _model_card.read(compiled)["xla"]["batch_sizes"] == [2, 4]
    assert "--xla_cpu_compilation_enabled" in (compiled / _model_card.MARKDOWN_FILE).read_text()
    (compiled / _model_card.JSON_FILE).rename(tmp_path / "card")
    write_manifest(compiled)
    assert any("requires XLA" in problem for problem in validate_export(compiled))

    shapes = {
        (r.inputs["ids"].shape[0], r.inputs["ids"].shape[1] + 1)
        for r in _warmup_requests.read_requests(compiled)
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


@pytest.mark.thorough
@pytest.mark.parametrize("compiled_first", [True, False])
def test_programs_and_plain_signatures_have_each_their_encoder(compiled_first):
    words = tokenizers.train("words", ["one two three four five six seven"])
    sizes = (words.vocabulary_size, words.vocabulary_size)
    model = transformer.build(*sizes, units=8, heads=2, layers=1, dropout=0.0)
    pipeline = TranslationPipeline(model, words, words, 5, 3)

    def first_logits(ids, length):
        state, memory = pipeline.start_decoding(ids, length)
        start = tf.fill(tf.shape(length), pipeline.start_id)
        return {"logits": pipeline.step(start, state, memory)[0]}

    ids, length = tf.constant([[5, 6, 7, 2], [7, 2, 0, 0]]), tf.constant([4, 2])
    compiled = XLABuckets((2,), (4,), precision="bfloat16").compile_in_buckets(first_logits)
    plain = make_tf_function(first_logits, IDS, tf.TensorSpec([None], tf.int32))
    searches = {"compiled": compiled, "plain": plain}
    order = sorted(searches, reverse=not compiled_first)
    found = {name: searches[name](ids, length)["logits"].numpy() for name in order}
    start = tf.fill([2, 1], pipeline.start_id)
    expected = model({"source": ids, "target": start})[:, 0]
    np.testing.assert_allclose(found["plain"], expected, atol=1e-5)
    np.testing.assert_allclose(found["compiled"], expected, atol=0.1)
    assert np.abs(found["compiled"] - expected).max() > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "precision"), [("float32", "bfloat16"), ("mixed_bfloat16", "float32")]
)
def test_an_export_with_rounded_products_passes_its_own_warm_up(tmp_path, dtype, precision):
    words = tokenizers.train("words", ["one two three four five six seven"])
    sizes = (words.vocabulary_size, words.vocabulary_size)
    keras.config.set_dtype_policy(dtype)
    try:
        model = transformer.build(*sizes, units=8, heads=2, layers=1, dropout=0.0)
    finally:
        keras.config.set_dtype_policy("float32")
    xla = XLABuckets((2,), (4,), precision=precision)
    search = SearchOptions(beam_width=2, max_length=4, max_source_length=3)
    path = export_translator(model, tmp_path, source=words, target=words, search=search, xla=xla)
    assert validate_export(path) == []
    version = answer.Loaded(path)
    found = version.ask("serving_default", text=column(["one two three", "seven"]))
    assert b"_gradient_op_type" not in _saved_model_file.read_bytes(path)
    assert np.isfinite(found["score"]).all() and np.all(np.diff(found["score"], axis=1) <= 0)

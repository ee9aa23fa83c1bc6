"""Translators of several sources: trained, exported; texts that are refused."""

import random

import numpy as np
import pytest
import tensorflow as tf
from translation_commands import read_options

from examples.__main__ import main
from examples.commands.arguments import UsageError
from examples.data.report import DataError
from examples.data.sources import join_sources


def write_sources(folder, name, count, seed):
    """Writes digits of which each source has lost some, and the target all; returns two files."""
    chosen, rows = random.Random(seed), []
    for _ in range(count):
        digits = chosen.choices("abcd", k=3)
        shown = [chosen.random() < 0.5 for _ in digits]
        first = " ".join(digit if one else "x" for digit, one in zip(digits, shown, strict=True))
        second = " ".join("x" if one else digit for digit, one in zip(digits, shown, strict=True))
        rows.append((first, second, " ".join(digits)))
    for part, lines in zip(("first", "second", "target"), zip(*rows, strict=True), strict=True):
        (folder / part).write_text("".join(f"{line}\n" for line in lines))
    source, target = folder / f"{name}.source", folder / f"{name}.target"
    join_sources([folder / "first", folder / "second"], source)
    (folder / "target").rename(target)
    return source, target


@pytest.mark.slow
def test_a_run_needs_both_sources_and_is_exported(tmp_path, capsys):
    source, target = write_sources(tmp_path, "train", 1600, 1)
    test_source, test_target = write_sources(tmp_path, "test", 53, 2)
    run = tmp_path / "run"
    line = f"train multi-source --run {run} --source {source} --target {target} --tokenizer words"
    line += " --units 24 --embedding-dim 8 --epochs 6 --learning-rate 0.01 --num-buckets 1 --no-xla"
    assert main(line.split()) == 0, capsys.readouterr()
    line = f"export {run} {tmp_path / 'served'} --beam-width 2 --max-length 5"
    assert main(line.split()) == 0
    signatures = tf.saved_model.load(tmp_path / "served" / "1").signatures
    texts, expected = (file.read_text().splitlines() for file in (test_source, test_target))
    outputs = signatures["greedy"](text=tf.constant(texts))["text"].numpy()
    assert np.mean(outputs == np.array(expected, "S")) > 0.9
    joined = signatures["serving_default"](text=tf.constant(texts))
    first, second = (list(part) for part in zip(*(t.split(" <sep> ") for t in texts), strict=True))
    found = signatures["translate_sources"](text=tf.constant(first), text_2=tf.constant(second))
    for name, expected in joined.items():
        np.testing.assert_array_equal(found[name], expected)
    found = signatures["translate_with_alignment"](text=tf.constant(["a x c <sep> x b x", "a x c"]))
    assert found["text"][0, 0] == b"a b c"
    tokens = found["source_tokens"].numpy()
    assert tokens[0].tolist() == [*b"a x c <sep> x b x".split(), b"</s>"]
    weights = found["alignment"].numpy()[0, 0]
    assert weights[1].argmax() == 5, "b stands in the second source"
    np.testing.assert_allclose(found["alignment"].numpy()[1, 0, 0, :4].sum(), 1, atol=1e-5)


def read_data(tmp_path, text, options=""):
    (tmp_path / "pairs").write_text(text)
    line = f"--pairs {tmp_path / 'pairs'} --tokenizer words {options}"
    recipe = read_options(line, "multi-source")
    recipe.check()
    return recipe, recipe.read_data()


def test_texts_without_all_sources_are_refused(tmp_path):
    with pytest.raises(UsageError, match="no data of its own.*examples.data join"):
        read_options("", "multi-source").check()
    text = "a <sep> b\tc\nb\td\na <sep> b <sep> c\te\n"
    message = "1 of 2 training texts have a different number of sources than 2.*Received: 'b'"
    with pytest.raises(DataError, match=message):
        read_data(tmp_path, text, "--validation-fraction 0.34")


def test_a_separator_within_a_word_separates_subwords_only(tmp_path):
    text = "a <sep> b\tc\nb<sep>c\td\n"
    options = "--validation-fraction 0.5 "
    with pytest.raises(DataError, match="1 of 1 validation texts have.*Received: 'b<sep>c'"):
        read_data(tmp_path, text, options)
    read_data(tmp_path, text, options + "--source-tokenizer characters")


@pytest.mark.parametrize("kind", ["characters", "words", "wordpiece", "sentencepiece"])
@pytest.mark.parametrize("more", ["", " --joint-vocabulary"])
def test_the_separator_is_one_token_of_every_tokenizer(tmp_path, kind, more):
    text = "".join(f"a{n} dog <sep> un chien {n} <sep> u{n}\ta cat {n}\n" for n in range(60))
    options = f"--num-sources 3 --tokenizer {kind}{more}"
    recipe, data = read_data(tmp_path, text, options)
    source = recipe.make_tokenizers(data["training"])["source"]
    ids, length = source.encode(["a1 dog <sep> un <sep> x"])
    assert np.count_nonzero(ids[0, : int(length[0])] == 4) == 2

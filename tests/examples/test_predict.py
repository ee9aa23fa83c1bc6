"""`python -m examples.predict` on versions that are not translators."""

import pytest
import tensorflow as tf

from examples import predict

TEXT = tf.TensorSpec([None], tf.string, name="text")
BITS = tf.TensorSpec([None, None, 9], tf.float32, name="inputs")


def save(path, spec, outputs):
    """A version whose signature answers each of `outputs` by a function of its one input."""
    module = tf.Module()
    module.answer = tf.function(
        lambda given: {name: of(given) for name, of in outputs.items()},
        input_signature=[spec],
        autograph=False,
    )
    tf.saved_model.save(module, str(path), signatures={"serving_default": module.answer})
    return path


def zeros(texts):
    return tf.zeros(tf.shape(texts))


@pytest.mark.parametrize(
    ("spec", "outputs", "told"),
    [
        (BITS, {"bits": tf.identity}, "takes inputs and gives bits."),
        # A language model takes texts as well.
        (
            TEXT,
            {"tokens": tf.identity, "log_probability": zeros},
            "takes text and gives log_probability, tokens.",
        ),
        # And a captioner writes them.
        (
            BITS,
            {"text": lambda inputs: tf.as_string(inputs[:, 0]), "score": tf.identity},
            "takes inputs and gives score, text.",
        ),
    ],
)
def test_a_version_that_is_no_translator_is_told_in_one_line(capsys, tmp_path, spec, outputs, told):
    version = save(tmp_path / "1", spec, outputs)
    assert predict.main([str(tmp_path), "ein hund"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: This command asks translators, which take text and give text")
    assert err.count("\n") == 1
    assert f"{version} {told} Call it with TensorFlow" in err


def test_the_model_card_of_such_a_version_is_named(capsys, tmp_path):
    version = save(tmp_path / "1", BITS, {"bits": tf.identity})
    card = version / "assets.extra" / "model_card.md"
    card.parent.mkdir(exist_ok=True)
    card.write_text("# copy")
    assert predict.main([str(tmp_path), "ein hund"]) == 1
    assert f"gives bits. {card} says what they mean. Call it" in capsys.readouterr().err


def test_ranked_texts_are_printed(capsys, tmp_path):
    ranked = {
        "text": lambda text: tf.stack([text + " .", text], axis=1),
        "score": lambda text: tf.stack([zeros(text) - 0.5, zeros(text) - 1.0], axis=1),
    }
    save(tmp_path / "1", TEXT, ranked)
    assert predict.main([str(tmp_path), "ein hund", "kein baum"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "ein hund  ->  ein hund .   (score -0.500)"
    assert lines[1] == "kein baum  ->  kein baum .   (score -0.500)"

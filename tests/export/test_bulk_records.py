"""Lines of bulk translation: what is read from a line, what is written for it; without Beam."""

import json
import sys

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2
from toy_export import Offline, export_shared_toy

from keras_attention.export import _bulk_records, _saved_model_file, bulk
from keras_attention.export.serving.errors import invalid_argument

TEXT = (("text", "string"),)
PAIR = (("text", "string"), ("target", "string"))
PHRASES = (("text", "string"), ("phrases", "string"))
SOURCES_2 = (("text", "string"), ("text_2", "string"))
NUMBERS = (("text", "string"), ("length_penalty", "float32"), ("max_length", "int32"))


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return export_shared_toy(tmp_path_factory)


def make_example(**features):
    kinds = {bytes: "bytes_list", int: "int64_list", float: "float_list"}
    example = tf.train.Example()
    for name, value in features.items():
        values = value if isinstance(value, list) else [value]
        getattr(example.features.feature[name], kinds[type(values[0])]).value.extend(values)
    return example.SerializeToString()


@pytest.mark.parametrize(
    ("columns", "content", "values"),
    [
        (TEXT, b"ein Hund\r\n", (b"ein Hund",)),
        (TEXT, b" a\tb ", (b" a\tb ",)),  # one input: a tab is part of the text
        (TEXT, "a\u2028b\n".encode(), ("a\u2028b".encode(),)),
        (PAIR, b"ein Hund\ta dog\n", (b"ein Hund", b"a dog")),
        (PHRASES, b"ein Hund\t\n", (b"ein Hund", b"")),
        (SOURCES_2, b"ein Hund\t", (b"ein Hund", b"")),
        (SOURCES_2, b"\tun chien\n", (b"", b"un chien")),
        (NUMBERS, b"a\t0.5\t7\n", (b"a", 0.5, 7)),
    ],
)
def test_a_line_has_a_value_for_each_column(columns, content, values):
    assert _bulk_records.parse_text(content, columns, 100) == values


@pytest.mark.parametrize(
    ("columns", "content", "reason"),
    [
        (TEXT, b"\n", "the line is empty"),
        (TEXT, b" \t \r\n", "the line is empty"),
        (PAIR, b"\t\n", "the line is empty"),
        (TEXT, b"ab\xff\n", "text is not UTF-8: byte 3"),
        (TEXT, b"\xed\xa0\x80", "text is not UTF-8: byte 1"),
        (TEXT, b"x" * 21, "21 bytes, at most 20 are allowed"),
        (PAIR, b"a", r"expected 2 columns \(text, target\), found 1"),
        (PAIR, b"a\tb\tc", "expected 2 columns .*, found 3"),
        (PAIR, b"a\t \n", "target is empty"),
        (PAIR, b"\ta", "text is empty"),
        (PHRASES, b"\ta dog", "text is empty"),
        (SOURCES_2, b" \t\n", "the line is empty"),
        ((("words", "string"), ("text_2", "string")), b"\ta", "words is empty"),
        (NUMBERS, b"a\tx\t7", "length_penalty is not a valid float32: 'x'"),
        (NUMBERS, b"a\tnan\t7", "length_penalty is not a valid float32: 'nan'"),
        (NUMBERS, b"a\t1e39\t7", "length_penalty is not a valid float32: '1e39'"),
        (NUMBERS, b"a\t1\t2147483648", "max_length is not a valid int32: '2147483648'"),
        (NUMBERS, b"a\t1\t7.5", "max_length is not a valid int32: '7.5'"),
    ],
)
def test_a_bad_line_has_a_reason(columns, content, reason):
    with pytest.raises(ValueError, match=reason):
        _bulk_records.parse_text(content, columns, 20)


def test_a_record_has_a_feature_for_each_column():
    content = make_example(text=b"a", length_penalty=0.5, max_length=7, other=b"left out")
    assert _bulk_records.parse_example(content, NUMBERS, 100) == (b"a", 0.5, 7)


def test_a_record_may_lack_one_of_two_sources():
    content = make_example(text=b"", text_2=b"un chien")
    assert _bulk_records.parse_example(content, SOURCES_2, 100) == (b"", b"un chien")
    with pytest.raises(ValueError, match="text is empty"):
        _bulk_records.parse_example(make_example(text=b"", text_2=b" "), SOURCES_2, 100)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"plain text", "not a tf.train.Example"),
        (make_example(other=b"a"), "feature text: expected 1 value of bytes_list, found 0"),
        (make_example(text=[b"a", b"b"]), "feature text: expected 1 value of bytes_list, found 2"),
        (make_example(text=7), "feature text: expected 1 value of bytes_list, found 0"),
        (make_example(text=b"\xff"), "text is not UTF-8: byte 1"),
        (make_example(text=b" "), "text is empty"),
        (make_example(text=b"x" * 21), "21 bytes, at most 20 are allowed"),
    ],
)
def test_a_bad_record_has_a_reason(content, reason):
    with pytest.raises(ValueError, match=reason):
        _bulk_records.parse_example(content, TEXT, 20)


def test_columns_are_those_of_the_signature(toy):
    signatures = _saved_model_file.read_meta_graph(toy).signature_def
    found = {
        name: _bulk_records.list_columns(signatures[name])
        for name in ("serving_default", "score", "search")
    }
    assert found == {
        "serving_default": [*TEXT],
        "score": [("text", "string"), ("target", "string")],
        "search": [*NUMBERS],
    }
    with pytest.raises(ValueError, match="input ids is not a single string, int32 or float32"):
        _bulk_records.list_columns(signatures["ids"])


def test_columns_of_ten_sources_are_in_the_order_of_their_numbers():
    names = ["text", *(f"text_{number}" for number in range(2, 12))]
    definition = meta_graph_pb2.SignatureDef()
    for name in reversed(names):
        definition.inputs[name].dtype = tf.string.as_datatype_enum
        definition.inputs[name].tensor_shape.dim.add(size=-1)
    assert _bulk_records.list_columns(definition) == [(name, "string") for name in names]


def run_counted(calls, poison=(), unequal=()):
    """Returns a model of lines that answers with the text in capitals, and records its calls."""

    def run(inputs):
        texts = inputs["text"].tolist()
        calls.append(texts)
        if set(texts) & set(poison):
            raise invalid_argument("poison")
        kept = [text for text in texts if text not in unequal]
        return {"text": np.array([text.upper() for text in kept], object)}

    return run


@pytest.mark.parametrize("kind", ["poison", "unequal"])
def test_a_batch_that_fails_is_halved_until_the_bad_lines_are_alone(kind):
    texts = [b"a", b"b", b"c", b"d", b"e", b"f", b"g"]
    lines = [("x", number, (text,)) for number, text in enumerate(texts, 1)]
    calls = []
    run = run_counted(calls, **{kind: (b"c", b"f")})
    found = list(_bulk_records.run_lines(run, lines, TEXT))
    records = [json.loads(record) for _, record in found]
    assert [record["line"] for record in records] == [1, 2, 3, 4, 5, 6, 7]
    assert [is_answer for is_answer, _ in found] == [True, True, False, True, True, False, True]
    assert records[1] == {"file": "x", "line": 2, "inputs": {"text": "b"}, "outputs": {"text": "B"}}
    assert records[2]["input"] == "c" and records[2]["error"]
    assert max(map(len, calls)) == 7 and len(calls) <= 2 * len(texts) - 1


def test_errors_that_are_no_answer_of_the_model_stop_the_job():
    def run(inputs):
        raise MemoryError

    with pytest.raises(MemoryError):
        list(_bulk_records.run_lines(run, [("x", 1, (b"a",))], TEXT))


def test_a_failure_shows_the_beginning_of_its_line():
    found = json.loads(_bulk_records.format_failure("x", 3, b"\xff" * 5000 + b"\n", "why"))
    assert found == {"file": "x", "line": 3, "error": "why", "input": "\ufffd" * 1000}


SOURCES = ["abc", "hij klm abc defg", "d"]


@pytest.mark.parametrize("signature", ["serving_default", "translate_with_alignment", "greedy"])
def test_outputs_are_those_of_the_line_alone(toy, signature):
    """The batch pads its outputs to the longest; what is written has none of that."""
    offline = Offline(toy)
    together = offline(signature, text=SOURCES)
    for row, text in enumerate(SOURCES):
        alone = _bulk_records.remove_padding(offline.text(signature, text))
        found = _bulk_records.remove_padding({name: array[row] for name, array in together.items()})
        assert_equal(found, alone)
    if signature == "translate_with_alignment":
        for tokens, length, alignment in zip(
            found["tokens"], found["length"], found["alignment"], strict=True
        ):
            assert len(tokens) == len(alignment) == length and "" not in tokens
            assert {len(weights) for weights in alignment} == {found["source_length"]}
        assert len(found["source_tokens"]) == found["source_length"] == 2


def test_scores_are_those_of_the_pair_alone(toy):
    offline = Offline(toy)
    targets = ["one", "two three four five", "six one"]
    together = offline("score", text=SOURCES, target=targets)
    for row, pair in enumerate(zip(SOURCES, targets, strict=True)):
        alone = _bulk_records.remove_padding(offline.text("score", *pair))
        found = _bulk_records.remove_padding({name: array[row] for name, array in together.items()})
        assert_equal(found, alone)
        assert len(found["token_log_prob"]) == found["length"] == len(pair[1].split()) + 1


def assert_equal(found, expected):
    """Asserts that strings and ints are equal, and floats to 1e-5."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        found, expected = [found[name] for name in expected], list(expected.values())
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_equal(one, other)
    else:
        assert found == (pytest.approx(expected, abs=1e-5) if type(found) is float else expected)


def test_hypotheses_that_were_not_found_and_those_not_wanted_are_left_out():
    outputs = {
        "text": np.array([b"a", b"b", b""], object),
        "score": np.array([-0.5, -0.75, -1e9], "float32"),
        "length": np.array([2, 2, -1], "int32"),
        "ids": np.array([[4, 3, 0], [5, 3, 0], [0, 0, 0]], "int32"),
        "source_length": np.int32(2),
    }
    found = _bulk_records.remove_padding(outputs)
    assert found == {
        "text": ["a", "b"],
        "score": [-0.5, -0.75],
        "length": [2, 2],
        "ids": [[4, 3], [5, 3]],
        "source_length": 2,
    }
    assert _bulk_records.remove_padding(outputs, n_best=1)["text"] == ["a"]


def test_scores_of_classes_are_no_n_best():
    outputs = {
        "label": np.array(b"good", object),
        "score": np.array([0.5, -0.25, -2e9], "float32"),
        "attention": np.array([0.125, 0.25, 0.125, 0.5], "float32"),
    }
    expected = {
        "label": "good",
        "score": [0.5, -0.25, -2e9],
        "attention": [0.125, 0.25, 0.125, 0.5],
    }
    assert _bulk_records.remove_padding(outputs) == expected
    assert _bulk_records.remove_padding(outputs, n_best=1) == expected


def test_of_an_n_best_other_outputs_stay_whole():
    outputs = {
        "text": np.array([b"a", b"b"], object),
        "score": np.array([-0.5, -1e9], "float32"),
        "topic": np.array([0.125, 0.375, 0.5], "float32"),
        "language": np.array(b"de", object),
    }
    found = _bulk_records.remove_padding(outputs)
    assert found == {
        "text": ["a"],
        "score": [-0.5],
        "topic": [0.125, 0.375, 0.5],
        "language": "de",
    }


def test_the_steps_of_a_tree_that_the_batch_added_are_left_out():
    outputs = {
        "tokens": np.array([[b"a", b"b"], [b"", b""]], object),
        "parent": np.array([[0, 1], [0, 0]], "int32"),
        "log_prob": np.array([[-0.5, -0.75], [-1e9, -1e9]], "float32"),
        "state": np.array([[1, 2], [0, 0]], "int32"),
        "length": np.int32(1),
    }
    assert _bulk_records.remove_padding(outputs) == {
        "tokens": [["a", "b"]],
        "parent": [[0, 1]],
        "log_prob": [[-0.5, -0.75]],
        "state": [[1, 2]],
        "length": 1,
    }


def test_the_padding_of_a_language_model_is_left_out():
    outputs = {
        "tokens": np.array([4, 3, 0, 0], "int32"),
        "log_probabilities": np.array([-0.5, -0.25, 0, 0], "float32"),
        "log_probability": np.float32(-0.75),
        "length": np.int32(2),
    }
    assert _bulk_records.remove_padding(outputs) == {
        "tokens": [4, 3],
        "log_probabilities": [-0.5, -0.25],
        "log_probability": -0.75,
        "length": 2,
    }


def test_without_beam_the_command_names_the_extra(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    with pytest.raises(SystemExit) as error:
        bulk.main(["served", "in", "out"])
    assert error.value.code == 2
    assert 'pip install "keras-attention-layers[beam]"' in capsys.readouterr().err

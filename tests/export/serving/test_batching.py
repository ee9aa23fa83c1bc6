"""What the model server's batching does to requests changes no answer, junk in padding included."""

import numpy as np
import pytest
from merging import cut, join, merge, split
from toy_export import SOURCE_LIMIT, same_row

from keras_attention.export.serving._tensor_protos import encode_strings

IDS = [
    {"ids": [[9, 5, 7]], "length": [3]},
    {"ids": [[5], [8]], "length": [1, 1]},
    {"ids": [[6, 5, 9, 9, 8], [11, 0, 0, 0, 0]], "length": [5, 1]},
    {"ids": [[10, 4]], "length": [0]},
    {"ids": [[7, 6, 5, 4, 5, 6, 7, 8, 9, 10, 11, 12, 5]], "length": [13]},
]
TEXTS = [["abc"], ["", "hij klm"], ["<de> defg " * 3], [b"\xff\xfe", "a", "b"]]


def ids_requests():
    return [{name: np.array(value, "int32") for name, value in row.items()} for row in IDS]


def text_requests():
    return [{"text": encode_strings(texts)} for texts in TEXTS]


def row_of(outputs, row):
    return {name: array[row] for name, array in outputs.items()}


def test_the_pad_value_is_the_tensors_own_first_element():
    inputs, parts = merge(ids_requests(), allowed_sizes=(4, 8, 16))
    assert parts == [1, 2, 2, 1, 1, 1]
    assert inputs["ids"][0].tolist() == [9, 5, 7] + 10 * [9]
    assert inputs["ids"][2].tolist() == [8] + 12 * [5]
    assert inputs["ids"][4].tolist() == [11, 0, 0, 0, 0] + 8 * [6]
    assert inputs["ids"][7].tolist() == inputs["ids"][6].tolist()
    assert inputs["length"].tolist() == [3, 1, 1, 5, 1, 0, 13, 13]


@pytest.mark.thorough
@pytest.mark.parametrize("sizes", [(), (4, 8, 16)])
def test_ids_survive_the_merge_row_for_row(toy, sizes):
    requests = ids_requests()
    inputs, parts = merge(requests, sizes)
    for request, found in zip(requests, split(toy.offline("ids", **inputs), parts, 5), strict=True):
        for row in range(len(request["ids"])):
            length = min(request["length"][row], SOURCE_LIMIT)
            alone = toy.offline(
                "ids",
                ids=request["ids"][row : row + 1, :length],
                length=request["length"][row : row + 1],
            )
            assert same_row(row_of(alone, 0), row_of(found, row))


@pytest.mark.thorough
@pytest.mark.parametrize("signature", ["serving_default", "translate_with_alignment"])
def test_texts_survive_the_merge_row_for_row(toy, signature):
    requests = text_requests()
    inputs, parts = merge(requests, allowed_sizes=(8,), pad=False)
    outputs = split(toy.offline(signature, **inputs), parts, len(requests))
    for texts, found in zip(TEXTS, outputs, strict=True):
        for row, text in enumerate(texts):
            assert same_row(toy.offline.text(signature, text), row_of(found, row))


def test_every_signature_takes_batches_and_gives_as_many_rows(toy):
    for name, definition in toy.signatures.items():
        if name.startswith("__"):
            continue
        for info in [*definition.inputs.values(), *definition.outputs.values()]:
            assert info.tensor_shape.dim[0].size == -1, name


@pytest.mark.thorough
def test_parts_of_a_request_are_only_safe_where_outputs_have_one_width(toy):
    """Why the example configuration has no `enable_large_batch_splitting`."""
    texts = {"text": encode_strings(["abc defg abc", "", "a", "hij klm", "b"])}
    for signature, safe in (("serving_default", True), ("translate_with_alignment", False)):
        whole = toy.offline(signature, **texts)
        found = join([toy.offline(signature, **part) for part in cut(texts, 2)])
        right = [same_row(row_of(whole, row), row_of(found, row)) for row in range(5)]
        assert all(right) == safe, (signature, right)
    with pytest.raises(ValueError, match="concat operation failed"):
        join([toy.offline("translate_with_alignment", **part) for part in cut(texts, 2)][::-1])


@pytest.mark.parametrize(
    "requests, message",
    [
        ([{"x": np.array(1)}], "at least one dimension"),
        ([{"x": np.zeros((0, 2))}], "must not be empty"),
        ([{"x": np.zeros(2), "y": np.zeros(3)}], "equal 0th dimension"),
        ([{"x": np.zeros((1, 2))}, {"x": np.zeros((1, 3))}], "differ in shape"),
        ([{"x": np.zeros((9, 2))}], "larger than 8"),
    ],
)
def test_what_the_server_does_not_merge(requests, message):
    with pytest.raises(ValueError, match=message):
        merge(requests, allowed_sizes=(8,), pad=False)


def test_rows_that_differ_are_told_apart():
    alone = {"score": np.array([1.0], "float32"), "text": np.array([b"a"], object)}
    wider = {"score": np.array([1.0, 0.0], "float32"), "text": np.array([b"a", b""], object)}
    assert same_row(alone, wider)
    for name, value in (("score", [1.0, 0.5]), ("score", [1.01, 0]), ("score", [1, np.nan])):
        assert not same_row(alone, {**wider, name: np.array(value, "float32")})
    assert not same_row(alone, {**wider, "text": np.array([b"b", b""], object)})
    assert not same_row(wider, alone)

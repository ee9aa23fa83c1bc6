"""An exported translator says what the Keras model says, without Keras or this library.

Two exports: a toy decoder with character source and wide logits, and the library's
`BahdanauDecoder` with SentencePiece, written and exported through the command line. A fresh
process that imports TensorFlow and TensorFlow Text only answers all requests at once.
"""

import json
import subprocess
import sys
import types

import answer
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2
from toy_translator import bahdanau_translator, toy_translator

from keras_attention import decoding
from keras_attention.export import __main__ as command
from keras_attention.export import export_translator, runs, tokenizers, validate_export
from keras_attention.export.validate import graph_ops

N = 3
TEXTS = ["abc", "<de> klm def", "hij" * 5, "", b"\xff\xfea\x00\xe4"]
LINES = ["ein Mann läuft schnell .", "der Hund läuft .", "Tag der Männer und Hunde"] * 10
OTHER_TEXTS = [LINES[0], "", "Tag 👩‍🚀"]


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    source = tokenizers.train("characters", ["<de> abc defg", "hij klm"], symbols=["<de>"])
    target = tokenizers.train("words", ["one two three four five six seven"])
    model = toy_translator(source.vocabulary_size, target.vocabulary_size + 3)
    base = tmp_path_factory.mktemp("toy")
    path = export_translator(
        model,
        base,
        source=source,
        target=target,
        beam_width=N,
        max_length=7,
        max_source_length=13,
    )
    search = {"beam_width": N, "max_length": 7}
    return types.SimpleNamespace(
        model=model, source=source, target=target, path=path, search=search, source_limit=13
    )


@pytest.fixture(scope="module")
def bahdanau(tmp_path_factory):
    base = tmp_path_factory.mktemp("bahdanau")
    source = tokenizers.train("words", LINES)
    target = tokenizers.train("sentencepiece", LINES, vocabulary_size=53, model_type="bpe")
    model = bahdanau_translator(source.vocabulary_size, target.vocabulary_size)
    settings = {"system": "bahdanau", "lengths": {"source": 11, "target": 8}}
    runs.write_run(base / "run", model, settings, source, target)
    options = ["--version", "41", "--beam", str(N), "--length-penalty", "0.6"]
    options += ["--coverage-penalty", "0.2", "--min-length", "3"]
    assert command.main([str(base / "run"), str(base / "served"), *options]) == 0
    search = {
        "beam_width": N,
        "max_length": 8,
        "min_length": 3,
        "length_penalty": decoding.GNMTLengthPenalty(0.6),
        "coverage_penalty": decoding.CoveragePenalty(0.2),
    }
    path = base / "served" / "41"
    return types.SimpleNamespace(
        model=model, source=source, target=target, path=path, search=search, source_limit=512
    )


def column(texts):
    return tf.constant([text if isinstance(text, bytes) else text.encode() for text in texts])


def toy_ids(toy):
    """The ids of three texts, as a client would send them, and hostile variants."""
    ids, length = toy.source.encode(column(TEXTS[:3]))
    ids, length = ids.numpy(), length.numpy()
    junk = np.where(np.arange(ids.shape[1]) < length[:, None], ids, [[3], [-9], [10**8]])
    junk = np.concatenate([junk, np.full((3, 2), 5)], axis=1).astype("int32")
    unknown = np.array([[4, 1, 1, 1, 1, 5]] * 2, "int32")
    special = np.array([[4, 0, 3, 2, 999, 5], [4, 3, -1, 2, 0, 5]], "int32")
    return {
        "plain": (ids, length),
        "junk": (junk, length),
        "unknown": (unknown, np.array([6, 6], "int32")),
        "special": (special, np.array([6, 10**6], "int32")),
        "nothing": (unknown, np.array([-3, 0], "int32")),
        "no columns": (np.zeros((2, 0), "int32"), np.array([0, 4], "int32")),
    }


def requests_of(toy, bahdanau):
    """Name -> (path, signature, inputs)."""
    requests = {}

    def ask(name, served, signature, **inputs):
        inputs = {key: tf.convert_to_tensor(value) for key, value in inputs.items()}
        requests[name] = (str(served.path), signature, inputs)

    pairs = ["one two", "", "zzz seven", "five " * 9, "six"]
    for name, served, texts in (("toy", toy, TEXTS), ("bahdanau", bahdanau, OTHER_TEXTS)):
        for signature in ("serving_default", "translate_with_alignment", "greedy"):
            ask(f"{name} {signature}", served, signature, text=column(texts))
            ask(f"{name} {signature} no rows", served, signature, text=column(texts)[:0])
            reverse = column(texts[::-1] + ["abc " * 30])
            ask(f"{name} {signature} company", served, signature, text=reverse)
        target = column(pairs if served is toy else [*LINES[:2], ""])
        ask(f"{name} score", served, "score", text=column(texts), target=target)
        ask(f"{name} score no rows", served, "score", text=target[:0], target=target[:0])
    for name, (ids, length) in toy_ids(toy).items():
        ask(f"ids {name}", toy, "ids", ids=ids, length=length)
    ask("ids no rows", toy, "ids", ids=np.zeros((0, 4), "int32"), length=np.zeros(0, "int32"))
    cut = column(["abcdefg hijkl", "abcdefg hijkl" + " more" * 200_000])  # a megabyte
    ask("cut", toy, "translate_with_alignment", text=cut)
    return requests


@pytest.fixture(scope="module")
def served(toy, bahdanau, tmp_path_factory):
    """Everything the fresh process answered: name -> dict of arrays."""
    folder = tmp_path_factory.mktemp("answers")
    requests = requests_of(toy, bahdanau)
    sent = [
        [path, signature, {key: answer.json_of(value) for key, value in inputs.items()}]
        for path, signature, inputs in requests.values()
    ]
    (folder / "requests").write_text(json.dumps(sent))
    command = [sys.executable, answer.__file__, folder / "requests", folder / "answers"]
    subprocess.run(command, check=True, cwd=folder, timeout=300)
    answers = json.loads((folder / "answers").read_text())
    outputs = [
        {key: answer.array_of(value) for key, value in output.items()}
        for output in answers["outputs"]
    ]
    return dict(zip(requests, outputs, strict=True)) | {"packages": answers["packages"]}


def encode_alone(served, text):
    """Memory, state and step of the Keras model for one text, as a user would write it."""
    ids = served.source.encode(column([text]))[0].numpy()[0].tolist()
    ids = tf.constant([ids[: served.source_limit] + [3]])
    encoded = served.model.get_layer("encoder")(ids)
    decoder = served.model.get_layer("decoder")
    memory = decoder.prepare(encoded["memory"])
    state = decoder.start(memory, initial_state=encoded["initial_state"])

    def step(ids, state, memory):
        logits, state, alignment = decoder.step(ids, state, memory)
        known = np.arange(logits.shape[-1]) < served.target.vocabulary_size
        return tf.where(known, logits, -1e9), state, alignment

    return ids, (step, state, memory)


def test_answering_needs_neither_keras_attention_nor_this_checkout(served):
    assert "tensorflow_text" in served["packages"]
    assert "keras_attention" not in served["packages"]


@pytest.mark.parametrize("name", ["toy", "bahdanau"])
def test_n_best_equals_the_keras_model_row_by_row(name, served, request):
    translator = request.getfixturevalue(name)
    found = served[f"{name} translate_with_alignment"]
    plain = served[f"{name} serving_default"]
    texts = TEXTS if name == "toy" else OTHER_TEXTS
    assert plain["text"].shape == plain["score"].shape == (len(texts), N)
    for row, text in enumerate(texts):
        ids, (step, state, memory) = encode_alone(translator, text)
        mask = tf.ones_like(ids, tf.bool)
        search = translator.search
        expected = decoding.beam_search(step, state, memory, memory_mask=mask, **search)
        expected = {key: value.numpy()[0] for key, value in expected.items()}
        expected_text = translator.target.decode(expected["ids"]).numpy()
        assert plain["text"][row].tolist() == expected_text.tolist()
        np.testing.assert_allclose(plain["score"][row], expected["scores"], atol=1e-5)
        assert found["text"][row].tolist() == expected_text.tolist()
        np.testing.assert_allclose(found["score"][row], expected["scores"], atol=1e-5)
        assert found["length"][row].tolist() == expected["lengths"].tolist()
        columns, source = found["tokens"].shape[2], ids.shape[1]
        tokens = translator.target.tokens(expected["ids"][:, :columns]).numpy()
        assert found["tokens"][row].tolist() == tokens.tolist()
        assert found["source_length"][row] == source
        source_tokens = translator.source.tokens(ids).numpy()[0].tolist()
        assert found["source_tokens"][row, :source].tolist() == source_tokens
        assert not any(found["source_tokens"][row, source:])
        alignment = found["alignment"][row]
        expected_alignment = expected["alignments"][:, :columns]
        np.testing.assert_allclose(alignment[:, :, :source], expected_alignment, atol=1e-5)
        assert not alignment[:, :, source:].any()
        written = np.arange(columns) < found["length"][row][:, None]
        np.testing.assert_allclose(alignment.sum(axis=-1), written, atol=1e-5)
    assert found["length"].max() == columns


@pytest.mark.parametrize("name", ["toy", "bahdanau"])
def test_greedy_equals_the_keras_model(name, served, request):
    translator = request.getfixturevalue(name)
    found = served[f"{name} greedy"]
    options = {
        key: translator.search[key]
        for key in ("max_length", "min_length")
        if key in translator.search
    }
    texts = TEXTS if name == "toy" else OTHER_TEXTS
    for row, text in enumerate(texts):
        _, (step, state, memory) = encode_alone(translator, text)
        expected = decoding.greedy_search(step, state, memory, **options)
        assert found["text"][row] == translator.target.decode(expected["ids"]).numpy()[0]
        assert found["length"][row] == expected["lengths"][0]
        np.testing.assert_allclose(found["log_prob"][row], expected["log_probs"][0], atol=1e-5)


@pytest.mark.parametrize("name", ["toy", "bahdanau"])
def test_score_is_the_log_probability_of_the_target(name, served, request):
    translator = request.getfixturevalue(name)
    found = served[f"{name} score"]
    pairs = requests_of(*map(request.getfixturevalue, ("toy", "bahdanau")))
    inputs = pairs[f"{name} score"][2]
    limit = translator.search["max_length"]
    lengths = []
    for row, (text, target) in enumerate(zip(*(v.numpy() for v in inputs.values()), strict=True)):
        ids = translator.target.encode([target])[0].numpy()[0].tolist() + [3]
        ids = ids[:limit]
        lengths.append(len(ids))
        _, (step, state, memory) = encode_alone(translator, text)
        expected = decoding.score_sequences(step, state, memory, tf.constant([ids]))
        assert found["length"][row] == len(ids)
        np.testing.assert_allclose(found["log_prob"][row], expected["log_probs"][0], atol=1e-5)
        tokens = found["token_log_prob"][row]
        np.testing.assert_allclose(tokens[: len(ids)], expected["token_log_probs"][0], atol=1e-5)
        assert not tokens[len(ids) :].any()
    if name == "toy":  # "five five five ..." is longer than the limit
        assert lengths[3] == limit and min(lengths) == 1


@pytest.mark.parametrize("signature", ["serving_default", "translate_with_alignment", "greedy"])
@pytest.mark.parametrize("name", ["toy", "bahdanau"])
def test_rows_do_not_depend_on_their_company(name, signature, served):
    alone, company = served[f"{name} {signature}"], served[f"{name} {signature} company"]
    assert len(company["text"]) == len(alone["text"]) + 1
    for key, values in alone.items():
        others = company[key][:-1][::-1]
        if values.ndim > 1:  # the longest row sets the width of all
            shape = [min(a, b) for a, b in zip(values.shape, others.shape, strict=True)]
            values, others = (a[tuple(map(slice, shape))] for a in (values, others))
        if values.dtype == np.float32:
            np.testing.assert_allclose(values, others, atol=1e-5)
        else:
            assert values.tolist() == others.tolist(), key


def test_no_rows_give_no_rows(served):
    empty = [name for name in served if name.endswith("no rows")]
    assert len(empty) == 9
    for name in empty:
        for key, values in served[name].items():
            assert values.shape[0] == 0, (name, key)
    assert served["toy serving_default no rows"]["text"].shape == (0, N)


def test_ids_are_read_up_to_their_length_only(served):
    text = served["toy translate_with_alignment"]
    for name in ("ids plain", "ids junk"):
        np.testing.assert_allclose(served[name]["score"], text["score"][:3], atol=1e-5)
        assert served[name]["length"].tolist() == text["length"][:3].tolist()


def test_hostile_ids_read_as_unknown_and_lengths_are_clipped(served):
    for name, other in (("ids special", "ids unknown"), ("ids nothing", "ids no columns")):
        for key in ("score", "length", "ids"):
            assert served[name][key].shape[1:] == served[other][key].shape[1:]
            if name == "ids special" or key != "ids":
                np.testing.assert_allclose(served[name][key], served[other][key], atol=1e-5)
    empty = served["toy translate_with_alignment"]["score"][TEXTS.index("")]
    np.testing.assert_allclose(served["ids nothing"]["score"][0], empty, atol=1e-5)


def test_ids_end_once_and_stay_in_the_vocabulary(served, toy):
    found = served["ids plain"]
    ids, length = found["ids"], found["length"]
    assert ids.max() < toy.target.vocabulary_size  # the logits are wider by three
    for row in range(ids.shape[0]):
        for beam in range(N):
            end = length[row, beam]
            tokens = ids[row, beam].tolist()
            assert not any(tokens[end:]) and 2 not in tokens and 0 not in tokens[:end]
            assert 3 not in tokens[: end - 1]
            assert tokens[end - 1] == 3 or end == toy.search["max_length"]


def test_a_long_source_loses_its_end(served):
    found = served["cut"]
    assert found["source_length"].tolist() == [14, 14]  # 13 characters and the end mark
    assert found["text"][0].tolist() == found["text"][1].tolist()
    np.testing.assert_allclose(found["score"][0], found["score"][1], atol=1e-6)
    assert b"".join(found["source_tokens"][1]) == b"abcdefg hijkl</s>"


def test_answers_are_finite_sorted_and_valid_text(served):
    for name, outputs in served.items():
        if name == "packages":
            continue
        for key, values in outputs.items():
            if values.dtype == np.float32:
                assert np.isfinite(values).all(), (name, key)
            elif values.dtype == object:
                assert all(isinstance(text.decode("utf-8"), str) for text in values.ravel())
        if "score" in outputs:
            assert (np.diff(outputs["score"], axis=1) <= 0).all()


SIGNATURES = {
    "serving_default": (
        {"text": ("string", [-1])},
        {"text": ("string", [-1, N]), "score": ("float32", [-1, N])},
    ),
    "translate_with_alignment": (
        {"text": ("string", [-1])},
        {
            "text": ("string", [-1, N]),
            "score": ("float32", [-1, N]),
            "tokens": ("string", [-1, N, -1]),
            "length": ("int32", [-1, N]),
            "alignment": ("float32", [-1, N, -1, -1]),
            "source_tokens": ("string", [-1, -1]),
            "source_length": ("int32", [-1]),
        },
    ),
    "ids": (
        {"ids": ("int32", [-1, -1]), "length": ("int32", [-1])},
        {
            "ids": ("int32", [-1, N, -1]),
            "length": ("int32", [-1, N]),
            "score": ("float32", [-1, N]),
        },
    ),
    "greedy": (
        {"text": ("string", [-1])},
        {"text": ("string", [-1]), "log_prob": ("float32", [-1]), "length": ("int32", [-1])},
    ),
    "score": (
        {"text": ("string", [-1]), "target": ("string", [-1])},
        {
            "log_prob": ("float32", [-1]),
            "token_log_prob": ("float32", [-1, -1]),
            "length": ("int32", [-1]),
        },
    ),
}


def graph_of(path):
    saved_model = saved_model_pb2.SavedModel()
    saved_model.ParseFromString((path / "saved_model.pb").read_bytes())
    return saved_model.meta_graphs[0]


@pytest.mark.parametrize("name", ["toy", "bahdanau"])
def test_signatures_are_the_documented_ones(name, request):
    graph = graph_of(request.getfixturevalue(name).path)
    described = {}
    initialization = graph.signature_def.pop("__saved_model_init_op", None)
    assert initialization is not None  # it fills the lookup tables
    for key, signature in graph.signature_def.items():
        described[key] = tuple(
            {
                name: (tf.as_dtype(info.dtype).name, [d.size for d in info.tensor_shape.dim])
                for name, info in tensors.items()
            }
            for tensors in (signature.inputs, signature.outputs)
        )
    assert described == SIGNATURES


@pytest.mark.parametrize(
    ("name", "text_ops"),
    [
        ("toy", {"NormalizeUTF8", "RegexSplitWithOffsets"}),
        (
            "bahdanau",
            {
                "NormalizeUTF8",
                "SentencepieceDetokenizeOp",
                "SentencepieceIdToStringOp",
                "SentencepieceOp",
                "SentencepieceTokenizeOp",
            },
        ),
    ],
)
def test_ops_are_stock_ones(name, text_ops, request):
    path = request.getfixturevalue(name).path
    ops = graph_ops(graph_of(path).graph_def)
    assert {op for op in ops if not hasattr(tf.raw_ops, op)} == text_ops
    assert not [op for op in ops if "PyFunc" in op or op.startswith("Xla")]
    assert validate_export(path) == []


def test_every_variable_is_stored_once(bahdanau):
    parameters = sum(v.numpy().nbytes for v in bahdanau.model.variables)
    files = sum(file.stat().st_size for file in (bahdanau.path / "variables").iterdir())
    assert parameters > 100_000
    assert parameters <= files <= 1.1 * parameters

"""An exported translator says what the Keras model says, without Keras or this library.

Two exports: a toy decoder with character source and wide logits, and the library's
`BahdanauDecoder` with SentencePiece, written and exported through the command line. A session
answers by tensor names, as a server does; one signature is asked in a fresh process that
imports TensorFlow and TensorFlow Text only.
"""

import answer
import numpy as np
import pytest
import tensorflow as tf
from served_translators import (
    ALPHAS,
    LIMITS,
    MANY,
    OTHER_TEXTS,
    SEEDS,
    SIGNATURES,
    TEMPERATURES,
    TEXTS,
    N,
    answers_of_a_fresh_process,
    describe_toy,
    encode_alone,
    export_bahdanau,
    requests_of,
    search_alone,
)
from toy_export import export_shared_toy, with_warm_up

from keras_attention import search
from keras_attention.export import (
    _model_card,
    _saved_model_file,
    _warmup_requests,
    validate_export,
)
from keras_attention.export._supported_ops import list_ops

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module", autouse=True)
def quick():
    """Exports do not answer their warm-up requests: these tests ask the same and more."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_warmup_requests, "replay_requests", lambda directory, requests: [])
        yield


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return describe_toy(export_shared_toy(tmp_path_factory))


@pytest.fixture(scope="module")
def bahdanau(tmp_path_factory):
    return export_bahdanau(tmp_path_factory.mktemp("bahdanau"))


@pytest.fixture(scope="module")
def toy_version(toy):
    return answer.Loaded(toy.path)


@pytest.fixture(scope="module")
def answers(toy, bahdanau, toy_version, tmp_path_factory):
    """Everything both exports answered: name -> dict of arrays."""
    requests = requests_of(toy, bahdanau)
    fresh = {name: request for name, request in requests.items() if "bahdanau score" in name}
    here = {toy.path: toy_version, bahdanau.path: answer.Loaded(bahdanau.path)}
    return answers_of_a_fresh_process(fresh, tmp_path_factory.mktemp("answers")) | {
        name: here[path].ask(signature, **inputs)
        for name, (path, signature, inputs) in requests.items()
        if name not in fresh
    }


def test_answering_needs_neither_keras_attention_nor_this_checkout(answers):
    assert "tensorflow_text" in answers["packages"]
    assert "keras_attention" not in answers["packages"]


@pytest.mark.parametrize("name", ["toy", "bahdanau"])
def test_n_best_equals_the_keras_model_row_by_row(name, answers, request):
    translator = request.getfixturevalue(name)
    found = answers[f"{name} translate_with_alignment"]
    plain = answers[f"{name} serving_default"]
    texts = TEXTS if name == "toy" else OTHER_TEXTS
    assert plain["text"].shape == plain["score"].shape == (len(texts), N)
    for row, text in enumerate(texts):
        ids, begun = encode_alone(translator, text)
        expected = search_alone(ids, begun, translator.search)
        expected_text = translator.target.decode(expected["ids"]).numpy()
        assert plain["text"][row].tolist() == expected_text.tolist()
        np.testing.assert_allclose(plain["score"][row], expected["scores"], atol=1e-5)
        assert found["text"][row].tolist() == expected_text.tolist()
        np.testing.assert_allclose(found["score"][row], expected["scores"], atol=1e-5)
        assert found["length"][row].tolist() == expected["lengths"].tolist()
        columns, source = found["tokens"].shape[2], ids.shape[1]
        tokens = translator.target.ids_to_tokens(expected["ids"][:, :columns]).numpy()
        assert found["tokens"][row].tolist() == tokens.tolist()
        assert found["source_length"][row] == source
        source_tokens = translator.source.ids_to_tokens(ids).numpy()[0].tolist()
        assert found["source_tokens"][row, :source].tolist() == source_tokens
        assert not any(found["source_tokens"][row, source:])
        alignment = found["alignment"][row]
        expected_alignment = expected["alignments"][:, :columns]
        np.testing.assert_allclose(alignment[:, :, :source], expected_alignment, atol=1e-5)
        assert not alignment[:, :, source:].any()
        written = np.arange(columns) < found["length"][row][:, None]
        np.testing.assert_allclose(alignment.sum(axis=-1), written, atol=1e-5)
    assert found["length"].max() == columns


@pytest.mark.parametrize(
    "signature",
    ["serving_default", "translate_with_alignment", "greedy", "score", "search", "sample"],
)
def test_many_rows_are_answered_in_parts_as_few_are(signature, answers):
    few = answers[signature if signature in ("search", "sample") else f"toy {signature}"]
    for name, values in answers[f"many {signature}"].items():
        assert len(values) == MANY * len(TEXTS)
        for start in range(0, len(values), len(TEXTS)):
            part = values[start : start + len(TEXTS)]
            if values.dtype.kind == "f":
                np.testing.assert_allclose(part, few[name], atol=1e-5)
            else:
                np.testing.assert_array_equal(part, few[name])


@pytest.mark.parametrize("name", ["toy", "bahdanau"])
def test_greedy_equals_the_keras_model(name, answers, request):
    translator = request.getfixturevalue(name)
    found = answers[f"{name} greedy"]
    options = {
        key: translator.search[key]
        for key in ("max_length", "constraints")
        if key in translator.search
    }
    texts = TEXTS if name == "toy" else OTHER_TEXTS
    for row, text in enumerate(texts):
        _, (step, state, memory) = encode_alone(translator, text)
        expected = search.greedy_search(step, state, memory, **options)
        assert found["text"][row] == translator.target.decode(expected["ids"]).numpy()[0]
        assert found["length"][row] == expected["lengths"][0]
        np.testing.assert_allclose(found["log_prob"][row], expected["log_probs"][0], atol=1e-5)


@pytest.mark.parametrize("name", ["toy", "bahdanau"])
def test_score_is_the_log_probability_of_the_target(name, answers, request):
    translator = request.getfixturevalue(name)
    found = answers[f"{name} score"]
    pairs = requests_of(*map(request.getfixturevalue, ("toy", "bahdanau")))
    inputs = pairs[f"{name} score"][2]
    limit = translator.search["max_length"]
    lengths = []
    for row, (text, target) in enumerate(zip(*inputs.values(), strict=True)):
        ids = translator.target.encode([target])[0].numpy()[0].tolist() + [3]
        ids = ids[:limit]
        lengths.append(len(ids))
        _, (step, state, memory) = encode_alone(translator, text)
        expected = search.score_sequences(step, state, memory, tf.constant([ids]))
        assert found["length"][row] == len(ids)
        np.testing.assert_allclose(found["log_prob"][row], expected["log_probs"][0], atol=1e-5)
        tokens = found["token_log_prob"][row]
        np.testing.assert_allclose(tokens[: len(ids)], expected["token_log_probs"][0], atol=1e-5)
        assert not tokens[len(ids) :].any()
    if name == "toy":  # "five five five ..." is longer than the limit
        assert lengths[3] == limit and min(lengths) == 1


def test_search_ranks_and_limits_every_row_as_it_asks(answers, toy):
    found = answers["search"]
    for row, text in enumerate(TEXTS):
        _, (step, state, memory) = encode_alone(toy, text)
        penalty = search.GNMTLengthPenalty(float(ALPHAS[row]))
        expected = search.beam_search(
            *(step, state, memory),
            beam_width=N,
            max_length=int(LIMITS[row]),
            length_penalty=penalty,
        )
        assert found["length"][row].tolist() == expected["lengths"].numpy()[0].tolist()
        texts = toy.target.decode(expected["ids"][0]).numpy().tolist()
        assert found["text"][row].tolist() == texts
        np.testing.assert_allclose(found["score"][row], expected["scores"][0], atol=1e-5)
    plain = answers["toy serving_default"]  # row 0 asks for what the export has as its default
    assert found["text"][0].tolist() == plain["text"][0].tolist()


def test_samples_are_those_of_the_keras_model(answers, toy):
    found, greedy = answers["sample"], answers["toy greedy"]
    for row, text in enumerate(TEXTS):
        _, (step, state, memory) = encode_alone(toy, text)
        expected = search.sample_search(
            *(step, state, memory),
            seed=tf.constant(SEEDS[row : row + 1]),
            temperature=tf.constant(TEMPERATURES[row : row + 1]),
            max_length=7,
        )
        assert found["text"][row] == toy.target.decode(expected["ids"]).numpy()[0]
        assert found["length"][row] == expected["lengths"][0]
        np.testing.assert_allclose(found["log_prob"][row], expected["log_probs"][0], atol=1e-5)
    (cold,) = np.flatnonzero(TEMPERATURES == 0.0)
    assert found["text"][cold] == greedy["text"][cold]


@pytest.mark.parametrize("signature", ["serving_default", "translate_with_alignment", "greedy"])
@pytest.mark.parametrize("name", ["toy", "bahdanau"])
def test_rows_do_not_depend_on_their_company(name, signature, answers):
    alone, company = answers[f"{name} {signature}"], answers[f"{name} {signature} company"]
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


def test_no_rows_give_no_rows(answers):
    empty = [name for name in answers if name.endswith("no rows")]
    assert len(empty) == 9
    for name in empty:
        for key, values in answers[name].items():
            assert values.shape[0] == 0, (name, key)
    assert answers["toy serving_default no rows"]["text"].shape == (0, N)


def test_ids_are_read_up_to_their_length_only(answers):
    text = answers["toy translate_with_alignment"]
    for name in ("ids plain", "ids junk"):
        np.testing.assert_allclose(answers[name]["score"], text["score"][:3], atol=1e-5)
        assert answers[name]["length"].tolist() == text["length"][:3].tolist()


def test_hostile_ids_read_as_unknown_and_lengths_are_clipped(answers):
    for name, other in (("ids special", "ids unknown"), ("ids nothing", "ids no columns")):
        for key in ("score", "length", "ids"):
            assert answers[name][key].shape[1:] == answers[other][key].shape[1:]
            if name == "ids special" or key != "ids":
                np.testing.assert_allclose(answers[name][key], answers[other][key], atol=1e-5)
    empty = answers["toy translate_with_alignment"]["score"][TEXTS.index("")]
    np.testing.assert_allclose(answers["ids nothing"]["score"][0], empty, atol=1e-5)


def test_ids_end_once_and_stay_in_the_vocabulary(answers, toy):
    found = answers["ids plain"]
    ids, length = found["ids"], found["length"]
    assert ids.max() < toy.target.vocabulary_size  # the logits are wider by three
    for row in range(ids.shape[0]):
        for beam in range(N):
            end = length[row, beam]
            tokens = ids[row, beam].tolist()
            assert not any(tokens[end:]) and 2 not in tokens and 0 not in tokens[:end]
            assert 3 not in tokens[: end - 1]
            assert tokens[end - 1] == 3 or end == toy.search["max_length"]


def test_a_long_source_loses_its_end(answers):
    found = answers["cut"]
    assert found["source_length"].tolist() == [14, 14]  # 13 characters and the EOS token
    assert found["text"][0].tolist() == found["text"][1].tolist()
    np.testing.assert_allclose(found["score"][0], found["score"][1], atol=1e-6)
    assert b"".join(found["source_tokens"][1]) == b"abcdefg hijkl</s>"


def test_answers_are_finite_sorted_and_valid_text(answers):
    for name, outputs in answers.items():
        if name == "packages":
            continue
        for key, values in outputs.items():
            if values.dtype == np.float32:
                assert np.isfinite(values).all(), (name, key)
            elif values.dtype == object:
                assert all(isinstance(text.decode("utf-8"), str) for text in values.ravel())
        if "score" in outputs:
            assert (np.diff(outputs["score"], axis=1) <= 0).all()


@pytest.mark.parametrize("name", ["toy", "bahdanau"])
def test_signatures_are_the_documented_ones(name, request):
    graph = _saved_model_file.read_meta_graph(request.getfixturevalue(name).path)
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
    ops = list_ops(_saved_model_file.read_meta_graph(path).graph_def)
    assert {op for op in ops if not hasattr(tf.raw_ops, op)} == text_ops
    assert not [op for op in ops if "PyFunc" in op or op.startswith("Xla")]
    assert validate_export(path) == []


def test_every_variable_is_stored_once(bahdanau):
    parameters = sum(v.numpy().nbytes for v in bahdanau.model.variables)
    files = sum(file.stat().st_size for file in (bahdanau.path / "variables").iterdir())
    assert parameters > 100_000
    assert parameters <= files <= 1.1 * parameters


@pytest.mark.parametrize("name", ["toy", "bahdanau"])
def test_warm_up_requests_ask_every_signature(name, request, tmp_path):
    path = request.getfixturevalue(name).path
    if name == "toy":
        path = with_warm_up(path, tmp_path)
    requests = _warmup_requests.read_requests(path)
    assert {(r.signature, len(next(iter(r.inputs.values())))) for r in requests} == {
        (signature, batch) for signature in SIGNATURES for batch in (1, 8)
    }
    assert {r.signature for r in requests if r.outputs} == {"serving_default", "ids", "greedy"}
    card = _model_card.read(path)
    assert card["warmup_requests"] == len(requests)
    assert {key: set(value["outputs"]) for key, value in card["signatures"].items()} == {
        key: set(outputs) for key, (_, outputs) in SIGNATURES.items()
    }
    parameters = sum(v.numpy().nbytes for v in request.getfixturevalue(name).model.variables)
    assert card["parameters"]["bytes"] == parameters
    if name == "bahdanau":
        assert card["run"]["model"] == "bahdanau"
        assert card["options"]["length_penalty"] == {"class": "GNMTLengthPenalty", "alpha": 0.6}

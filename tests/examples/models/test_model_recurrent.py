"""The recurrent models: parts, padding, options, files, training, export, any encoder before any
decoder."""

import inspect
import pathlib
import re
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from seeds import set_seed

from examples import registry
from examples.models import key_value, luong, mixed, rnn_encoder_decoder, rnnsearch, seq2seq
from examples.models.encoders import stacked_lstm
from examples.models.sampling import parse_schedule
from keras_attention import decoders
from keras_attention.decoders import check_decoder, start_decoder
from keras_attention.export import SearchOptions, export_translator, tokenizers
from keras_attention.search import (
    Constraints,
    SpecialIds,
    beam_search,
    greedy_search,
)

SOURCE = np.array([[5, 7, 4, 3, 0, 0], [9, 3, 0, 0, 0, 0], [6, 6, 8, 10, 4, 3]], "int32")
TARGET = np.array([[2, 5, 6, 4, 0], [2, 4, 0, 0, 0], [2, 7, 4, 4, 9]], "int32")
SMALL = {"units": 8, "embedding_dim": 5, "seed": 3}
MODELS = {
    "summary": (rnn_encoder_decoder, {"output_rank": 3}),
    "summary-reversed": (rnn_encoder_decoder, {"reverse": True, "reset_covers_context": False}),
    "seq2seq": (seq2seq, {"layers": 2}),
    "seq2seq-twice": (seq2seq, {"layers": 2, "reverse": False, "feed_twice": True}),
    "luong": (luong, {}),
    "luong-reversed": (luong, {"reverse": True, "scorer": "location", "input_feeding": False}),
    "luong-bidirectional": (luong, {"bidirectional": True}),
    "luong-monotonic": (luong, {"local_attention": "monotonic", "window": 3, "scorer": "dot"}),
    "luong-predictive": (luong, {"local_attention": "predictive", "window": 5, "scorer": "concat"}),
    "rnnsearch": (rnnsearch, {}),
    "rnnsearch-add": (rnnsearch, {"injection": "add"}),
    "rnnsearch-concat": (rnnsearch, {"injection": "concat", "readout_state": "previous"}),
    "key-value": (key_value, {"value_dim": 3}),
    "mixed-cnn": (mixed, {"encoder": "cnn", "decoder": "rnnsearch"}),
    "mixed-lstmn": (mixed, {"encoder": "lstmn", "decoder": "luong", "layers": 1}),
}


def slow(*names):
    return [pytest.param(name, marks=pytest.mark.slow) for name in names]


def build(name, **options):
    set_seed(3)
    module, own = MODELS[name]
    model = module.build(11, 13, **{**SMALL, **own, **options})
    for index, weight in enumerate(model.trainable_weights):  # so that choices are clear
        weight.assign(weight + 0.3 * np.random.RandomState(index).randn(*weight.shape))
    return model


def logits(model, source=SOURCE, target=TARGET):
    return keras.ops.convert_to_numpy(model({"source": source, "target": target}))


@pytest.mark.parametrize("name", MODELS)
def test_padding_changes_no_logit_and_steps_equal_the_full_call(name):
    model = build(name)
    wide = np.pad(SOURCE, ((0, 0), (0, 4)))
    np.testing.assert_allclose(logits(model, wide), logits(model), atol=1e-5)
    alone = logits(model, SOURCE[1:2, :2], TARGET[1:2, :2])
    np.testing.assert_allclose(alone[0], logits(model)[1, :2], atol=1e-5)
    encoded, mask = model.get_layer("encoder")(SOURCE), tf.constant(SOURCE != 0)
    state = encoded.get("initial_state")
    check_decoder(model.get_layer("decoder"), TARGET, encoded["memory"], mask, state)


@pytest.mark.parametrize(
    "name",
    [
        *("rnn-encoder-decoder", "seq2seq", "luong", "rnnsearch", "key-value", "mixed"),
        "multi-source",
    ],
)
def test_the_options_are_those_of_build(name):
    module = registry.find(name).module
    options = {option.name: option.default for option in registry.find(name).options}
    assert module.build(11, 13, **{**options, "units": 8}).count_params() > 0
    assert set(getattr(module, "PAPER", {})) <= set(options)


def test_all_states_of_the_encoder_begin_the_decoder():
    model = build("seq2seq")
    encoder, decoder = model.get_layer("encoder"), model.get_layer("decoder")
    encoded = encoder(SOURCE)
    assert keras.tree.map_structure(lambda x: tuple(x.shape), encoded["initial_state"]) == [
        [(3, 8), (3, 8)],
        [(3, 8), (3, 8)],
    ]
    expected = decoder(TARGET, encoded["memory"], initial_state=encoded["initial_state"])
    np.testing.assert_allclose(logits(model), expected, atol=1e-6)


def test_a_reversed_source_is_the_forward_one_backwards():
    def encoder(reverse):
        set_seed(1)
        return stacked_lstm.build(11, 8, 5, 2, reverse)

    backwards = np.array([[3, 4, 7, 5, 0, 0], [3, 9, 0, 0, 0, 0], [3, 4, 10, 8, 6, 6]], "int32")
    one, other = encoder(True)(SOURCE), encoder(False)(backwards)
    for a, b in zip(*(keras.tree.flatten(x["initial_state"]) for x in (one, other)), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    memory = np.array(one["memory"])[2]  # in the order of the source
    np.testing.assert_allclose(memory, np.array(other["memory"])[2, ::-1], atol=1e-6)


def test_a_source_fed_twice_is_the_source_behind_itself():
    def encoder(twice):
        set_seed(1)
        return stacked_lstm.build(11, 8, 5, 2, feed_twice=twice)

    row = SOURCE[:1, :4]
    once, twice = encoder(False)(np.concatenate([row, row], axis=1)), encoder(True)(SOURCE[:1])
    states = (keras.tree.flatten(x["initial_state"]) for x in (once, twice))
    for a, b in zip(*states, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)
    np.testing.assert_allclose(once["memory"][:, 4:], twice["memory"][:, :4], atol=1e-6)


def test_a_bidirectional_source_backwards_gives_swapped_halves_backwards():
    def swap(states):
        return np.roll(keras.ops.convert_to_numpy(states), 4, axis=-1)

    encoder = stacked_lstm.build(11, 8, 5, 1, bidirectional=True)
    layer = encoder.get_layer("lstm_0")
    layer.set_weights(2 * layer.get_weights()[:3])  # both directions the same
    backwards = np.array([[3, 4, 7, 5, 0, 0], [3, 9, 0, 0, 0, 0], [3, 4, 10, 8, 6, 6]], "int32")
    one, other = encoder(SOURCE), encoder(backwards)
    for a, b in zip(*(keras.tree.flatten(x["initial_state"]) for x in (one, other)), strict=True):
        np.testing.assert_allclose(a, swap(b), atol=1e-6)
    np.testing.assert_allclose(one["memory"][2], swap(other["memory"])[2, ::-1], atol=1e-6)


@pytest.mark.parametrize("wrong", [{"units": 7}, {"reverse": True}, {"feed_twice": True}])
def test_what_a_bidirectional_encoder_cannot_be_is_refused(wrong):
    with pytest.raises(ValueError, match="bidirectional encoder expects even `units`.*Received"):
        stacked_lstm.build(11, **{"units": 8, "embedding_dim": 5, "bidirectional": True, **wrong})


def test_weights_are_drawn_as_the_paper_says():
    set_seed(1)
    model = seq2seq.build(11, 13, **SMALL, layers=2, init_range=0.08)
    values = np.concatenate([np.ravel(weight) for weight in model.trainable_weights])
    assert np.abs(values).max() <= 0.08 and abs(values.std() - 0.08 / 3**0.5) < 0.002
    assert all(np.any(np.array(w) != 0) for w in model.trainable_weights if "bias" in w.name)


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("rnnsearch", {"scheduled_sampling": "constant:0.5"}),
        ("rnnsearch-concat", {"dtype": "mixed_bfloat16"}),
        ("summary", {"output_rank": 32}),
    ],
)
def test_weights_are_normal_as_the_paper_says(name, more):
    module, own = MODELS.get(name, (rnnsearch, {}))
    sizes = {"units": 48, "embedding_dim": 40, "seed": 3}
    model = module.build(60, 70, **{**sizes, **own, **more}, init_stddev=0.01)
    found = {variable.path: np.array(variable) for variable in model.trainable_variables}
    assert len(found) > 15 and len({value.std() for value in found.values()}) > 9
    for path, value in found.items():
        name = path.rsplit("/", 1)[-1]
        if name == "recurrent_kernel":
            for block in np.split(value, 3, axis=1):
                np.testing.assert_allclose(block.T @ block, np.eye(48), atol=1e-5)
        elif name in ("bias", "vector"):
            assert not value.any()
        else:
            deviation = 0.001 if name in ("query_kernel", "key_kernel") else 0.01
            assert value.std() == pytest.approx(deviation, rel=0.07), path
            assert abs(value.mean()) < 0.1 * deviation, path
    assert any("query_kernel" in path for path in found) == (module is rnnsearch)
    own = [np.array(v) for v in module.build(60, 70, **sizes).trainable_variables]
    assert max(value.std() for value in own if value.shape == (60, 40)) > 0.02, "none by default"


def test_the_papers_attention_begins_with_the_same_weight_everywhere():
    model = rnnsearch.build(11, 13, **SMALL, init_stddev=0.01)
    memory = model.get_layer("encoder")(SOURCE)["memory"]
    _, alignment = model.get_layer("decoder")(TARGET, memory, return_attention_scores=True)
    kept = SOURCE != 0
    expected = np.broadcast_to((kept / kept.sum(axis=1, keepdims=True))[:, None], (3, 5, 6))
    np.testing.assert_allclose(alignment, expected, atol=1e-6)


def test_local_attention_tells_the_positions_it_predicts():
    model = build("luong-predictive", reverse=True)
    encoded = model.get_layer("encoder")(SOURCE)
    _, alignment, auxiliary_outputs = model.get_layer("decoder")(
        TARGET,
        encoded["memory"],
        initial_state=encoded["initial_state"],
        memory_mask=tf.constant(SOURCE != 0),
        return_attention_scores=True,
        return_auxiliary_outputs=True,
    )
    lengths = (SOURCE != 0).sum(axis=1)[:, None]
    position = np.array(auxiliary_outputs["position"])
    assert position.shape == TARGET.shape and np.all((position > 0) & (position < lengths))
    # No weight further from the window's middle than its radius.
    far = np.abs(np.arange(6) - np.minimum(np.floor(position), lengths - 1)[:, :, None]) > 2
    assert np.all(np.array(alignment)[far] == 0) and np.all(np.sum(alignment, axis=-1) > 0)


@pytest.mark.parametrize("name", ["summary", "seq2seq", "luong", "rnnsearch-add"])
def test_scheduled_sampling_is_a_decoder_like_the_one_inside(name):
    plain, sampled = build(name), build(name, scheduled_sampling="linear:0.01,0.25")
    np.testing.assert_array_equal(logits(sampled), logits(plain))
    decoder = sampled.get_layer("decoder")
    assert decoders.get_decoder_start_id(decoder) == decoders.get_decoder_start_id(
        plain.get_layer("decoder")
    )
    sampled({"source": SOURCE, "target": TARGET}, training=True)
    assert int(decoder.minibatches) == 1 and decoder.schedule.minimum == 0.25


@pytest.mark.parametrize(
    ("text", "first", "later", "choice"),
    [
        ("linear:0.1", 1.0, 0.7, "sample"),
        ("linear:0.1,0.75", 1.0, 0.75, "sample"),
        ("linear:0.1,0.25,0.8", 0.8, 0.5, "sample"),
        ("linear:0.1,0.25,0.8:argmax", 0.8, 0.5, "argmax"),
        ("exponential:0.5:sample", 1.0, 0.125, "sample"),
        ("constant:0.5:argmax", 0.5, 0.5, "argmax"),
    ],
)
def test_a_schedule_says_how_true_tokens_get_fewer_and_how_others_are_chosen(
    text, first, later, choice
):
    layer = build("summary", scheduled_sampling=text).get_layer("decoder")
    assert layer.choice == choice
    shares = [layer.schedule(n) if callable(layer.schedule) else layer.schedule for n in (0, 3)]
    np.testing.assert_allclose(shares, [first, later], rtol=1e-6)


@pytest.mark.parametrize(
    "text",
    [
        *("linear", "linear:x", "linear:1,2,3", "linear:0.1,0,1,1", "linear:0.1,0,2"),
        *("constant:2", "cosine:1", "exponential:1.5", "", "linear:0.1:best", "linear:0.1:"),
        *("linear:argmax", "linear:0.1:argmax:argmax"),
    ],
)
def test_a_schedule_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match=f"is constant:P.*Received: '{text}'"):
        parse_schedule(text)


@pytest.mark.parametrize("encoder", mixed.ENCODERS)
def test_any_encoder_goes_before_a_recurrent_and_a_parallel_decoder(encoder):
    for decoder in ("luong", "transformer"):
        sizes = {**SMALL, "embedding_dim": 8, "heads": 2, "layers": 1}
        model = mixed.build(11, 13, encoder, decoder, **sizes)
        wide = np.pad(SOURCE, ((0, 0), (0, 4)))
        np.testing.assert_allclose(logits(model, wide), logits(model), atol=1e-5)


@pytest.mark.parametrize("decoder", mixed.DECODERS)
def test_any_decoder_goes_behind_a_convolutional_encoder(decoder):
    sizes = {**SMALL, "embedding_dim": 8, "heads": 2, "layers": 1}
    model = mixed.build(11, 13, "cnn", decoder, **sizes)
    assert logits(model).shape == (3, 5, 13)
    changed = logits(model, np.where(SOURCE == 4, 8, SOURCE))  # beside the end: one layer's reach
    assert np.abs(changed - logits(model))[0].max() > 1e-6, "the source is read"


RELOAD = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "examples":
            raise ImportError("examples is not to be imported here")

sys.meta_path.insert(0, Blocked())
import keras, numpy as np
from keras_attention.decoders import start_decoder
from keras_attention.search import greedy_search

SEARCH
data = np.load(sys.argv[1] + "/data.npz")
ids = {"source": data["source"], "target": data["target"]}
for name in sys.argv[2:]:
    model = keras.saving.load_model(f"{sys.argv[1]}/{name}.keras", compile=False)
    np.testing.assert_allclose(np.array(model(ids)), data[name], atol=1e-6)
    np.testing.assert_array_equal(search_greedily(model, ids["source"]), data[f"{name} found"])
    kinds = {type(layer) for layer in model._flatten_layers()}
    assert not kinds & {keras.layers.GRU, keras.layers.LSTM}
assert "examples" not in sys.modules
print("reloaded")
"""


def search_greedily(model, source):
    encoded, decoder = model.get_layer("encoder")(source), model.get_layer("decoder")
    memory = decoder.prepare(encoded["memory"], keras.ops.not_equal(source, 0))
    state = start_decoder(decoder, memory, encoded.get("initial_state"), 5)
    return np.array(greedy_search(decoder.step, state, memory, max_length=5)["ids"])


def test_no_system_takes_the_cudnn_road():
    # XLA cannot compile cuDNN's recurrences, and they refuse a row that is all padding.
    root = pathlib.Path(__file__).parents[3]
    sources = [
        path for name in ("examples", "keras_attention") for path in root.glob(f"{name}/**/*.py")
    ]
    assert len(sources) > 100
    found = [path.name for path in sources if re.search(r"layers\.(GRU|LSTM)\(", path.read_text())]
    assert found == []


@pytest.mark.thorough
def test_all_systems_reload_where_examples_cannot_be_imported(tmp_path):
    sampled = {"scheduled_sampling": "inverse-sigmoid:20"}
    names = dict.fromkeys(("summary", "seq2seq-twice", "luong-predictive", "mixed-lstmn"), sampled)
    names |= {"rnnsearch": {}, "rnnsearch-concat": sampled, "key-value": {}}
    data = {"source": SOURCE, "target": TARGET}
    for name, options in names.items():
        model = build(name, dropout=0.1, **options)
        model.save(tmp_path / f"{name}.keras")
        data |= {name: logits(model), f"{name} found": search_greedily(model, SOURCE)}
    np.savez(tmp_path / "data.npz", **data)
    program = RELOAD.replace("SEARCH", inspect.getsource(search_greedily))
    command = [sys.executable, "-c", program, str(tmp_path), *names]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "reloaded", done.stderr[-2000:]


@pytest.mark.parametrize("name", slow("summary", "seq2seq", "luong-predictive", "mixed-cnn"))
def test_a_little_training_makes_the_loss_fall(name):
    keras.utils.set_random_seed(1)
    module, own = MODELS[name]
    model = module.build(11, 13, **{**SMALL, "units": 16, **own})
    labels = np.concatenate([TARGET[:, 1:], np.zeros((3, 1), "int32")], axis=1)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    model.compile(keras.optimizers.Adam(0.02), loss)
    data = {"source": SOURCE, "target": TARGET}
    losses = model.fit(data, labels, epochs=25, verbose=0).history["loss"]
    assert losses[-1] < 0.4 * losses[0]


@pytest.mark.parametrize(
    "name", slow("seq2seq", "summary", "luong-reversed", "key-value", "mixed-lstmn")
)
def test_an_export_says_what_the_search_finds(name, tmp_path):
    model = build(name)
    source = tokenizers.train("words", ["a b c d e f g"])
    target = tokenizers.train("words", ["p q r s t u v w x"])
    texts, beam = ["a b", "g c c", "d"], 2
    search = SearchOptions(beam_width=beam, max_length=5)
    path = export_translator(model, tmp_path, source=source, target=target, search=search)
    served = tf.saved_model.load(str(path)).signatures["serving_default"](text=tf.constant(texts))
    ids, lengths = source.encode(texts)
    ids = np.array([[*row[:length], 3, *[0] * (3 - length)] for row, length in
                    zip(np.array(ids), np.array(lengths), strict=True)], "int32")  # fmt: skip
    encoder, decoder = model.get_layer("encoder"), model.get_layer("decoder")
    encoded = encoder(ids)
    memory = decoder.prepare(encoded["memory"], tf.constant(ids != 0))
    state = decoders.start_decoder(decoder, memory, encoded.get("initial_state"), 5)
    found = beam_search(
        decoder.step,
        state,
        memory,
        beam_width=beam,
        max_length=5,
        constraints=Constraints(
            special_ids=SpecialIds(start_id=decoders.get_decoder_start_id(decoder))
        ),
    )
    expected = [target.decode(found["ids"][row]).numpy().tolist() for row in range(3)]
    np.testing.assert_array_equal(served["text"].numpy().tolist(), expected)
    np.testing.assert_allclose(served["score"], found["scores"], atol=1e-5)
    assert np.ptp(np.array(found["scores"])[:, 0]) > 1e-3, "rows differ"

"""Ensembles of decoders: the averages, step by step and at once, and what is refused."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_attention import (
    BahdanauDecoder,
    ChoDecoder,
    EnsembleDecoder,
    EnsembleEncoder,
    LuongDecoder,
    PointerGeneratorDecoder,
    ScheduledSampling,
    Seq2SeqDecoder,
    TransformerDecoder,
    check_decoder,
)
from keras_attention.search import BeamOptions, beam_search

B, S, T, V = 3, 7, 5, 13
WIDTHS = (5, 8, 11)
RANDOM = np.random.RandomState(17)
IDS = RANDOM.randint(3, V, (B, T)).astype("int32")
MEMORY = RANDOM.randn(B, S, sum(WIDTHS)).astype("float32")
MASK = np.arange(S) < np.array([[7], [3], [1]])
STATE = {"2": RANDOM.randn(B, 11).astype("float32")}


def make_members():
    keras.utils.set_random_seed(23)
    return [
        BahdanauDecoder(V, 3, 4),
        TransformerDecoder(V, 8, 2, 2),
        LuongDecoder(V, 3, 11, cells=keras.layers.GRUCell(11)),
    ]


def run_alone(members):
    """Returns logits and weights of each member on its part of the memory."""
    parts = np.split(MEMORY, np.cumsum(WIDTHS)[:-1], axis=-1)
    return [
        member(IDS, part, STATE.get(str(n)), memory_mask=MASK, return_attention_scores=True)
        for n, (member, part) in enumerate(zip(members, parts, strict=True))
    ]


@pytest.mark.parametrize("average", ["log_probs", "probabilities"])
def test_the_full_call_averages_what_each_decoder_predicts_alone(average):
    members, shares = make_members(), np.array([1.0, 2.0, 5.0]) / 8
    ensemble = EnsembleDecoder(members, [1, 2, 5], average, memory_dims=WIDTHS)
    options = {"memory_mask": MASK, "return_attention_scores": True}
    found, weights = ensemble(IDS, MEMORY, STATE, **options)
    alone = run_alone(members)
    log_probs = np.stack([np.array(ops.log_softmax(logits)) for logits, _ in alone])
    if average == "log_probs":
        expected = np.tensordot(shares, log_probs, 1)
    else:
        expected = np.log(np.tensordot(shares, np.exp(log_probs), 1))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    expected = sum(share * np.array(one) for share, (_, one) in zip(shares, alone, strict=True))
    np.testing.assert_allclose(weights, expected, atol=1e-6)
    assert ensemble(IDS, MEMORY, STATE, memory_mask=MASK).shape == (B, T, V)


def test_repeated_steps_are_the_full_call():
    ensemble = EnsembleDecoder(make_members(), memory_dims=WIDTHS)
    assert check_decoder(ensemble, IDS, MEMORY, MASK, STATE) < 1e-5


def test_a_search_asks_every_decoder_for_room_and_order():
    members = make_members()
    ensemble = EnsembleDecoder(members, memory_dims=WIDTHS)
    ensemble(IDS, MEMORY)
    memory = ensemble.prepare(ops.convert_to_tensor(MEMORY), MASK)
    state = ensemble.start(memory, STATE, max_length=4)
    assert ensemble.get_capacity(state) == 4
    with pytest.raises(ValueError, match="4"):
        beam_search(ensemble.step, state, memory, beam_width=2, max_length=5)
    options = {"beam_width": 3, "max_length": 4}
    found = beam_search(ensemble.step, state, memory, **options)
    reordered = BeamOptions(reorder_cache=ensemble.reorder_cache)
    again = beam_search(ensemble.step, state, memory, options=reordered, **options)
    np.testing.assert_array_equal(found["ids"], again["ids"])
    np.testing.assert_allclose(found["scores"], again["scores"], atol=1e-5)


def test_one_decoder_alone_ranks_as_itself():
    member = make_members()[0]
    alone = member(IDS, MEMORY[..., :5], memory_mask=MASK)
    found = EnsembleDecoder([member])(IDS, MEMORY[..., :5], memory_mask=MASK)
    np.testing.assert_allclose(found, ops.log_softmax(alone), atol=1e-5)


def test_weights_are_those_of_the_decoders_that_attend():
    attending, *_ = make_members()
    silent = ChoDecoder(V, 3, 4)
    options = {"memory_mask": MASK, "return_attention_scores": True}
    memory, both = MEMORY[..., :5], MEMORY[..., :10]
    ensemble = EnsembleDecoder([attending, silent], [1, 3], memory_dims=[5, 5])
    _, weights = ensemble(IDS, both, **options)
    np.testing.assert_array_equal(weights, attending(IDS, memory, **options)[1])
    assert ensemble.has_attention
    alone = EnsembleDecoder([silent], memory_dims=[5])
    assert not alone.has_attention and not np.any(alone(IDS, memory, **options)[1])


def test_trained_decoders_know_the_widths_of_their_memories():
    first, second, third = make_members()
    first(IDS, MEMORY[..., :5])
    sampled = ScheduledSampling(second, 0.5)
    sampled(IDS, MEMORY[..., 5:13])
    ensemble = EnsembleDecoder([first, sampled])
    assert ensemble.memory_dims == [5, 8] and ensemble.decoders == [first, second]
    with pytest.raises(ValueError, match=r"side by side, of the widths \[5, 8\].*\(3, 7, 24\)"):
        ensemble(IDS, MEMORY)
    with pytest.raises(ValueError, match=r"Received: decoders\[1\], which is not built"):
        EnsembleDecoder([first, third])


def test_what_does_not_fit_together_is_refused():
    first = BahdanauDecoder(V, 3, 4)
    for others, message in (
        ([], "a list of at least one layer"),
        ([first, keras.layers.Dense(3)], r"of type `Decoder`.*decoders\[1\]=Dense"),
        ([first, 3], r"decoders\[1\]=3"),
        ([first, PointerGeneratorDecoder(BahdanauDecoder(V + 1, 3, 4), 2)], "none that copies"),
        ([first, BahdanauDecoder(V + 1, 3, 4)], r"one `vocabulary_size`.*\[13, 14\]"),
        ([first, Seq2SeqDecoder(V, 3, 4)], r"all read the same first id. Received: \[2, 3\]"),
    ):
        with pytest.raises(ValueError, match=message):
            EnsembleDecoder(others, memory_dims=[5] * len(others))
    for options, message in (
        ({"memory_dims": [5, 5]}, r"one int for each of the 1 decoders"),
        ({"memory_dims": [0]}, "memory_dims"),
        ({"weights": [1, 2]}, "EnsembleDecoder expects `weights` to be 1 numbers"),
        ({"average": "mean"}, "average"),
        ({"dropout": 0.5}, "EnsembleDecoder has no argument `dropout`"),
    ):
        with pytest.raises(ValueError, match=message):
            EnsembleDecoder([first], **{"memory_dims": [5], **options})
    ensemble = EnsembleDecoder([first], memory_dims=[5])
    with pytest.raises(ValueError, match=r"by its number, with keys of \['0'\]"):
        ensemble(IDS, MEMORY[..., :5], initial_state={"1": STATE["2"]})


def make_encoder(units, mask_zero=True):
    ids = keras.Input([None], dtype="int32")
    embedded = keras.layers.Embedding(V, 3, mask_zero=mask_zero)(ids)
    memory, state = keras.layers.GRU(units, return_sequences=True, return_state=True)(embedded)
    return keras.Model(ids, {"memory": memory, "initial_state": state})


def test_encoders_lie_side_by_side_with_their_mask_and_states():
    first, second = make_encoder(4), make_encoder(5)
    bare = keras.Sequential([keras.layers.Embedding(V, 2, mask_zero=True)])
    ids = np.where(MASK, RANDOM.randint(1, V, (B, S)), 0)
    found = EnsembleEncoder([first, bare, second])(ids)
    parts = [first(ids), bare(ids), second(ids)]
    expected = [parts[0]["memory"], parts[1], parts[2]["memory"]]
    np.testing.assert_array_equal(found["memory"], np.concatenate(expected, axis=-1))
    assert found["initial_state"].keys() == {"0", "2"}
    np.testing.assert_array_equal(found["initial_state"]["2"], parts[2]["initial_state"])
    assert "initial_state" not in EnsembleEncoder([bare])(ids)
    with pytest.raises(ValueError, match=r"`memory`.*encoders\[1\] that returns \[<"):
        EnsembleEncoder([bare, keras.Model(first.input, [*first.output.values()])])(ids)
    pooled = keras.Sequential([keras.layers.Embedding(V, 2), keras.layers.MaxPooling1D(2)])
    with pytest.raises(ValueError, match=r"of one length.*\[7, 3\]"):
        EnsembleEncoder([bare, pooled])(ids)


@pytest.mark.parametrize("others", [True, False])
def test_the_mask_of_the_encoders_reaches_the_decoders(others):
    encoder = EnsembleEncoder([make_encoder(4), make_encoder(5, mask_zero=others)])
    ensemble = EnsembleDecoder(
        [BahdanauDecoder(V, 3, 4), TransformerDecoder(V, 8, 2, 1)], memory_dims=[4, 5]
    )
    ids = np.where(MASK, RANDOM.randint(1, V, (B, S)), 0)
    source, target = keras.Input([None], dtype="int32"), keras.Input([None], dtype="int32")
    encoded = encoder(source)
    state = {"0": encoded["initial_state"]["0"]}
    model = keras.Model([source, target], ensemble(target, encoded["memory"], state))
    for weight in model.weights:
        weight.assign(3 * weight)
    short = model([ids[1:2, :3], IDS[1:2]])
    np.testing.assert_allclose(model([ids, IDS])[1:2], short, atol=1e-4)

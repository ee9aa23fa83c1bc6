"""CTranslate2 gives what our searches give, with the same weights."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from benchmarks import decode
from benchmarks.__main__ import main
from keras_attention.search import (
    BeamOptions,
    CoveragePenalty,
    beam_search,
)

ctranslate2 = pytest.importorskip(
    "ctranslate2", reason="CTranslate2 is not installed: the decode benchmark's peer is NOT tested"
)
SIZES = {"width": 16, "layers": 2, "heads": 2, "vocabulary": 37}


@pytest.mark.parametrize("beam", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_both_find_the_same_hypotheses_and_scores(tmp_path, beam):
    from benchmarks import ctranslate2_models

    model = decode.example_model(**SIZES)
    generator = np.random.default_rng(3)
    for weight in model.weights:  # normalizations and biases too, which begin at 1 and 0
        weight.assign(weight + generator.normal(scale=0.3, size=weight.shape))
    ctranslate2_models.write(model, tmp_path / "model")
    translator = ctranslate2.Translator(str(tmp_path / "model"), intra_threads=1)
    sources = decode.example_sources(5, 7, SIZES["vocabulary"])
    sources[1, 3:] = sources[2, 5:] = 0
    sources[1, 2] = sources[2, 4] = 3
    names = ctranslate2_models.tokens(SIZES["vocabulary"])
    theirs = translator.translate_batch(
        [[names[token] for token in row if token] for row in sources],
        beam_size=beam,
        num_hypotheses=beam,
        length_penalty=0,
        min_decoding_length=9,
        max_decoding_length=9,
        return_scores=True,
    )
    search = decode.searcher(model, beam, 9)
    ids, scores = (np.array(found) for found in search(tf.constant(sources)))
    for row, found in enumerate(theirs):
        for number, hypothesis in enumerate(found.hypotheses):
            assert [names[token] for token in ids[row, number]] == hypothesis
        np.testing.assert_allclose(scores[row], found.scores, atol=1e-4)


class PowerPenalty:
    """CTranslate2's rule: log-probability over the length to a power, the EOS token counted."""

    def __init__(self, power):
        self.power = power

    def __call__(self, log_probs, lengths):
        return log_probs / keras.ops.cast(lengths, log_probs.dtype) ** self.power

    def bound(self, log_probs, shortest, longest):
        return self(log_probs, longest)


def make_ending_model(vocabulary):
    """A Transformer that ends some hypotheses early: its EOS token looks like its bias."""
    model = decode.example_model(**{**SIZES, "vocabulary": vocabulary})
    generator = np.random.default_rng(3)
    for weight in model.weights:
        weight.assign(weight + generator.normal(scale=0.3, size=weight.shape))
    decoder = model.get_layer("decoder")
    bias = np.array(decoder.stack[-1].feed_forward_normalization.beta)
    table = np.array(decoder.embed.table.embeddings)
    table[3] += 3 * bias / np.linalg.norm(bias)
    decoder.embed.table.embeddings.assign(table)
    return model


@pytest.mark.parametrize(
    "power, beta, limit",
    [(0, 0, 16), (1, 0, 8), (0.6, 0, 16), (0, 0.3, 16), (1, 0.3, 8)],
)
def test_both_rank_hypotheses_of_any_length_and_align_them_alike(tmp_path, power, beta, limit):
    """The whole n-best list, its scores and alignments: EOS tokens, penalties, the length limit.

    CTranslate2 gets the patience to see more hypotheses than it would, since ours stops when the
    answer is certain, and one source a call, since its alignments of a batch are not in order.
    """
    from benchmarks import ctranslate2_models

    vocabulary = 37
    model, names = make_ending_model(vocabulary), ctranslate2_models.tokens(vocabulary)
    ctranslate2_models.write(model, tmp_path / "model")
    translator = ctranslate2.Translator(str(tmp_path / "model"), intra_threads=1)
    sources = decode.example_sources(5, 7, vocabulary)
    sources[1, 3:] = sources[2, 5:] = 0
    sources[1, 2] = sources[2, 4] = 3
    encoder, decoder = model.get_layer("encoder"), model.get_layer("decoder")
    real = tf.constant(sources != 0)
    memory = decoder.prepare(encoder(sources)["memory"], memory_mask=real)
    tokens = tf.range(vocabulary)[None]

    def step(ids, state, memory):
        """No padding, no start, no end at first: forbidden before the softmax, as there."""
        logits, decoder_state, alignment = decoder.step(ids, state["decoder"], memory)
        is_first = (state["time"] == 0)[:, None]
        forbidden = (tokens == 0) | (tokens == 2) | (tokens == 3) & is_first
        state = {"decoder": decoder_state, "time": state["time"] + 1}
        return tf.where(forbidden, -1e9, logits), state, alignment

    state = {"decoder": decoder.start(memory, max_length=limit), "time": tf.zeros([5], "int32")}
    found = beam_search(
        step,
        state,
        memory,
        beam_width=4,
        max_length=limit,
        length_penalty=PowerPenalty(power) if power else None,
        options=BeamOptions(CoveragePenalty(beta) if beta else None, memory_mask=real),
    )
    found = {name: np.array(tensor) for name, tensor in found.items()}
    assert len(set(found["lengths"].ravel())) > 2
    for row, source in enumerate(sources):
        (theirs,) = translator.translate_batch(
            [[names[token] for token in source if token]],
            beam_size=4,
            num_hypotheses=4,
            patience=60,
            length_penalty=power,
            coverage_penalty=beta,
            min_decoding_length=1,
            max_decoding_length=limit,
            suppress_sequences=[["<s>"], ["<blank>"]],
            return_scores=True,
            return_attention=True,
        )
        np.testing.assert_allclose(found["scores"][row], theirs.scores, atol=1e-4)
        for number, hypothesis in enumerate(theirs.hypotheses):
            ids = [token for token in found["ids"][row, number] if token not in (0, 3)]
            assert [names[token] for token in ids] == hypothesis
            alignment = found["alignments"][row, number, : len(ids), : np.sum(source != 0)]
            np.testing.assert_allclose(alignment, theirs.attention[number], atol=1e-5)


@pytest.mark.slow
def test_the_suite_runs_from_end_to_end(capsys):
    sizes = ["--batch", "2", "--source-length", "5", "--length", "4", "--width", "8"]
    sizes += ["--layers", "1", "--heads", "2", "--vocabulary", "11", "--threads", "1"]
    words = ["decode", *sizes, "--beams", "2", "--repeats", "1", "--warmup", "1"]
    assert main([*words, "--sides", "eager", "graph", "float32"]) == 0
    text = capsys.readouterr().out
    assert "ours, eager" in text and "ours, graph" in text and "CTranslate2, float32" in text

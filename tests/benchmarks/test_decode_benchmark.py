"""CTranslate2 gives what our searches give, with the same weights."""

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import decode
from benchmarks.__main__ import main

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


@pytest.mark.slow
def test_the_suite_runs_from_end_to_end(capsys):
    sizes = ["--batch", "2", "--source-length", "5", "--length", "4", "--width", "8"]
    sizes += ["--layers", "1", "--heads", "2", "--vocabulary", "11", "--threads", "1"]
    words = ["decode", *sizes, "--beams", "2", "--repeats", "1", "--warmup", "1"]
    assert main([*words, "--sides", "graph", "float32"]) == 0
    text = capsys.readouterr().out
    assert "ours, graph" in text and "CTranslate2, float32" in text

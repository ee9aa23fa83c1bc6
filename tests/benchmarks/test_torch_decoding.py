"""PyTorch's search over RNNsearch finds what ours finds, with the same weights."""

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import decode
from benchmarks.__main__ import main

torch = pytest.importorskip(
    "torch", reason="PyTorch is not installed: the decode benchmark's peer is NOT tested"
)


@pytest.mark.parametrize("beam", [1, 3])
def test_both_find_the_same_hypotheses_and_scores(beam):
    from rnnsearch_twins import VOCABULARY, make_twins

    from benchmarks.torch_models.decoding import beam_search

    model, peer = make_twins()
    sources = decode.example_sources(5, 7, VOCABULARY)
    sources[1, 3:] = sources[2, 5:] = 0
    sources[1, 2] = sources[2, 4] = 3
    ids, scores = beam_search(peer, torch.from_numpy(sources).long(), beam, 9)
    found = [np.array(x) for x in decode.searcher(model, beam, 9)(tf.constant(sources))]
    assert len(np.unique(found[0])) > 5, "the comparison needs outputs that differ"
    np.testing.assert_array_equal(ids.numpy(), found[0])
    np.testing.assert_allclose(scores.numpy(), found[1], atol=1e-4)


@pytest.mark.slow
def test_the_suite_runs_from_end_to_end(capsys):
    sizes = ["--batch", "2", "--source-length", "5", "--length", "4", "--width", "8"]
    sizes += ["--vocabulary", "11", "--threads", "1"]
    words = ["decode", "--model", "rnnsearch", *sizes, "--beams", "2", "--repeats", "1"]
    assert main([*words, "--warmup", "1", "--sides", "graph", "torch"]) == 0
    text = capsys.readouterr().out
    assert "ours, graph" in text and "speed, PyTorch, eager = 1" in text

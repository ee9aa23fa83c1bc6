"""What is asked of the model of a run: does it attend, and how many positions has it learned."""

import argparse

import pytest

from examples.models import convs2s, mixed, rnn_encoder_decoder, rnnsearch, seq2seq, transformer
from examples.translation import plot
from examples.translation.opened import has_attention
from keras_attention.export import runs
from keras_attention.export.length_limits import choose_max_length, count_learned_positions
from keras_attention.export.tokenizers import WordTokenizer

WORDS = WordTokenizer([*"abc"])
SMALL = {"units": 4, "embedding_dim": 3}
SAMPLED = {**SMALL, "sampling": "constant:0.5"}
TINY = {"units": 4, "heads": 2, "layers": 1}
LEARNED = {**TINY, "positions": "learned", "max_length": 9}


def build(module, options):
    return module.build(WORDS.vocabulary_size, WORDS.vocabulary_size, **options)


@pytest.mark.parametrize(
    ("module", "options", "positions"),
    [
        (rnnsearch, SAMPLED, {}),
        (transformer, TINY, {}),
        (transformer, LEARNED, {"source": 9, "target": 9}),
        (convs2s, {**SMALL, "max_length": 7}, {"source": 7, "target": 7}),
        (mixed, {**SMALL, "encoder": "cnn", "decoder": "rnnsearch"}, {"source": 1024}),
    ],
)
def test_learned_positions_are_those_of_each_side(module, options, positions):
    model = build(module, options)
    assert count_learned_positions(model) == positions
    assert choose_max_length(model, 20) == min(40, positions.get("target", 40))
    assert has_attention(model)


@pytest.mark.parametrize(
    ("module", "options"), [(rnn_encoder_decoder, SMALL), (seq2seq, SMALL), (seq2seq, SAMPLED)]
)
def test_a_run_without_attention_is_not_drawn(module, options, tmp_path):
    settings = {"system": "seq2seq", "training": {"pairs": "x"}}
    run = runs.write_run(tmp_path / "run", build(module, options), settings, WORDS, WORDS)
    parser = argparse.ArgumentParser()
    plot.add_arguments(parser)
    arguments = parser.parse_args([str(run), "a b", "--output-dir", str(tmp_path / "pictures")])
    with pytest.raises(ValueError, match="seq2seq whose decoder has no attention to draw"):
        plot.run(arguments)
    assert not (tmp_path / "pictures").exists()

"""Free-running perplexity, against its full call on these words."""

import numpy as np
import pytest

from examples.data.batches import Batches
from examples.models import rnnsearch, seq2seq, transformer
from examples.recipes.free_running import free_running_perplexity
from examples.recipes.reference_metrics import make_token_metrics
from examples.training.fitting import evaluate
from keras_attention import TokenCrossentropy
from keras_attention.decoders import get_decoder_start_id
from keras_attention.export.tokenizers import WordTokenizer

pytestmark = pytest.mark.thorough

WORDS = WordTokenizer([*"abcdefg"])  # ids 4 to 10
PAIRS = [("a b c d e", "c b a"), ("e", "a b c d e f g a"), ("b b", "f"), ("g f", "d d d e")]
SMALL = {"units": 6, "seed": 5}
MODELS = {
    "rnnsearch": (rnnsearch, {"embedding_dim": 5}),
    "transformer": (transformer, {"layers": 1, "heads": 2}),
    "reads-the-end-first": (seq2seq, {"embedding_dim": 5, "layers": 1}),
}


def log_probs(model, source, reference):
    """Of each token of a reference, by the full call, one pair and one word at a time."""
    first = get_decoder_start_id(model.get_layer("decoder"))
    found, fed = [], [first]
    for token in reference:
        inputs = {"source": np.array([source]), "target": np.array([fed])}
        logits = np.array(model(inputs))[0, -1].astype("float64")
        found.append(logits[token] - np.log(np.exp(logits).sum()))
        logits[list({0, first} - {3})] = -np.inf
        fed.append(int(logits.argmax()))
    return found


@pytest.mark.parametrize("name", MODELS)
def test_references_are_scored_after_the_models_own_tokens(name):
    module, options = MODELS[name]
    model = module.build(WORDS.vocabulary_size, WORDS.vocabulary_size, **SMALL, **options)
    rng = np.random.default_rng(3)
    for variable in model.trainable_variables:  # words that differ, ends in the middle
        variable.assign(rng.normal(0, 1, variable.shape))
    first = get_decoder_start_id(model.get_layer("decoder"))
    batches = Batches.from_pairs(
        PAIRS, WORDS, WORDS, batch_size=3, max_shapes=1, decoder_start_id=first
    )
    rows = zip(batches.encoded.source, batches.encoded.target, strict=True)
    assert len(batches.encoded) == 4  # so that two rows of the second batch are empty
    found = [log_probs(model, source, reference) for source, reference in rows]
    expected = np.exp(-np.mean(np.concatenate(found)))
    assert free_running_perplexity(model, WORDS, batches) == pytest.approx(expected, rel=1e-4)
    forced = evaluate(model, batches.epoch(0), TokenCrossentropy(), make_token_metrics())[
        "perplexity"
    ]
    assert abs(forced - expected) > 0.01 * expected

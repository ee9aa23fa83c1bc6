"""What a translator says of references: perplexities, accuracy, and the positions it predicts."""

import keras

from examples.data.batches import Batches
from examples.recipes import predicted_positions
from examples.recipes.free_running import free_running_perplexity
from examples.recipes.learned_positions import find_pair_limits
from examples.training.fitting import evaluate
from keras_attention import TokenCrossentropy
from keras_attention.decoders import get_decoder_start_id
from keras_attention.metrics import Perplexity, TokenAccuracy


def make_token_metrics() -> list[keras.metrics.Metric]:
    """Returns the metrics of the references' tokens."""
    return [Perplexity(), TokenAccuracy(name="accuracy")]


def measure_references(
    model: keras.Model, tokenizers, pairs, aligned_by: keras.Model | None = None
) -> dict[str, float]:
    """Returns the numbers, without pairs that are longer than the learned positions.

    Args:
        model: A translator.
        tokenizers: Those of its source and its target.
        pairs: A `Corpus` of sources and references.
        aligned_by: The translator whose alignment predicted positions are compared with, or None.
    """
    models = [model] if aligned_by is None else [model, aligned_by]
    decoder = model.get_layer("decoder")
    options = {"max_shapes": 3, "decoder_start_id": get_decoder_start_id(decoder)}
    options["num_copied_words"] = getattr(decoder, "num_copied_words", 0)
    options |= find_pair_limits(*models)
    batches = Batches.from_pairs(pairs, *tokenizers, **options)
    if batches.report.left_out:
        print(f"references: {batches.report}")
    forced = evaluate(model, batches.epoch(0), TokenCrossentropy(), make_token_metrics())
    numbers = {
        "perplexity": forced["perplexity"],
        "perplexity_free_running": free_running_perplexity(model, tokenizers[1], batches),
        "token_accuracy": forced["accuracy"],
    }
    if aligned_by is not None:
        numbers |= predicted_positions.measure_predicted_positions(
            model, batches.evaluation(), aligned_by
        )
    return numbers

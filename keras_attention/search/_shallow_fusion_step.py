"""A model's step with a language model's beside it: the step of a search with `ShallowFusion`."""

from keras import ops

from keras_attention._utils.flat_beams import gather_beams
from keras_attention.search._checked_step import CheckedStep, check_capacity
from keras_attention.search._log_probs import (
    IMPOSSIBLE,
    POSSIBLE_THRESHOLD,
    compute_log_probs,
    softmax_denominator,
)


class ShallowFusionStep:
    """A `CheckedStep` that runs a language model too, and returns what it adds to the ranking.

    Args:
        model_step: The `CheckedStep` of the model.
        fusion: The `ShallowFusion`.
        max_length: Int, the number of steps of the search.

    Attributes:
        owner, batch: Those of `model_step`.
        leaves: The leaves of the model's state and of the language model's, a pair of tuples.
    """

    def __init__(self, model_step, fusion, max_length):
        self.model_step, self.weight = model_step, fusion.weight
        self.owner, self.batch = model_step.owner, model_step.batch
        language_model, owner = fusion.language_model, "ShallowFusion"
        state = language_model.start(self.batch)
        check_capacity(owner, language_model.step, state, max_length)
        self.language_step = CheckedStep(owner, language_model.step, state, model_step.memory)
        batches = (self.language_step.batch, self.batch)
        if all(isinstance(batch, int) for batch in batches) and len({*batches}) > 1:
            raise ValueError(
                f"{owner} expects `start({batches[1]})` of the language model to return tensors of "
                f"shape ({batches[1]}, ...). Received: a first dimension of {batches[0]}"
            )
        self.leaves = (model_step.leaves, self.language_step.leaves)

    def __call__(self, ids, leaves):
        """Returns logits, leaves, alignment and `weight * log p_LM` `(rows, vocabulary)`."""
        logits, model_leaves, alignment = self.model_step(ids, leaves[0])
        language_logits, language_leaves, _ = self.language_step(ids, leaves[1])
        if language_logits.shape[1] != logits.shape[1]:
            raise ValueError(
                "ShallowFusion expects a language model with the vocabulary of the model, "
                f"{logits.shape[1]} logits. Received: {language_logits.shape[1]} logits"
            )
        log_probs = compute_log_probs(language_logits, softmax_denominator(language_logits))
        possible = log_probs > POSSIBLE_THRESHOLD
        fusion_terms = ops.where(possible, self.weight * log_probs, IMPOSSIBLE)
        return logits, (model_leaves, language_leaves), alignment, fusion_terms

    def reorder_leaves(self, reorder_cache, leaves, parents):
        """Returns the leaves for `parents`; `reorder_cache` reorders the model's state."""
        model_leaves = self.model_step.reorder_leaves(reorder_cache, leaves[0], parents)
        return model_leaves, gather_beams(leaves[1], parents)


def add_fusion_terms(log_probs, fusion_terms):
    """Returns log-probabilities with those of the language model, at least IMPOSSIBLE."""
    return ops.maximum(log_probs + fusion_terms, IMPOSSIBLE)

"""What a language model minimizes: the cross-entropy of each next token."""

from examples.training.objectives import TokenObjective


class LanguageObjective(TokenObjective):
    """`TokenObjective` for a model that has more outputs than `logits`.

    Labels are `{"target": (batch, time)}`: ids, the end mark counted, 0 is padding.

    Example:

    >>> outputs = {"logits": ops.array([[[2.0, 1.0], [0.0, 0.0]]])}
    >>> sums = LanguageObjective().measured(outputs, {"target": ops.array([[1, 0]])})
    >>> {name: round(float(value), 3) for name, value in sums.items()}
    {'loss': 1.313, 'count': 1.0, 'right': 0.0}
    """

    def sums(self, outputs, labels):
        return super().sums(outputs["logits"], labels["target"])

    def measured(self, outputs, labels):
        return super().measured(outputs["logits"], labels["target"])

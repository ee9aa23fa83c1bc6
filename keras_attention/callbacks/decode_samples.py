"""Decodes a few inputs after each epoch, to read what a model writes and to measure it."""

from collections.abc import Callable, Sequence

import keras

from keras_attention import validation


class DecodeSamples(keras.callbacks.Callback):
    """Prints decoded samples after each epoch and adds metrics of the texts to the logs.

    The loss of a decoder is teacher-forced: it does not show what a search writes. Place this
    callback before those that read its metrics, such as
    `keras.callbacks.ModelCheckpoint(path, monitor="val_bleu", mode="max")`.

    Args:
        decode: Function of the list `inputs` that returns as many texts: a greedy search, a beam
            search, or `translator.greedy`. It must use the current weights, without dropout.
        inputs: List of inputs, such as texts.
        references: For each input, the correct text or a list of acceptable texts; or None.
        metrics: Metrics with `update_state(references, texts)`, such as
            `keras_attention.metrics.BLEU()`. The logs get `"val_" + metric.name`.
        num_printed: Int of at least 0, how many of the first samples are printed.
        freq: Positive int, the number of epochs from one decoding to the next.

    Raises:
        ValueError: If an argument is invalid, or `decode` returns a different number of texts.

    Example:

    >>> import numpy as np
    >>> from keras_attention.metrics import WordErrorRate
    >>> samples = DecodeSamples(
    ...     lambda inputs: [text.upper() for text in inputs],
    ...     ["ein hund", "zwei"],
    ...     ["EIN HUND", "DREI"],
    ...     metrics=[WordErrorRate()],
    ...     num_printed=1,
    ... )
    >>> model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    >>> model.compile("sgd", "mse")
    >>> history = model.fit(np.ones((2, 1)), np.ones((2, 1)), verbose=0, callbacks=[samples])
    Epoch 1: val_word_error_rate 0.3333
      ein hund -> EIN HUND (reference: EIN HUND)
    >>> round(history.history["val_word_error_rate"][0], 4)
    0.3333
    """

    def __init__(
        self,
        decode: Callable[[list], Sequence[str]],
        inputs: Sequence,
        references: Sequence[str | Sequence[str]] | None = None,
        metrics: Sequence[keras.metrics.Metric] = (),
        num_printed: int = 3,
        freq: int = 1,
    ) -> None:
        super().__init__()
        owner = "DecodeSamples"
        self.decode: Callable[[list], Sequence[str]] = decode
        self.inputs: list = list(inputs)
        self.references: list | None = None if references is None else list(references)
        self.metrics: list[keras.metrics.Metric] = list(metrics)
        self.num_printed: int = validation.check_int_at_least(owner, "num_printed", num_printed, 0)
        self.freq: int = validation.check_positive_int(owner, "freq", freq)
        if not callable(decode):
            raise ValueError(
                f"{owner} expects `decode` to be a function of a list of inputs that returns as "
                f"many texts. Received: decode={decode!r}"
            )
        if self.metrics and self.references is None:
            raise ValueError(
                f"{owner} needs `references` to compute metrics. "
                f"Received: {len(self.metrics)} metrics, references=None"
            )
        names = [metric.name for metric in self.metrics]
        if len({*names}) < len(names):
            raise ValueError(
                f"{owner} expects metrics of different names, which are those of the logs. Pass "
                f"`name=` to them. Received: {', '.join(names)}"
            )
        if self.references is not None and len(self.references) != len(self.inputs):
            raise ValueError(
                f"{owner} expects a reference for each input. Received: {len(self.inputs)} inputs, "
                f"{len(self.references)} references"
            )

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        if (epoch + 1) % self.freq:
            return
        texts = list(self.decode(self.inputs))
        if len(texts) != len(self.inputs):
            raise ValueError(
                "DecodeSamples expects `decode` to return a text for each input. Received: "
                f"{len(texts)} texts for {len(self.inputs)} inputs"
            )
        values = {}
        for metric in self.metrics:
            metric.reset_state()
            metric.update_state(self.references, texts)
            values[f"val_{metric.name}"] = float(metric.result())
        if logs is not None:
            logs.update(values)
        measured = ", ".join(f"{name} {value:.4f}" for name, value in values.items())
        print(f"Epoch {epoch + 1}: {measured or 'decoded samples'}")
        for number in range(min(self.num_printed, len(texts))):
            print(f"  {self.inputs[number]} -> {texts[number]}{self._describe_reference(number)}")

    def _describe_reference(self, number):
        if self.references is None:
            return ""
        reference = self.references[number]
        described = reference if isinstance(reference, str) else " | ".join(reference)
        return f" (reference: {described})"

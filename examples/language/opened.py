"""A run of a language model, opened for a command."""

import dataclasses

import keras
import numpy as np

from examples.data.rows import RowBatches
from examples.language import texts
from examples.language.train import make_loss, make_metrics
from examples.training.fitting import evaluate
from keras_attention.export import tokenizers
from keras_attention.export.runs import Run, read_run
from keras_attention.export.tokenizers import Tokenizer
from keras_attention.export.tokenizers.base import UNKNOWN_ID

BATCH_SIZE = 64
SHAPES = 6
WRITTEN = ("words", "characters")  # tokens that are parts of a text, as they stand in it


@dataclasses.dataclass(frozen=True)
class Opened:
    """A trained language model and its tokenizer.

    Attributes:
        run: The `Run`.
        tokenizer: The tokenizer of its texts.
        max_tokens: Tokens of a text that are read.
    """

    run: Run
    tokenizer: Tokenizer
    max_tokens: int

    @property
    def model(self) -> keras.Model:
        """The model, from `ids` to `logits` and, with attention, `weights`."""
        return self.run.model

    @property
    def has_attention(self) -> bool:
        """Whether it has weights."""
        return "weights" in self.model.output

    def numbers(self, lines: list[str]) -> dict:
        """Returns loss a token, perplexity and accuracy on texts, their tokens and unknown ones.

        `length` is a `texts.Length`: tokens beyond `max_tokens` count for nothing.
        """
        groups, _, length = texts.encoded(
            lines, self.tokenizer, self.max_tokens, SHAPES, BATCH_SIZE
        )
        batches = RowBatches(groups, BATCH_SIZE, is_training=False)
        measured = evaluate(self.model, batches.epoch(0), make_loss(), make_metrics())
        ids = np.concatenate([labels["logits"].ravel() for _, labels in groups])
        return {
            **measured,
            "loss": float(np.log(measured["perplexity"])),  # a token, where `fit` has a batch's
            "tokens": int(np.count_nonzero(ids)),
            "unknown": int(np.count_nonzero(ids == UNKNOWN_ID)),
            "length": length,
        }

    def weights(self, text: str) -> tuple[list[str], np.ndarray]:
        """Returns what is read of a text, and the weights of each layer when reading it.

        Returns:
            The tokens, the start mark first, unknown words and characters as they were written,
            and an array `(layers, time, time)`: how much each step attended to the state before
            the first, and to those of all tokens but the last.
        """
        ((inputs, _),), _, _ = texts.encoded([text], self.tokenizer, self.max_tokens, 1, 1)
        tokens = [
            token.decode() for token in self.tokenizer.ids_to_tokens(inputs["ids"][0]).numpy()
        ]
        if self.tokenizer.kind in WRITTEN:
            pieces = self.tokenizer.split(self.tokenizer.normalize([text]))[0].numpy()
            tokens[1:] = [piece.decode() for piece in pieces[: len(tokens) - 1]]
        # Nothing reads the state of the last token: its slot is left out.
        return tokens, self.model.predict_on_batch(inputs)["weights"][0, :, :, :-1]


def open_run(directory: str) -> Opened:
    """Returns the run in `directory`, its model and tokenizer loaded.

    Raises:
        ValueError: If it does not say how many tokens it reads, or a part is damaged.
    """
    run = read_run(directory)
    limit = run.settings.get("max_tokens")
    if not isinstance(limit, int) or limit < 1:
        raise ValueError(
            f"{directory}/run.json is expected to hold the tokens of a text that are read, a "
            f"positive int. Received: max_tokens={limit!r}"
        )
    _ = run.model  # a damaged file is told now, not in the middle of the work
    return Opened(run, tokenizers.load(run.directory / texts.FOLDER), limit)

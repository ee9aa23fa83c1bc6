"""Language models: lines of text in, the probability of each next token out."""

import dataclasses
import pathlib
from collections.abc import Iterator
from typing import ClassVar, Literal

import keras
import numpy as np
from keras import ops

from examples.commands.arguments import UsageError
from examples.commands.options import Directory, Positional, VocabularySize
from examples.data import texts
from examples.data.encoding import END_ID
from examples.data.order import pick_evenly
from examples.data.rows import RowBatches
from examples.recipes.base import Recipe, Served
from examples.training.fitting import evaluate
from examples.training.recorder import Plateau
from keras_attention import TokenCrossentropy, plotting
from keras_attention.export import TextInput, tokenizers
from keras_attention.export.tokenizers import SUBWORD_KINDS, TOKENIZER_CLASSES
from keras_attention.export.tokenizers.base import BOS_ID, UNKNOWN_ID
from keras_attention.metrics import Perplexity, TokenAccuracy

#: Tokens that are parts of a text, as they stand in it.
WRITTEN = ("words", "characters")
DESCRIPTIONS = {
    "text": "a line of text, in the tokens the run was trained on, of which the first {} are read",
    "tokens": "ids of the text's tokens and of its end, 3, which a text that is cut off has not; 0 "
    "is padding",
    "length": "number of tokens, the end counted",
    "log_probabilities": "natural logarithm of the probability of each token given those before",
    "log_probability": "their sum, that of the text; where `is_cut`, that of its beginning, not to "
    "be compared with those of whole texts",
    "is_cut": "1 where a text has more than {} tokens, else 0: what stands beyond is not read",
    "attention": "how much the step that predicts a token attended to the empty state (slot 0) and "
    "to the states that read the BOS token (slot 1), the first token (slot 2), ...",
}


@dataclasses.dataclass(kw_only=True)
class Language(Recipe):
    """Reads lines of text, plain or gzipped, and learns the probability of each next token.

    The end of a line is a token too. Lines know nothing of one another.

    examples:
      captions, tokenized, rare words unknown:
        python -m examples train {0} --text train.lc.norm.tok.en.gz \\
            --validation-text val.lc.norm.tok.en.gz --min-frequency 2 --run runs/captions
      letters instead of words:
        python -m examples train {0} --text names.txt --validation-text dev.txt \\
            --tokenizer characters --units 64 --run runs/names
      English that a translator into English can search with, by --language-model:
        python -m examples train {0} --text news.en --validation-text dev.en \\
            --tokenizer-of runs/mine --run runs/english

    Attributes:
        text: The training text, a sentence a line.
        validation_text: The validation text.
        max_examples: Read the first N lines of each file; all by default.
        tokenizer: What a token is; words are what stands between spaces.
        tokenizer_of: Read the target tokens of this run of a translator, instead of making a
            tokenizer, so that the translator can search with --language-model; none by default.
        vocabulary_size: Ids at most; by default 8000 for subwords, else no limit.
        min_frequency: Characters or words seen less often are unknown.
        lowercase: Lower-case the text.
        max_tokens: Tokens of a line that are read, the rest is cut off.
        num_buckets: Lengths to pad to; each is compiled once.
        monitor: What decides which weights are best on the validation text.
        plateau: Halve the learning rate after N epochs without a new best; never by default.
    """

    tokenizer_names: ClassVar = ("text",)
    training_fields: ClassVar = ("monitor", "plateau")
    quick_training: ClassVar = "--max-examples 64 --epochs 1 --no-xla --num-buckets 1"
    quick_evaluation: ClassVar = "--max-examples 32"

    text: pathlib.Path
    validation_text: pathlib.Path
    max_examples: int | None = None
    tokenizer: Literal[tuple(TOKENIZER_CLASSES)] = "words"
    tokenizer_of: Directory | None = None
    vocabulary_size: VocabularySize | None = None
    min_frequency: int = 1
    lowercase: bool = False
    max_tokens: int = 200
    num_buckets: int = 4
    epochs: int = 20
    monitor: Literal["perplexity", "accuracy"] = "perplexity"
    plateau: int | None = None

    def check(self) -> None:
        if self.tokenizer_of is not None and (
            self.tokenizer != Language.tokenizer
            or self.vocabulary_size is not None
            or self.min_frequency > 1
            or self.lowercase
        ):
            raise UsageError(
                "--tokenizer-of takes the tokenizer of another run as it is. Leave out "
                "--tokenizer, --vocabulary-size, --min-frequency and --lowercase."
            )
        if self.tokenizer in SUBWORD_KINDS and self.min_frequency > 1:
            raise UsageError(
                f"--min-frequency is for characters and words; {SUBWORD_KINDS[self.tokenizer]} has "
                "--vocabulary-size. Leave it out, or choose --tokenizer words."
            )

    def read_data(self) -> dict[str, list[str]]:
        files = {"training": self.text, "validation": self.validation_text}
        return {name: texts.read_texts(file, self.max_examples) for name, file in files.items()}

    def make_tokenizers(self, training: list[str]) -> dict[str, tokenizers.Tokenizer]:
        if self.tokenizer_of is not None:
            return {"text": tokenizers.load(self.tokenizer_of / "target.tokenizer")}
        found = tokenizers.train(
            self.tokenizer,
            training,
            vocabulary_size=self.vocabulary_size,
            min_frequency=self.min_frequency,
            lowercase=self.lowercase,
        )
        return {"text": found}

    def make_batches(self, name: str, part: list[str]) -> RowBatches:
        groups, _, length = self._encode(part, self.num_buckets)
        is_training = name == "training"
        batches = RowBatches(groups, self.batch_size, self.seed if is_training else 0, is_training)
        print(f"{name}: {length}; {batches}")
        return batches

    def make_loss(self) -> dict[str, keras.losses.Loss]:
        return {"logits": TokenCrossentropy()}

    def make_metrics(self) -> list[keras.metrics.Metric]:
        return [Perplexity(), TokenAccuracy(name="accuracy")]

    def make_callbacks(self, directory: pathlib.Path) -> tuple[keras.callbacks.Callback, ...]:
        if self.plateau is None:
            return ()
        return (Plateau(directory, self.monitor, patience=self.plateau),)

    def evaluate(
        self, *, text: pathlib.Path, max_examples: int | None = None
    ) -> dict[str, float | int]:
        """Measures a run on text that it has not seen.

        examples:
          python -m examples evaluate runs/captions --text test_2016_flickr.lc.norm.tok.en.gz

        what the numbers mean:
          perplexity         e to the mean cost of a token in nats; the end of a line is a token,
                             and so is an unknown word
          loss               the cost itself
          cut lines, tokens  lines longer than what the run reads (--max-tokens of its training),
                             and their tokens beyond it: those, and the ends of those lines, are
                             not measured
          accuracy           tokens that are the most probable ones, in %
          unknown            tokens that are not in the vocabulary, in %. Perplexities compare
                             only on the same tokens and the same vocabulary

        Args:
            text: The text.
            max_examples: The first N lines; all by default.

        Returns:
            The numbers.
        """
        return self.measure(texts.read_texts(text, max_examples))

    def measure(self, lines: list[str]) -> dict[str, float | int]:
        """Returns the numbers of `evaluate`."""
        groups, _, length = self._encode(lines, 6)
        print(f"text: {length}")
        batches = RowBatches(groups, self.batch_size, is_training=False)
        measured = evaluate(self.model, batches.epoch(0), self.make_loss(), self.make_metrics())
        ids = np.concatenate([labels["logits"].ravel() for _, labels in groups])
        tokens = int(np.count_nonzero(ids))
        return {
            "lines": len(lines),
            "cut_lines": length.cut_texts,
            "cut_tokens": length.cut_tokens,
            "tokens": tokens,
            "perplexity": measured["perplexity"],
            "loss": float(np.log(measured["perplexity"])),  # a token, where `fit` has a batch's
            "accuracy": 100 * measured["accuracy"],
            "unknown": 100 * np.count_nonzero(ids == UNKNOWN_ID) / tokens,
        }

    def plot(
        self, *, texts: Positional = (), text: pathlib.Path | None = None, count: int = 4
    ) -> Iterator[tuple[str, object]]:
        """Draws which earlier states each step of a text attends to.

        examples:
          python -m examples plot runs/captions --output-dir plots \\
              "a dog runs through the snow ."
          python -m examples plot runs/captions --output-dir plots \\
              --text test_2016_flickr.lc.norm.tok.en.gz

        Writes text_1.png, text_2.png, ...: a row a token that is read, a column an earlier state,
        named after the token it was made at; (none) is the empty state before the first. An LSTM
        would have all its weight on the diagonal, the state just before. Of several layers each is
        drawn: text_1_layer_1.png is the lowest.

        Args:
            texts: Texts to draw.
            text: A file of them instead.
            count: Texts of the file to draw, spread over it.

        Yields:
            The name of a file and its figure.
        """
        lines = _choose(texts, text, count)
        if "weights" not in self.model.output:
            raise ValueError(
                f"{self.run.directory} is a run of {self.run.settings['model']}, which has no "
                "attention to draw. Draw one of lstmn."
            )
        for number, line in enumerate(lines, 1):
            tokens, weights = self.get_weights(line)
            for layer, of_layer in enumerate(weights, 1):
                suffix = f"_layer_{layer}" if len(weights) > 1 else ""
                figure = plotting.plot_alignment(
                    np.clip(of_layer, 0.0, 1.0), ["(none)", *tokens[:-1]], tokens
                )
                yield f"text_{number}{suffix}.png", figure

    def get_weights(self, text: str) -> tuple[list[str], np.ndarray]:
        """Returns what is read of a text, and the weights of each layer when reading it.

        Returns:
            The tokens, the BOS token first, out-of-vocabulary ones as they were written,
            and an array `(layers, time, time)`: how much each step attended to the state before
            the first, and to those of all tokens but the last.
        """
        tokenizer = self.tokenizers["text"]
        ((inputs, _),), _, _ = self._encode([text], 1)
        tokens = [token.decode() for token in tokenizer.ids_to_tokens(inputs["ids"][0]).numpy()]
        if tokenizer.kind in WRITTEN:
            pieces = tokenizer.split(tokenizer.normalize([text]))[0].numpy()
            tokens[1:] = [piece.decode() for piece in pieces[: len(tokens) - 1]]
        # Nothing reads the state of the last token: its slot is left out.
        return tokens, self.model.predict_on_batch(inputs)["weights"][0, :, :, :-1]

    def export(self) -> Served:
        """Writes a SavedModel version that a model server loads.

        examples:
          python -m examples export runs/captions served    writes served/1, then served/2, ...
          less served/1/assets.extra/model_card.md          what a client sends and gets

        A request holds `text` (batch). The answer holds `tokens` (batch, time), the ids of the
        text and of its end, `length` (batch), their number, `log_probabilities` (batch, time), of
        each given those before it, and `log_probability` (batch), their sum: the more probable of
        two texts has the larger one. Of a text with more tokens than the run's --max-tokens
        `is_cut` is 1: its first tokens are read, no end follows them, and the sum is that of a
        beginning. An LSTMN also tells `attention` (batch, layers, time, time + 1).

        Returns:
            What is written.
        """
        model = self.make_served_model()
        # A token and an end more than are read: the model takes both off again.
        text_input = TextInput(self.tokenizers["text"], self.max_tokens + 2, add_eos=True)
        descriptions = {
            name: DESCRIPTIONS[name].format(self.max_tokens) for name in ("text", *model.output)
        }
        return Served(model, descriptions, {"text": text_input})

    def make_served_model(self) -> keras.Model:
        """Returns the model from the ids of a text and its end to what they cost.

        Of more ids than `max_tokens` and the end it reads `max_tokens`, without an end.
        """
        text, limit = keras.Input([None], dtype="int32", name="text"), self.max_tokens
        last = text[:, limit : limit + 1]
        target = ops.concatenate(
            [text[:, :limit], ops.where(ops.equal(last, END_ID), last, 0)], axis=1
        )
        is_cut = ops.any((last > 0) & ops.not_equal(last, END_ID), axis=1)
        start = ops.full_like(target[:, :1], BOS_ID)
        shifted = ops.concatenate([start, target[:, :-1]], axis=1)
        outputs = self.model({"ids": ops.where(target > 0, shifted, 0)})
        log_probs = ops.log_softmax(outputs["logits"], axis=-1)
        chosen = ops.take_along_axis(log_probs, target[:, :, None], axis=-1)[:, :, 0]
        chosen = ops.where(target > 0, chosen, 0.0)
        answers = {
            "tokens": ops.add(target, 0),
            "length": ops.sum(ops.cast(target > 0, "int32"), axis=1),
            "log_probabilities": chosen,
            "log_probability": ops.sum(chosen, axis=1),
            "is_cut": ops.cast(is_cut, "int32"),
        }
        if "weights" in outputs:
            answers["attention"] = outputs["weights"]
        return keras.Model({"text": text}, answers, name=self.run.settings["model"])

    def _encode(self, lines, num_buckets):
        return texts.encode_texts(
            lines, self.tokenizers["text"], self.max_tokens, num_buckets, self.batch_size
        )


def _choose(given, file, count):
    """The texts that are given, or some of those of a file."""
    given = [text for text in given if text.strip()]
    if bool(given) == bool(file):
        raise UsageError("Name the texts to draw, or a file of them with --text.")
    if given:
        return given
    return pick_evenly(texts.read_texts(file), count)

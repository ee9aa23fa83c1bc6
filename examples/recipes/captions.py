"""Captioners of scenes of handwritten digits: an image in, what it shows out."""

import dataclasses
import pathlib
from collections.abc import Iterator
from typing import ClassVar, Literal

import keras
import numpy as np

from examples.commands.arguments import UsageError
from examples.commands.options import Directory
from examples.data.scene_stream import GUIDE_WORDS, SceneStream
from examples.data.scenes import Painter, Scene
from examples.recipes.base import Served
from examples.recipes.caption_metrics import is_inside, middles
from examples.recipes.caption_training import SEEDS, CaptionTraining, Range, parse_range
from examples.recipes.captioner import Spelling, captioner
from examples.training.fitting import evaluate
from keras_attention import plotting
from keras_attention.export import TextInput
from keras_attention.export.runs import Run
from keras_attention.export.tokenizers.base import EOS_ID, SPECIAL_TOKENS

BATCH_SIZE = 32
DESCRIPTIONS = {
    "image": "images, 0 to 255",
    "guide": "a sentence that names what the caption is to be about",
    "caption": "what the image shows",
    "words": 'its words, the EOS token "</s>" and "" behind it',
    "length": "how many words there are, without the EOS token",
    "score": "log-probability of the caption",
    "attention": "how much each location was attended to",
}
Part = Literal["test", "validation", "train"]


@dataclasses.dataclass(kw_only=True)
class Captions(CaptionTraining):
    """Learns to caption scenes of handwritten digits.

    They are composed from the images of MNIST while it trains; the last 5,000 training images
    are held out for validation scenes.

    examples:
      the four files of MNIST in a folder, as they are published:
        python -m examples train {0} --mnist mnist --run runs/captions
      hard attention, which draws where it looks and learns by REINFORCE:
        python -m examples train {0} --mnist mnist --attention hard --run runs/hard
      a network of keras.applications with your weights, not trained further:
        python -m examples train {0} --mnist mnist --backbone VGG16 --backbone-weights \\
            vgg16_notop.weights.h5 --run runs/vgg

    What is minimized is the mean loss of a word, plus --doubly-stochastic, or --reinforce and
    --entropy, times means over captions. The paper weighs these against the sum over a caption's
    words: divide its lambdas by the mean number of words of a caption, the EOS token counted. Its
    penalty of 1 is --doubly-stochastic 0.25 for --digits 2:4, which are 4 words in the mean.
    """

    quick_evaluation: ClassVar = "--scenes 64"
    float_format: ClassVar = ".4f"

    def load(self, run: Run) -> None:
        super().load(run)
        size, known = (
            run.model.get_layer("decoder").vocabulary_size,
            self.tokenizers["words"].vocabulary_size,
        )
        if size != known:
            raise ValueError(
                f"The words of {run.directory} are not those of its model: words.tokenizer has "
                f"{known}, the model {size}. Restore them from a copy."
            )

    def evaluate(
        self,
        *,
        mnist: Directory | None = None,
        part: Part = "test",
        scenes: int = 4096,
        digits: Range | None = None,
        beam_width: int = 1,
    ) -> dict[str, object]:
        """Measures a run on scenes of digits that it has not seen.

        examples:
          python -m examples evaluate runs/captions                    4,096 scenes of test digits
          python -m examples evaluate runs/captions --part validation --scenes 1000
          python -m examples evaluate runs/captions --beam-width 4

        what the numbers mean:
          token accuracy     fraction of the words, EOS tokens counted, that the caption written has
                             in their place
          exact match        fraction of the captions written that have no wrong word
          pointing accuracy  fraction of the reference's words for which the largest weight lies in
                             the cell of the digit that the word names, while the caption is written
          next token accuracy, next pointing accuracy, loss
                             the same teacher-forced, and the mean cost of a token

        Args:
            mnist: Folder of MNIST; that of the training by default.
            part: Scenes of test digits, of those held out in training, or of the others.
            scenes: Scenes at least.
            digits: Digits on a scene, LOW:HIGH; as in the training by default.
            beam_width: Hypotheses that the search keeps.

        Returns:
            The numbers.
        """
        stream = self.make_scenes(part, scenes, mnist=mnist, digits=digits)
        model, side = self.make_captioner(beam_width), stream.painter.side
        sums = dict.fromkeys(("scenes", "tokens", "right", "captions", "places", "found"), 0)
        for batch in range(stream.batches):
            inputs, labels = stream.arrays(0, batch)
            written, true = write(model, inputs), labels["caption"]
            same = written["ids"] == true
            has_place = labels["box"][:, :, 2] > 0
            points = middles(written["weights"], self.locations, side)
            found = np.array(is_inside(points, labels["box"])) & has_place
            sums["scenes"] += len(true)
            sums["tokens"] += int((true != 0).sum())
            sums["right"] += int((same & (true != 0)).sum())
            sums["captions"] += int(same.all(axis=1).sum())
            sums["places"] += int(has_place.sum())
            sums["found"] += int(found.sum())
        told = evaluate(
            *(self.model, stream.epoch(0), self.make_loss(), self.make_metrics()),
            trainer=self.trainer,
        )
        return {
            "part": part,
            "beam": beam_width,
            "scenes": sums["scenes"],
            "words_and_ends": sums["tokens"],
            "token_accuracy": sums["right"] / sums["tokens"],
            "exact_match": sums["captions"] / sums["scenes"],
            "pointing_accuracy": sums["found"] / sums["places"],
            "next_token_accuracy": told["accuracy"],
            "next_pointing_accuracy": told["pointing_accuracy"],
            "loss": float(np.log(told["perplexity"])),
        }

    def plot(
        self,
        *,
        mnist: Directory | None = None,
        part: Part = "test",
        count: int = 4,
        beam_width: int = 1,
    ) -> Iterator[tuple[str, object]]:
        """Draws where a captioner looks, word by word, over the image.

        examples:
          python -m examples plot runs/captions --output-dir plots         four test scenes
          python -m examples plot runs/captions --output-dir plots --count 9 --part validation

        Writes scene_1.png, scene_2.png, ...: the image, and beside it for each word what was
        attended to while the word was written; of a guided captioner, one look for the whole
        caption.

        Args:
            mnist: Folder of MNIST; that of the training by default.
            part: Scenes of test digits, of those held out in training, or of the others.
            count: Scenes to draw.
            beam_width: Hypotheses that the search keeps.

        Yields:
            The name of a file and its figure.
        """
        stream = self.make_scenes(part, count, count, mnist=mnist)
        written = write(self.make_captioner(beam_width), stream.arrays(0, 0)[0])
        spoken = self.get_words(written["ids"])
        for number, (scene, words, weights) in enumerate(
            zip(stream.scenes(0, 0), spoken, written["weights"], strict=True), 1
        ):
            yield f"scene_{number}.png", self.draw(scene, words, weights)

    def export(self, *, beam_width: int = 1) -> Served:
        """Writes a SavedModel version that a model server loads.

        examples:
          python -m examples export runs/captions served       writes served/1, then served/2, ...
          less served/1/assets.extra/model_card.md             what a client sends and gets

        A request holds `image` (batch, side, side, 1), 0 for background to 255 for ink, and, where
        a sentence says where to look, `guide` (batch), that text. The answer holds `caption`
        (batch), text, its `score`, `words` (batch, time) and `length`, and `attention` (batch,
        time, rows, columns): what was looked at for each word. A guided captioner looks once,
        (batch, 1, rows, columns).

        Args:
            beam_width: Hypotheses that the search keeps.

        Returns:
            What is written.
        """
        model, tokenizer = self.make_captioner(beam_width), self.tokenizers["words"]
        inputs = {
            name: keras.Input(tensor.shape[1:], dtype=tensor.dtype, name=name)
            for name, tensor in model.input.items()
        }
        found = model(inputs)
        looks = found["weights"].shape[1]
        grid = keras.layers.Reshape((looks, *self.locations), dtype="float32", name="grid")
        outputs = Spelling(tokenizer, name="spelling")(found["ids"])
        outputs |= {name: found[name] for name in ("length", "score")}
        outputs["attention"] = grid(found["weights"])
        return Served(
            keras.Model(inputs, outputs, name=self.run.settings["model"]),
            {name: told for name, told in DESCRIPTIONS.items() if name in {**inputs, **outputs}},
            {"guide": TextInput(tokenizer, max_length=GUIDE_WORDS)} if self.guided else {},
        )

    def make_captioner(self, beam_width: int = 1) -> keras.Model:
        """Returns the model that writes captions; see `captioner`."""
        return captioner(self.model, self._longest + 1, beam_width)

    def get_words(self, ids: np.ndarray) -> list[list[str]]:
        """Returns the words of captions, without the EOS token."""
        tokens = self.tokenizers["words"].ids_to_tokens(ids).numpy()
        kept = (ids != 0) & (ids != EOS_ID)
        return [[w.decode() for w in row[k]] for row, k in zip(tokens, kept, strict=True)]

    def draw(self, scene: Scene, words: list[str], weights: np.ndarray):
        """Returns the figure of one scene.

        Args:
            scene: The scene.
            words: What was written, perhaps nothing: then the look at the end is drawn.
            weights: Array `(time or 1, locations)`.
        """
        tokens = [scene.guide] if self.guided else words or [SPECIAL_TOKENS[EOS_ID]]
        weights = weights[: len(tokens)].reshape(len(tokens), *self.locations)
        text = " ".join(words)
        expected = "" if text == scene.caption else f"   expected: {scene.caption}"
        return plotting.plot_image_attention(
            scene.image[..., 0], weights, tokens, title=f"{text}{expected}"
        )

    def make_scenes(
        self,
        part: str,
        count: int,
        batch_size: int = BATCH_SIZE,
        *,
        mnist: pathlib.Path | None = None,
        digits: str | None = None,
    ) -> SceneStream:
        """Returns `count` scenes of a part, or a few more to fill the last batch.

        They have as many digits as those of the training, or `digits`.

        Raises:
            DataError: If MNIST is not there.
            UsageError: If they have more digits than the run has learned to caption.
        """
        most = parse_range(self.digits)[1]
        if parse_range(digits or self.digits)[1] > most:
            raise UsageError(
                f"The run has learned scenes of at most {most} digits. Received: --digits {digits}"
            )
        painter = self._make_painter(part, mnist, digits)
        return self._make_stream(painter, batch_size, -(-count // batch_size), SEEDS[part])


@dataclasses.dataclass(kw_only=True)
class GuidedCaptions(Captions):
    """Learns to say where a digit is that a sentence names.

    A scene is composed from the images of MNIST while it trains; the last 5,000 training images
    are held out for validation scenes.

    examples:
      a captioner learns to see digits; then a sentence says which of them the caption is about:
        python -m examples train show-attend-tell --mnist mnist --run runs/captions
        python -m examples train {0} --mnist mnist --encoder-from runs/captions --run runs/guided
      more digits on a scene:
        python -m examples train show-attend-tell --mnist mnist --digits 2:6 --run runs/full
        python -m examples train {0} --mnist mnist --digits 1:6 \\
            --encoder-from runs/full --run runs/guided-full

    Some scenes need to hold a single digit: from those it learns where to look. What is minimized
    is the mean loss of a word, less --entropy times the mean entropy of a caption's look.
    """

    guided: ClassVar = True
    inputs: ClassVar = ("image", "guide", "target")

    #: With more digits on every scene it learns to look anywhere but at the one that is named.
    digits: Range = "1:4"

    def read_data(self) -> dict[str, Painter]:
        least, most = parse_range(self.digits)
        if least > 1:
            print(
                f"No scene holds a single digit (--digits {self.digits}): it may learn to look "
                f"anywhere but at the digit that is named. --digits 1:{most} has such scenes."
            )
        return super().read_data()


def write(model: keras.Model, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Returns what a `captioner` says of a batch, as arrays; see `CaptionSearch`."""
    return model.predict_on_batch({name: inputs[name] for name in model.input})

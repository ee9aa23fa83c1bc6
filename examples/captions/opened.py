"""A run of a captioner, opened for a command."""

import dataclasses
import functools

import keras
import numpy as np

from examples.captions import words
from examples.captions.captioning import captioner
from examples.captions.options import digits_of
from examples.captions.scenes import Painter
from examples.captions.stream import SceneStream
from examples.captions.train import DEV_SEED, TEST_SEED
from examples.commands import arguments as shared
from examples.commands.arguments import UsageError
from examples.data.idx import read_mnist
from keras_attention.export.runs import Run, read_run
from keras_attention.export.tokenizers import WordTokenizer

BATCH_SIZE = 32
SEEDS = {"test": TEST_SEED, "dev": DEV_SEED, "train": 1}
EXPECTED = {"grid": int, "digits": list, "longest": int, "side": int, "locations": list}


@dataclasses.dataclass(frozen=True)
class Opened:
    """A trained captioner and its words.

    Attributes:
        run: The `Run`.
        tokenizer: The tokenizer of sentences and captions.
        beam: Hypotheses that a search keeps.
    """

    run: Run
    tokenizer: WordTokenizer
    beam: int

    @property
    def model(self) -> keras.Model:
        """The model that was trained, from pictures and words to logits and weights."""
        return self.run.model

    @property
    def guided(self) -> bool:
        """Whether a sentence says where to look."""
        return "guide" in self.model.input

    @property
    def locations(self) -> tuple[int, int]:
        """Rows and columns of locations."""
        return tuple(self.run.settings["locations"])

    @functools.cached_property
    def captioner(self) -> keras.Model:
        """The model that writes captions."""
        return captioner(self.model, self.run.settings["longest"] + 1, self.beam)

    def write(self, inputs: dict) -> dict:
        """Returns what the captioner says of a batch, as arrays; see `CaptionSearch`."""
        names = list(self.captioner.input)
        return self.captioner.predict_on_batch({name: inputs[name] for name in names})

    def said(self, ids: np.ndarray) -> list[list[str]]:
        """Returns the words of captions, without the end mark."""
        tokens = self.tokenizer.ids_to_tokens(ids).numpy()
        kept = (ids != 0) & (ids != words.EOS_ID)
        return [[w.decode() for w in row[k]] for row, k in zip(tokens, kept, strict=True)]

    def scenes(
        self,
        mnist: str | None,
        part: str,
        count: int,
        batch_size: int = BATCH_SIZE,
        digits: str | None = None,
    ):
        """Returns scenes of a part as a `SceneStream` of `count` scenes or a few more.

        They have as many digits as those of the training, or `digits`, as `--digits` has them.

        Raises:
            DataError: If MNIST is not there.
            UsageError: If they have more digits than the run has learned to caption.
        """
        settings = self.run.settings
        least, most = digits_of(digits) if digits else settings["digits"]
        if most > settings["digits"][1]:
            raise UsageError(
                f"The run has learned scenes of at most {settings['digits'][1]} digits. "
                f"Received: --digits {digits}"
            )
        folder = mnist or (settings.get("training") or {}).get("mnist")
        if not folder:
            raise UsageError("The run does not say where MNIST is. Name its folder with --mnist.")
        images, labels = read_mnist(folder, part)
        painter = Painter(images, labels, settings["grid"], (least, most), self.guided)
        encoder = words.Encoder(self.tokenizer, settings["longest"])
        names = tuple(self.model.input)
        return SceneStream(
            painter, encoder, batch_size, -(-count // batch_size), SEEDS[part], names
        )


def open_run(directory: str, beam: int = 1) -> Opened:
    """Returns the run in `directory`, its model and words loaded.

    Raises:
        ValueError: If it does not say what its scenes are, or its model is another one.
    """
    run = read_run(directory)
    for name, kind in EXPECTED.items():
        if not isinstance(run.settings.get(name), kind):
            raise ValueError(
                f"{directory}/run.json is expected to hold {name}, of type {kind.__name__}. "
                f"Received: {name}={run.settings.get(name)!r}"
            )
    opened = Opened(run, words.load(directory), beam)
    size = run.model.get_layer("decoder").vocabulary_size
    if size != opened.tokenizer.vocabulary_size:
        raise ValueError(
            f"The words of {directory} are not those of its model: {words.FOLDER} has "
            f"{opened.tokenizer.vocabulary_size}, the model {size}. Restore them from a copy."
        )
    return opened


def add_scenes(parser) -> None:
    """Adds where scenes come from, and how captions are searched."""
    parser.add_argument(
        "--mnist", metavar="DIR", help="folder of MNIST (default: where the run has learned)"
    )
    parser.add_argument(
        "--part",
        choices=tuple(SEEDS),
        default="test",
        help="scenes of test digits, of those held out in training, or of the others "
        "(default: %(default)s)",
    )
    add_beam(parser)


def add_beam(parser) -> None:
    """Adds how captions are searched."""
    shared.number(parser, "--beam-width", 1, "hypotheses that the search keeps")

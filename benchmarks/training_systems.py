"""The models that `python -m benchmarks train` measures: ours, the PyTorch twin, their batches.

All sides get the same arrays. A batch is full: no sentence and no document is padded. Dropout is
0 on both sides. The default sizes of Show, Attend and Tell, HAN and the LSTMN are those of
`python -m examples train`: scenes of 3 x 3 digits with captions of four words; documents with as
many words and sentences as the mean film review, and its vocabulary; captions of Multi30k.
"""

import dataclasses
import math
from collections.abc import Callable

import numpy as np

from benchmarks.harness import BenchmarkError

TRANSLATION = {
    "batch": 64,
    "source_length": 20,
    "target_length": 20,
    "width": 256,
    "vocabulary": 8000,
}


@dataclasses.dataclass(frozen=True)
class System:
    """A model that is measured.

    Attributes:
        title: Its name, with the sizes that no flag sets.
        ours: Callable of `(sizes, dtype)` that returns the Keras model.
        torch: Callable of `(sizes)` that returns the PyTorch module, whose arguments are the
            inputs of the Keras model in the order of the batch's dict.
        batch: Callable of `(sizes)` that returns a dict of inputs, and the labels.
        sizes: The sizes that flags set, with their defaults.
        unit: What a step is counted in.
        counted: The sizes whose product is the number of these in a step.
        ignore_class: The label that has no loss; 0 is padding.
    """

    title: str
    ours: Callable
    torch: Callable
    batch: Callable
    sizes: dict[str, int]
    unit: str = "target tokens"
    counted: tuple[str, ...] = ("batch", "target_length")
    ignore_class: int = 0

    def count(self, sizes: dict[str, int]) -> int:
        """Returns how many units a step of these sizes has."""
        return math.prod(sizes[name] for name in self.counted)

    def choose_sizes(self, given: dict[str, int | None]) -> dict[str, int]:
        """Returns all sizes: those given, and the defaults of those that are None.

        Raises:
            BenchmarkError: If a size is given that the model does not have.
        """
        flags = {name: f"--{name.replace('_', '-')}" for name in (*given, *self.sizes)}
        given = {name: size for name, size in given.items() if size is not None}
        for name, size in given.items():
            if name not in self.sizes:
                raise BenchmarkError(
                    f"{self.title} has the sizes {', '.join(flags[n] for n in self.sizes)}. "
                    f"Received: {flags[name]} {size}"
                )
        return {**self.sizes, **given}


def our_rnnsearch(sizes, dtype):
    """Returns RNNsearch of `width` units throughout."""
    from examples.models import rnnsearch

    vocabulary, width = sizes["vocabulary"], sizes["width"]
    options = {"units": width, "embedding_dim": width, "maxout_units": width}
    return rnnsearch.build(vocabulary, vocabulary, **options, dtype=dtype)


def torch_rnnsearch(sizes):
    """Returns the same in PyTorch."""
    from benchmarks.torch_models.rnnsearch import TorchRNNsearch

    return TorchRNNsearch(sizes["vocabulary"], sizes["width"])


def our_transformer(sizes, dtype):
    """Returns a Transformer of 3 and 3 layers, 4 heads, an inner width of 4 times `width`."""
    from examples.models import transformer

    vocabulary, width = sizes["vocabulary"], sizes["width"]
    options = {"layers": 3, "units": width, "heads": 4, "feed_forward_dim": 4 * width}
    return transformer.build(vocabulary, vocabulary, **options, dropout=0.0, dtype=dtype)


def torch_transformer(sizes):
    """Returns the same in PyTorch."""
    from benchmarks.torch_models.transformer import TorchTransformer

    width = sizes["width"]
    return TorchTransformer(sizes["vocabulary"], width, heads=4, hidden=4 * width, layers=3)


def our_convs2s(sizes, dtype):
    """Returns ConvS2S of 4 and 4 blocks of kernel size 3."""
    from examples.models import convs2s

    vocabulary, width = sizes["vocabulary"], sizes["width"]
    options = {"embedding_dim": width, "units": width, "kernel_size": 3}
    options |= {"encoder_layers": 4, "decoder_layers": 4}
    return convs2s.build(vocabulary, vocabulary, **options, dropout=0.0, dtype=dtype)


def torch_convs2s(sizes):
    """Returns the same in PyTorch."""
    from benchmarks.torch_models.convs2s import TorchConvS2S

    return TorchConvS2S(sizes["vocabulary"], sizes["width"], layers=4, kernel=3)


def our_show_attend_tell(sizes, dtype):
    """Returns Show, Attend and Tell with soft attention; other sizes are fractions of `width`."""
    from examples.models import show_attend_tell

    options = _caption_sizes(sizes)
    return show_attend_tell.build(sizes["vocabulary"], sizes["side"], **options, dtype=dtype)


def torch_show_attend_tell(sizes):
    """Returns the same in PyTorch."""
    from benchmarks.torch_models.show_attend_tell import TorchShowAttendTell

    return TorchShowAttendTell(sizes["vocabulary"], sizes["side"], **_caption_sizes(sizes))


def _caption_sizes(sizes):
    width = sizes["width"]
    return {"units": width, "embedding_dim": width // 2, "annotation_dim": 3 * width // 4}


def our_han(sizes, dtype):
    """Returns a HAN of 2 classes; both directions of an encoder have `width` units together."""
    from examples.models import han

    options = {**_han_sizes(sizes), "dropout": 0.0, "word_dropout": 0.0}
    return han.build(sizes["vocabulary"], 2, **options, dtype=dtype)


def torch_han(sizes):
    """Returns the same in PyTorch."""
    from benchmarks.torch_models.han import TorchHAN

    return TorchHAN(sizes["vocabulary"], 2, **_han_sizes(sizes))


def _han_sizes(sizes):
    width = sizes["width"]
    return {"embedding_dim": 2 * width, "units": width // 2, "attention_units": width}


def our_lstmn(sizes, dtype):
    """Returns a language model of one layer of `width` memory cells."""
    from examples.models import lstmn

    options = {"units": sizes["width"], "embedding_dim": sizes["width"], "dropout": 0.0}
    return lstmn.build(sizes["vocabulary"], **options, dtype=dtype)


def torch_lstmn(sizes):
    """Returns the same in PyTorch."""
    from benchmarks.torch_models.lstmn import TorchLSTMN

    return TorchLSTMN(sizes["vocabulary"], sizes["width"])


def example_batch(batch, source_length, target_length, vocabulary):
    """Returns ids `(source, target, labels)` of full sentences, the same on every side."""
    generator = np.random.default_rng(1)
    source = generator.integers(4, vocabulary, (batch, source_length), dtype="int32")
    source[:, -1] = 3
    return source, *_example_targets(generator, batch, target_length, vocabulary)


def _example_targets(generator, batch, length, vocabulary):
    labels = generator.integers(4, vocabulary, (batch, length), dtype="int32")
    labels[:, -1] = 3
    start = np.full((batch, 1), 2, "int32")
    return np.concatenate([start, labels[:, :-1]], axis=1), labels


def translation_batch(sizes):
    """Returns a batch of sentence pairs."""
    names = ("batch", "source_length", "target_length", "vocabulary")
    source, target, labels = example_batch(*(sizes[name] for name in names))
    return {"source": source, "target": target}, labels


def caption_batch(sizes):
    """Returns a batch of images, 0 to 255, and captions."""
    generator, batch, side = np.random.default_rng(1), sizes["batch"], sizes["side"]
    image = generator.uniform(0, 255, (batch, side, side, 1)).astype("float32")
    captions = batch, sizes["target_length"], sizes["vocabulary"]
    target, labels = _example_targets(generator, *captions)
    return {"image": image, "target": target}, labels


def document_batch(sizes):
    """Returns a batch of documents, and the number of the class of each."""
    generator, batch = np.random.default_rng(1), sizes["batch"]
    shape = batch, sizes["sentences"], sizes["source_length"]
    sentences = generator.integers(4, sizes["vocabulary"], shape, dtype="int32")
    return {"sentences": sentences}, generator.integers(0, 2, batch, dtype="int32")


def text_batch(sizes):
    """Returns a batch of texts: the tokens so far, and the next ones."""
    names = ("batch", "target_length", "vocabulary")
    ids, labels = _example_targets(np.random.default_rng(1), *(sizes[name] for name in names))
    return {"ids": ids}, labels


SYSTEMS = {
    "rnnsearch": System(
        "RNNsearch", our_rnnsearch, torch_rnnsearch, translation_batch, TRANSLATION
    ),
    "transformer": System(
        "Transformer, 3 + 3 layers, 4 heads",
        our_transformer,
        torch_transformer,
        translation_batch,
        TRANSLATION,
    ),
    "convs2s": System(
        "ConvS2S, 4 + 4 blocks, kernel 3",
        our_convs2s,
        torch_convs2s,
        translation_batch,
        TRANSLATION,
    ),
    "show-attend-tell": System(
        "Show, Attend and Tell, soft attention",
        our_show_attend_tell,
        torch_show_attend_tell,
        caption_batch,
        {"batch": 64, "side": 72, "target_length": 5, "width": 128, "vocabulary": 28},
    ),
    "han": System(
        "HAN, 2 classes",
        our_han,
        torch_han,
        document_batch,
        {"batch": 16, "sentences": 30, "source_length": 25, "width": 100, "vocabulary": 20000},
        unit="words",
        counted=("batch", "sentences", "source_length"),
        ignore_class=-100,
    ),
    "lstmn": System(
        "LSTMN language model",
        our_lstmn,
        torch_lstmn,
        text_batch,
        {"batch": 64, "target_length": 20, "width": 256, "vocabulary": 6000},
    ),
}

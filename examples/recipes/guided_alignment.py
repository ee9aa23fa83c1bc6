"""Alignments of translators: the loss that guides them, and links behind an output.

Chen et al. 2016 (https://arxiv.org/abs/1607.01628): the loss of the tokens plus a weight times
`keras_attention.GuidedAlignmentLoss`.
"""

import argparse
import dataclasses
import functools
import pathlib
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Literal

import keras

from examples.commands.arguments import UsageError
from examples.commands.options import PositiveFloat
from examples.data.batches import Batches
from examples.data.linked_batches import LinkedBatches, Links, read_pair_links
from examples.data.pair_files import PairFiles
from examples.data.parallel import Corpus
from examples.recipes.optimizers import OptimizedRecipe
from keras_attention import GuidedAlignmentLoss
from keras_attention.data import find_links, format_links
from keras_attention.export import Translation
from keras_attention.export.tokenizers import Tokenizer
from keras_attention.export.tokenizers.base import SPECIAL_TOKENS

HARD = "hard"


def check_word_tokens(flag: str, kinds: Sequence[str]) -> None:
    """Raises `UsageError` unless the tokens of both sides are words, as links count them."""
    if set(kinds) != {"words"}:
        raise UsageError(
            f"{flag} counts words, and a word of another tokenizer is several tokens, each with "
            f"attention weights of its own. Train with --tokenizer words. Received: {kinds[0]} of "
            f"the source, {kinds[1]} of the target"
        )


def _check_form(text):
    try:
        if text == HARD or 0 < float(text) <= 1:
            return text
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(
        f"expected {HARD} or a threshold above 0 and up to 1, received {text!r}"
    )


#: `"hard"` or the text of a threshold: the annotation of an option.
AlignmentForm = typing.Annotated[str, _check_form]


def check_alignment(
    form: str | None, has_attention: bool, tokenizers: Mapping[str, Tokenizer]
) -> None:
    """Raises `UsageError` if a run cannot write links."""
    if form is None:
        return
    check_word_tokens("--alignment", [tokenizer.kind for tokenizer in tokenizers.values()])
    if not has_attention:
        raise UsageError("--alignment needs a model with attention. Leave it out.")


def append_links(translation: Translation, form: str) -> str:
    """Returns the best output with its links behind it, `a dog ||| 0-0 1-1`.

    Args:
        translation: One with an alignment.
        form: `"hard"`, from each target word to where it attends most, or a threshold.
    """
    if not translation.texts:
        return ""
    ended = translation.tokens[-1:] == [SPECIAL_TOKENS[3]]
    (links,) = find_links(
        [translation.alignment],
        [len(translation.source_tokens) - 1],
        [len(translation.tokens) - ended],
        None if form == HARD else float(form),
    )
    return f"{translation.texts[0]} ||| {format_links(links)}".rstrip()


class GuidedDecoder(keras.layers.Layer):
    """Calls a decoder and adds the loss of its attention weights; returns the logits.

    It is a layer around the decoder because Keras connects a layer that one functional model has
    called to no other one that wants more outputs of it.

    Args:
        decoder: The decoder.
        loss: A `GuidedAlignmentLoss`.
        loss_weight: Its weight.
    """

    def __init__(self, decoder: keras.layers.Layer, loss: GuidedAlignmentLoss, loss_weight: float):
        super().__init__(name="guided_decoder", dtype=decoder.dtype_policy)
        self.autocast = False
        self.decoder, self.loss, self.loss_weight = decoder, loss, loss_weight
        self.built = True

    def call(self, target, memory, alignment, initial_state=None, memory_mask=None, training=None):
        logits, weights = self.decoder(
            target,
            memory,
            initial_state=initial_state,
            memory_mask=memory_mask,
            training=training,
            return_attention_scores=True,
        )
        self.add_loss(self.loss_weight * self.loss(alignment, weights))
        return logits

    def compute_output_spec(self, target, memory, alignment, initial_state=None, **options):
        return self.decoder.compute_output_spec(target, memory, initial_state=initial_state)


def guide_alignment(model: keras.Model, cost: str, loss_weight: float) -> keras.Model:
    """Returns a model of the same layers that has the input `alignment` and adds the loss.

    Args:
        model: A translator, see `examples.models.assembly`.
        cost: `"ce"` or `"mse"`.
        loss_weight: The weight of the loss.
    """
    inputs = {**model.input, "alignment": keras.Input([None, None], name="alignment")}
    encoded = model.get_layer("encoder")(inputs["source"])
    guided = GuidedDecoder(model.get_layer("decoder"), GuidedAlignmentLoss(cost), loss_weight)
    logits = guided(
        inputs["target"],
        encoded["memory"],
        inputs["alignment"],
        initial_state=encoded.get("initial_state"),
    )
    return keras.Model(inputs, logits, name=model.name)


@dataclasses.dataclass(kw_only=True)
class GuidedRecipe(OptimizedRecipe):
    """A recipe of translators whose attention can follow a word alignment.

    Attributes:
        guided_alignment: A Pharaoh file, a line such as `0-0 1-2` of source-target words for each
            line of the training data, which the attention learns to follow; for --tokenizer
            words; none by default.
        guided_alignment_cost: Crossentropy or squared error of the attention weights, for
            --guided-alignment; ce by default.
        guided_alignment_weight: What this cost is multiplied by before it is added to the loss of
            the tokens; 0.1 by default.
    """

    training_fields: ClassVar = (
        *OptimizedRecipe.training_fields,
        "guided_alignment_cost",
        "guided_alignment_weight",
    )

    guided_alignment: pathlib.Path | None = None
    guided_alignment_cost: Literal["ce", "mse"] | None = None
    guided_alignment_weight: PositiveFloat | None = None

    _links: dict[tuple[str, str], Links] = dataclasses.field(
        default_factory=dict, init=False, repr=False
    )

    @property
    def has_attention(self) -> bool:
        """Whether the decoder attends to the source."""
        decoder = self.model.get_layer("decoder")
        while hasattr(decoder, "decoder"):  # scheduled sampling and copying hold one
            decoder = decoder.decoder
        return getattr(decoder, "has_attention", True)  # a decoder of yours may not say

    def check_guided_alignment(self, kinds: Sequence[str], has_plain_files: bool) -> None:
        """Raises `UsageError` if options of guided alignment do not go with the others.

        Args:
            kinds: What a token of each side is.
            has_plain_files: Whether the training data are files that have one target a line and are
                read as a whole.
        """
        if self.guided_alignment is None:
            for name in ("cost", "weight"):
                if getattr(self, f"guided_alignment_{name}") is not None:
                    raise UsageError(
                        f"--guided-alignment-{name} is for --guided-alignment. Leave it out, or "
                        "name a file."
                    )
            return
        if not has_plain_files or self.strategy:
            raise UsageError(
                "--guided-alignment is for files that have one target a line and are read as a "
                "whole, on one device. Leave it out, or name such files and leave out --strategy."
            )
        check_word_tokens("--guided-alignment", kinds)

    def read_links(self, files: PairFiles, corpus: Corpus) -> None:
        """Reads the links of the training data, if they guide the alignment."""
        if self.guided_alignment:
            self._links = read_pair_links(self.guided_alignment, files, corpus)

    def choose_batches(self, pairs: Sequence[tuple[str, str]]) -> Callable[..., Batches]:
        """Returns what makes batches of pairs.

        Pairs of validation files have no links: their alignment adds nothing to the loss.
        """
        if not self.guided_alignment:
            return Batches.from_pairs
        links = [self._links.get(pair, set()) for pair in pairs]
        return functools.partial(LinkedBatches.from_pairs, links=links)

    def make_fit_model(self, model: keras.Model) -> keras.Model | None:
        if not self.guided_alignment:
            return None
        if not self.has_attention:
            raise UsageError("--guided-alignment needs a model with attention. Leave it out.")
        cost, weight = self.guided_alignment_cost or "ce", self.guided_alignment_weight or 0.1
        return guide_alignment(model, cost, weight)

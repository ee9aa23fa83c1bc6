"""The models that the command line knows: a row each."""

import dataclasses
import inspect
from types import ModuleType

import keras

from examples.commands.options import REQUIRED, Option, options_of
from examples.models import (
    attention_over_attention,
    attention_sum,
    convs2s,
    draw,
    han,
    key_value,
    lstm,
    lstm_language_model,
    lstmn,
    luong,
    memory_network,
    mixed,
    multi_source,
    ntm,
    ram,
    rnn_encoder_decoder,
    rnnsearch,
    seq2seq,
    show_attend_tell,
    text_guided,
    transformer,
)
from examples.recipes.algorithms import Algorithms
from examples.recipes.babi import Babi
from examples.recipes.base import Recipe
from examples.recipes.captions import Captions, GuidedCaptions
from examples.recipes.classification import Classification
from examples.recipes.cloze import Cloze
from examples.recipes.drawing import Drawing
from examples.recipes.language import Language
from examples.recipes.multi_source import MultiSourceTranslation
from examples.recipes.recognition import Recognition
from examples.recipes.translation import Translation


@dataclasses.dataclass(frozen=True)
class RegisteredModel:
    """A model that `python -m examples train NAME` builds.

    Attributes:
        name: What the command line calls it.
        module: The module that builds it, with `TITLE`, `REFERENCE`, `build` and, if the paper's
            sizes are others, `PAPER`. `BELONGS_TO` are options that need another one, as
            `examples.commands.options.check_used` takes them.
        recipe: The `Recipe` that trains it.
    """

    name: str
    module: ModuleType
    recipe: type[Recipe]

    @property
    def options(self) -> list[Option]:
        """What can be said of the model: the parameters of `build` that have a default."""
        found = options_of(self.module.build, ("seed", "dtype"), required=False)
        return [option for option in found if option.default is not REQUIRED]

    def build(self, *sizes: int, **options) -> keras.Model:
        """Returns the model; `options` are those above, `seed` (if it draws) and `dtype`."""
        if "seed" not in inspect.signature(self.module.build).parameters:
            options.pop("seed", None)
        return self.module.build(*sizes, **options)


ROWS = (
    ("rnnsearch", rnnsearch, Translation),
    ("rnn-encoder-decoder", rnn_encoder_decoder, Translation),
    ("seq2seq", seq2seq, Translation),
    ("luong", luong, Translation),
    ("transformer", transformer, Translation),
    ("convs2s", convs2s, Translation),
    ("key-value", key_value, Translation),
    ("mixed", mixed, Translation),
    ("multi-source", multi_source, MultiSourceTranslation),
    ("ntm", ntm, Algorithms),
    ("lstm", lstm, Algorithms),
    ("han", han, Classification),
    ("memory-network", memory_network, Babi),
    ("attention-over-attention", attention_over_attention, Cloze),
    ("attention-sum", attention_sum, Cloze),
    ("show-attend-tell", show_attend_tell, Captions),
    ("text-guided", text_guided, GuidedCaptions),
    ("lstmn", lstmn, Language),
    ("lstm-language-model", lstm_language_model, Language),
    ("ram", ram, Recognition),
    ("draw", draw, Drawing),
)
MODELS = {name: RegisteredModel(name, module, recipe) for name, module, recipe in ROWS}


def find(name: str) -> RegisteredModel:
    """Returns the model of that name.

    Raises:
        ValueError: If there is none; the error lists those there are.
    """
    if name not in MODELS:
        raise ValueError(
            f"There is no model {name!r}. Choose one of {', '.join(sorted(MODELS))}; "
            "`python -m examples list` says what they are."
        )
    return MODELS[name]

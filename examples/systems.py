"""The systems that the command line knows: one row a paper's model."""

import dataclasses
import importlib.util
from types import ModuleType

import keras

from examples.models import (
    attention_over_attention,
    attention_sum,
    convs2s,
    draw,
    han,
    lstm,
    lstm_language_model,
    lstmn,
    luong,
    memory_network,
    mixed,
    ntm,
    ram,
    rnn_encoder_decoder,
    rnnsearch,
    seq2seq,
    show_attend_tell,
    text_guided,
    transformer,
)


@dataclasses.dataclass(frozen=True)
class System:
    """A model that `python -m examples train NAME` builds.

    Attributes:
        name: What the command line calls it.
        module: The module that assembles it, with `TITLE`, `REFERENCE`, `OPTIONS`
            (option name to `Option`) and `build`.
        family: The package of `examples` that knows its data: how it is read, what is measured
            and drawn.
    """

    name: str
    module: ModuleType
    family: str

    def build(self, *sizes, **options) -> keras.Model:
        """Returns the model; `options` are the module's and what its `build` takes beside."""
        return self.module.build(*sizes, **options)

    def part(self, name: str) -> ModuleType:
        """Returns a module of the family: `train`, or the name of a command.

        Raises:
            ValueError: If the family has no such command.
        """
        path = f"examples.{self.family}.{name}"
        if importlib.util.find_spec(path) is None:
            raise ValueError(f"There is no `{name}` for {self.name}, which is of {self.family}.")
        return importlib.import_module(path)


SYSTEMS = {
    "rnnsearch": System("rnnsearch", rnnsearch, "translation"),
    "rnn-encoder-decoder": System("rnn-encoder-decoder", rnn_encoder_decoder, "translation"),
    "seq2seq": System("seq2seq", seq2seq, "translation"),
    "luong": System("luong", luong, "translation"),
    "transformer": System("transformer", transformer, "translation"),
    "convs2s": System("convs2s", convs2s, "translation"),
    "mixed": System("mixed", mixed, "translation"),
    "ntm": System("ntm", ntm, "algorithms"),
    "lstm": System("lstm", lstm, "algorithms"),
    "han": System("han", han, "classification"),
    "memory-network": System("memory-network", memory_network, "questions"),
    "attention-over-attention": System(
        "attention-over-attention", attention_over_attention, "cloze"
    ),
    "attention-sum": System("attention-sum", attention_sum, "cloze"),
    "show-attend-tell": System("show-attend-tell", show_attend_tell, "captions"),
    "text-guided": System("text-guided", text_guided, "captions"),
    "lstmn": System("lstmn", lstmn, "language"),
    "lstm-language-model": System("lstm-language-model", lstm_language_model, "language"),
    "ram": System("ram", ram, "digits.recognition"),
    "draw": System("draw", draw, "digits.generation"),
}


def find(name: str) -> System:
    """Returns the system of that name.

    Raises:
        ValueError: If there is none; the error lists those there are.
    """
    if name not in SYSTEMS:
        raise ValueError(
            f"There is no system {name!r}. Choose one of {', '.join(sorted(SYSTEMS))}; "
            "`python -m examples list` says what they are."
        )
    return SYSTEMS[name]

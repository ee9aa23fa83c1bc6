"""Attention mechanisms of the sequence-to-sequence literature as Keras 3 layers.

Layers and searches are here: `keras_attention.BahdanauAttention`, `keras_attention.beam_search`.
The packages `keras_attention.plotting`, which needs matplotlib, and `keras_attention.export`, which
needs TensorFlow Text, are imported when they are first used, as is `keras_attention.decoding`.
"""

import importlib
import importlib.util
import sys
from typing import TYPE_CHECKING

from keras_attention.convolutional import (
    ConvDecoder,
    GatedConvBlock,
    GradientScaling,
)
from keras_attention.decoder import Decoder
from keras_attention.dropout import CounterDropout
from keras_attention.glimpses import (
    GaussianGlimpse,
    GaussianWriter,
    RetinaGlimpse,
)
from keras_attention.losses import (
    DoublyStochasticLoss,
    ReinforceLoss,
    doubly_stochastic_penalty,
)
from keras_attention.mechanisms import (
    Attention,
    AttentionMechanism,
    BahdanauAttention,
    HardAttention,
    LocalAttention,
    LuongAttention,
    MultiHeadAttention,
    MultiStepAttention,
    RotaryPositions,
    SelfAttention,
    SoftAttention,
    TextGuidedAttention,
    alibi_bias,
)
from keras_attention.memory import (
    NTM,
    NTMCell,
    ScalarShift,
    SoftmaxShift,
)
from keras_attention.normalizers import (
    ArgmaxNormalizer,
    EntmaxNormalizer,
    GumbelSoftmaxNormalizer,
    MonotonicNormalizer,
    Normalizer,
    SampleNormalizer,
    SoftmaxNormalizer,
    SparsemaxNormalizer,
)
from keras_attention.products import matmul_precision
from keras_attention.readers import (
    AttentionOverAttention,
    AttentionPooling,
    HierarchicalAttention,
    LearnedQueries,
    LinearStart,
    MemoryHops,
    MultiQueryPooling,
    SumOverMentions,
    half_relu,
    log_of_probability,
)
from keras_attention.recurrent import (
    AttentionRNN,
    BahdanauDecoder,
    BahdanauGRU,
    BahdanauGRUCell,
    ChoGRUCell,
    ContextAdd,
    ContextConcat,
    ContextMLP,
    ExponentialDecay,
    IntraAttention,
    InverseSigmoidDecay,
    LinearDecay,
    LuongDecoder,
    RecurrentDecoder,
    ReverseTokens,
    ScheduledSampling,
    Seq2SeqDecoder,
    ShowAttendTellDecoder,
    ShowTellDecoder,
    SkipFirstUpdate,
    SummaryDecoder,
)
from keras_attention.scorers import (
    AdditiveScorer,
    BilinearScorer,
    ConcatScorer,
    CosineScorer,
    CoverageScorer,
    DotScorer,
    GeneralScorer,
    LocationScorer,
    LocationSensitiveScorer,
    LowRankBilinearScorer,
    MLPScorer,
    ScaledDotScorer,
    Scorer,
    UniformScorer,
)
from keras_attention.transformer import (
    LearnedPositionalEmbedding,
    PositionalEncoding,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEmbedding,
    TransformerEncoderLayer,
)
from keras_attention.weight_normalization import WeightNormalizedDense

if TYPE_CHECKING:  # known to editors and type checkers, imported by `__getattr__`
    from keras_attention import decoding as decoding
    from keras_attention import export as export
    from keras_attention import plotting as plotting
    from keras_attention.decoding import (
        AverageLengthPenalty,
        CoveragePenalty,
        EagerSearchWarning,
        GNMTLengthPenalty,
        beam_search,
        check_beam_search,
        check_decoder,
        ensemble_step,
        greedy_search,
        sample_search,
        score_sequences,
    )

__all__ = [
    "AdditiveScorer",
    "ArgmaxNormalizer",
    "Attention",
    "AttentionMechanism",
    "AttentionOverAttention",
    "AttentionPooling",
    "AttentionRNN",
    "AverageLengthPenalty",
    "BahdanauAttention",
    "BahdanauDecoder",
    "BahdanauGRU",
    "BahdanauGRUCell",
    "BilinearScorer",
    "ChoGRUCell",
    "ConcatScorer",
    "ContextAdd",
    "ContextConcat",
    "ContextMLP",
    "ConvDecoder",
    "CosineScorer",
    "CounterDropout",
    "CoveragePenalty",
    "CoverageScorer",
    "Decoder",
    "DotScorer",
    "DoublyStochasticLoss",
    "EagerSearchWarning",
    "EntmaxNormalizer",
    "ExponentialDecay",
    "GNMTLengthPenalty",
    "GatedConvBlock",
    "GaussianGlimpse",
    "GaussianWriter",
    "GeneralScorer",
    "GradientScaling",
    "GumbelSoftmaxNormalizer",
    "HardAttention",
    "HierarchicalAttention",
    "IntraAttention",
    "InverseSigmoidDecay",
    "LearnedPositionalEmbedding",
    "LearnedQueries",
    "LinearDecay",
    "LinearStart",
    "LocalAttention",
    "LocationScorer",
    "LocationSensitiveScorer",
    "LowRankBilinearScorer",
    "LuongAttention",
    "LuongDecoder",
    "MLPScorer",
    "MemoryHops",
    "MonotonicNormalizer",
    "MultiHeadAttention",
    "MultiQueryPooling",
    "MultiStepAttention",
    "NTM",
    "NTMCell",
    "Normalizer",
    "PositionalEncoding",
    "RecurrentDecoder",
    "ReinforceLoss",
    "RetinaGlimpse",
    "ReverseTokens",
    "RotaryPositions",
    "SampleNormalizer",
    "ScalarShift",
    "ScaledDotScorer",
    "ScheduledSampling",
    "Scorer",
    "SelfAttention",
    "Seq2SeqDecoder",
    "ShowAttendTellDecoder",
    "ShowTellDecoder",
    "SkipFirstUpdate",
    "SoftAttention",
    "SoftmaxNormalizer",
    "SoftmaxShift",
    "SparsemaxNormalizer",
    "SumOverMentions",
    "SummaryDecoder",
    "TextGuidedAttention",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEmbedding",
    "TransformerEncoderLayer",
    "UniformScorer",
    "WeightNormalizedDense",
    "alibi_bias",
    "beam_search",
    "check_beam_search",
    "check_decoder",
    "doubly_stochastic_penalty",
    "ensemble_step",
    "greedy_search",
    "half_relu",
    "log_of_probability",
    "matmul_precision",
    "sample_search",
    "score_sequences",
]

_PACKAGES = ("decoding", "export", "plotting")


if not TYPE_CHECKING:  # a module with `__getattr__` has every name to a type checker

    def __getattr__(name: str):
        """Imports a package, or what `keras_attention.decoding` holds, when it is first used."""
        if name in _PACKAGES:
            return importlib.import_module(f"{__name__}.{name}")
        if name in __all__:  # all others are imported above
            return getattr(importlib.import_module(f"{__name__}.decoding"), name)
        module = sys.modules[__name__]
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}", name=name, obj=module
        )


def __dir__() -> list[str]:
    """Lists public names. `help` gets each of them, so none is listed that cannot be imported."""
    has_export = importlib.util.find_spec("tensorflow_text") is not None
    return sorted([*__all__, *(name for name in _PACKAGES if name != "export" or has_export)])

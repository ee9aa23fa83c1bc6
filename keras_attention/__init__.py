"""Attention mechanisms of the sequence-to-sequence literature as Keras 3 layers.

Layers, losses and searches are here: `keras_attention.BahdanauAttention`,
`keras_attention.beam_search`. Metrics are in `keras_attention.metrics`, as in Keras.
The packages `keras_attention.plotting`, which needs matplotlib, and `keras_attention.export`, which
needs TensorFlow Text, are imported when they are first used, as are `keras_attention.search`,
`keras_attention.callbacks` and `keras_attention.data`.
"""

import importlib
import importlib.util
import sys
from typing import TYPE_CHECKING

from keras_attention import metrics as metrics  # Keras loads registered classes alone
from keras_attention.attention import (
    Attention,
    AttentionMechanism,
    BahdanauAttention,
    ForwardAttention,
    GMMAttention,
    HardAttention,
    LocalAttention,
    LuongAttention,
    MonotonicChunkwiseAttention,
    MultiHeadAttention,
    MultiSourceAttention,
    MultiStepAttention,
    RelativePositionBias,
    RelativePositionEmbedding,
    RotaryEmbedding,
    SelfAttention,
    SoftAttention,
    TextGuidedAttention,
    alibi_bias,
)
from keras_attention.convolutional import GatedConvBlock, GradientScaling
from keras_attention.core import (
    ConcatenateSources,
    CounterDropout,
    LearnedQueries,
    SplitSources,
    WeightNormalizedDense,
)
from keras_attention.decoders import (
    BahdanauDecoder,
    ChoDecoder,
    ConvDecoder,
    CopyNetDecoder,
    Decoder,
    EnsembleDecoder,
    EnsembleEncoder,
    ExponentialDecay,
    InverseSigmoidDecay,
    KeyValueDecoder,
    LinearDecay,
    LuongDecoder,
    PointerGeneratorDecoder,
    RecurrentDecoder,
    ScheduledSampling,
    Seq2SeqDecoder,
    ShowAttendTellDecoder,
    ShowTellDecoder,
    TransformerDecoder,
    check_decoder,
)
from keras_attention.glimpses import (
    GaussianGlimpse,
    GaussianWriter,
    RetinaGlimpse,
)
from keras_attention.kernels.matmul_precision import matmul_precision
from keras_attention.losses import (
    CoverageLoss,
    DoublyStochasticLoss,
    GuidedAlignmentLoss,
    ReinforceLoss,
    TokenCrossentropy,
    coverage_penalty,
    doubly_stochastic_penalty,
)
from keras_attention.memory_networks import LinearStart, MemoryHops, half_relu
from keras_attention.normalizers import (
    ArgmaxNormalizer,
    EntmaxNormalizer,
    ForwardNormalizer,
    GumbelSoftmaxNormalizer,
    MonotonicNormalizer,
    Normalizer,
    SampleNormalizer,
    SoftmaxNormalizer,
    SparsemaxNormalizer,
)
from keras_attention.ntm import NTM, NTMCell, ScalarShift, SoftmaxShift
from keras_attention.pooling import (
    AttentionOverAttention,
    AttentionPooling,
    AttentionSum,
    HierarchicalAttention,
    MultiQueryPooling,
    safe_log,
)
from keras_attention.recurrent import (
    LSTMN,
    AttentionalVectorCell,
    AttentionRNN,
    BahdanauGRU,
    BahdanauGRUCell,
    ChoGRUCell,
    ContextAddCell,
    ContextInputCell,
    ReverseTokens,
    SkipFirstUpdate,
)
from keras_attention.scorers import (
    AdditiveScorer,
    BilinearScorer,
    ConcatScorer,
    CosineScorer,
    CoverageScorer,
    DotScorer,
    DynamicConvolutionScorer,
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
    TransformerDecoderLayer,
    TransformerEmbedding,
    TransformerEncoderLayer,
)

if TYPE_CHECKING:  # known to editors and type checkers, imported by `__getattr__`
    from keras_attention import callbacks as callbacks
    from keras_attention import data as data
    from keras_attention import export as export
    from keras_attention import plotting as plotting
    from keras_attention import search as search
    from keras_attention.search import (
        AverageLengthPenalty,
        BeamOptions,
        Constraints,
        CoveragePenalty,
        EagerSearchWarning,
        GNMTLengthPenalty,
        RecurrentLanguageModel,
        ResumableSearch,
        ShallowFusion,
        SpecialIds,
        beam_search,
        check_beam_search,
        ensemble_step,
        greedy_search,
        minimum_bayes_risk,
        sample_search,
        score_sequences,
    )

__version__ = "0.1.0"  # that of pyproject.toml, as tests/test_packaging.py checks

__all__ = [
    "AdditiveScorer",
    "ArgmaxNormalizer",
    "Attention",
    "AttentionMechanism",
    "AttentionOverAttention",
    "AttentionPooling",
    "AttentionRNN",
    "AttentionSum",
    "AttentionalVectorCell",
    "AverageLengthPenalty",
    "BahdanauAttention",
    "BahdanauDecoder",
    "BahdanauGRU",
    "BahdanauGRUCell",
    "BeamOptions",
    "BilinearScorer",
    "ChoDecoder",
    "ChoGRUCell",
    "ConcatScorer",
    "ConcatenateSources",
    "Constraints",
    "ContextAddCell",
    "ContextInputCell",
    "ConvDecoder",
    "CopyNetDecoder",
    "CosineScorer",
    "CounterDropout",
    "CoverageLoss",
    "CoveragePenalty",
    "CoverageScorer",
    "Decoder",
    "DotScorer",
    "DoublyStochasticLoss",
    "DynamicConvolutionScorer",
    "EagerSearchWarning",
    "EnsembleDecoder",
    "EnsembleEncoder",
    "EntmaxNormalizer",
    "ExponentialDecay",
    "ForwardAttention",
    "ForwardNormalizer",
    "GMMAttention",
    "GNMTLengthPenalty",
    "GatedConvBlock",
    "GaussianGlimpse",
    "GaussianWriter",
    "GeneralScorer",
    "GradientScaling",
    "GuidedAlignmentLoss",
    "GumbelSoftmaxNormalizer",
    "HardAttention",
    "HierarchicalAttention",
    "InverseSigmoidDecay",
    "KeyValueDecoder",
    "LSTMN",
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
    "MonotonicChunkwiseAttention",
    "MonotonicNormalizer",
    "MultiHeadAttention",
    "MultiQueryPooling",
    "MultiSourceAttention",
    "MultiStepAttention",
    "NTM",
    "NTMCell",
    "Normalizer",
    "PointerGeneratorDecoder",
    "PositionalEncoding",
    "RecurrentDecoder",
    "RecurrentLanguageModel",
    "ReinforceLoss",
    "RelativePositionBias",
    "RelativePositionEmbedding",
    "ResumableSearch",
    "RetinaGlimpse",
    "ReverseTokens",
    "RotaryEmbedding",
    "SampleNormalizer",
    "ScalarShift",
    "ScaledDotScorer",
    "ScheduledSampling",
    "Scorer",
    "SelfAttention",
    "Seq2SeqDecoder",
    "ShallowFusion",
    "ShowAttendTellDecoder",
    "ShowTellDecoder",
    "SkipFirstUpdate",
    "SoftAttention",
    "SoftmaxNormalizer",
    "SoftmaxShift",
    "SparsemaxNormalizer",
    "SpecialIds",
    "SplitSources",
    "TextGuidedAttention",
    "TokenCrossentropy",
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
    "coverage_penalty",
    "doubly_stochastic_penalty",
    "ensemble_step",
    "greedy_search",
    "half_relu",
    "matmul_precision",
    "minimum_bayes_risk",
    "safe_log",
    "sample_search",
    "score_sequences",
]

_PACKAGES = ("callbacks", "data", "export", "plotting", "search")


if not TYPE_CHECKING:  # a module with `__getattr__` has every name to a type checker

    def __getattr__(name: str):
        """Imports a package, or a name of `keras_attention.search`, on first use."""
        if name in _PACKAGES:
            return importlib.import_module(f"{__name__}.{name}")
        if name in __all__:  # all others are imported above
            return getattr(importlib.import_module(f"{__name__}.search"), name)
        module = sys.modules[__name__]
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r}", name=name, obj=module
        )


def __dir__() -> list[str]:
    """Lists public names. `help` gets each of them, so none is listed that cannot be imported."""
    has_export = importlib.util.find_spec("tensorflow_text") is not None
    packages = [name for name in _PACKAGES if name != "export" or has_export]
    return sorted([*__all__, "metrics", *packages])

"""One row a public layer: how to make it, what it is called with, what its masks promise.

A new public layer adds a row here and is then held to every promise in this folder.
Widths are primes that differ, so that no transposition passes.
"""

import keras
import numpy as np
from layer_rows import VOCABULARY, Mask, Row

import keras_attention as ka

#: Base classes that only their subclasses can be called as.
ABSTRACT = {
    "AttentionMechanism": "has no scorer of its own",
    "Decoder": "has no weights and reads nothing",
    "Normalizer": "does not define `normalize`",
    "RecurrentDecoder": "has no recurrence and no readout",
    "Scorer": "does not define `score`",
}


def encoder(units, **options):
    """Returns a bidirectional encoder; an orthogonal initializer cannot draw in bfloat16."""
    cell = keras.layers.GRUCell(units, recurrent_initializer="normal", **options)
    layer = keras.layers.RNN(cell, return_sequences=True, **options)
    return keras.layers.Bidirectional(layer, **options)


def lstm_cell(units, **options):
    """Returns a cell of Keras; its orthogonal initializer cannot draw in bfloat16."""
    return keras.layers.LSTMCell(units, recurrent_initializer="normal", **options)


def monotonic(mode):
    """Returns how to make a monotonic normalizer whose bias differs from seed to seed."""
    return lambda **o: ka.MonotonicNormalizer(
        mode, sigmoid_noise=0.5, score_bias_init=np.random.randn(), seed=3, **o
    )


PAIRS = {"query": ("batch", "query", 11), "key": ("batch", "key", 13)}
ALIKE = {"query": ("batch", "query", 11), "key": ("batch", "key", 11)}
READ = {"query": ("batch", "query", 11), "value": ("batch", "key", 13)}
READ_MASKS = {
    "query_mask": Mask(("batch", "query"), "query", zeros=(0, 1), by_position=True, passes=(0,)),
    "value_mask": Mask(("batch", "key"), "value", zeros=(0, 1)),
}
SCORES = {"scores": ("batch", "query", "key")}
SCORES_MASK = {
    "mask": Mask(("batch", "query", "key"), "scores", zeros=(0,), by_position=True, implicit=False)
}
SELF_MASK = {"mask": Mask(("batch", "key"), "inputs", zeros=(0, 1), by_position=True, passes=(0,))}
CONVOLVED_MASK = {
    "mask": Mask(("batch", "key"), "inputs", zeros=(0,), by_position=True, passes=(0,))
}
#: As READ_MASKS, where the weights have an axis of heads before that of the queries.
HEADS_MASKS = {
    "query_mask": Mask(("batch", "query"), "query", zeros=(0,), by_position=True, passes=(0,)),
    "value_mask": Mask(("batch", "key"), "value", zeros=(0,)),
}
WITH_WEIGHTS = {"return_attention_scores": True}
CONVOLUTIONAL = {
    "query": ("batch", "query", 11),
    "target": ("batch", "query", 13),
    "key": ("batch", "key", 13),
    "source": ("batch", "key", 13),
}
DECODED = {"target_ids": ("batch", "query"), "encoder_outputs": ("batch", "key", 13)}
DECODER_MASKS = {"memory_mask": Mask(("batch", "key"), "encoder_outputs", zeros=(1,))}
HISTORY = {"return_auxiliary_outputs": True}


def ntm(cell, **options):
    """Returns how to make a machine from how to make its cell."""
    return lambda **o: ka.NTM(cell(**o), **options, **o)


def ntm_mask(*zeros):
    """Returns the mask of a machine; `zeros` are 0 in each masked step."""
    return {"mask": Mask(("batch", "key"), "inputs", zeros=zeros, by_position=True, passes=(0,))}


def not_negative_weights(name, values):
    """Returns the states of a machine's cell, of which the last two are weights."""
    return [*values[:-2], *map(np.abs, values[-2:])] if name == "states" else values


def name_sources(name, values):
    """Returns a memory of two sources of unequal numbers of positions, of which the first has 3."""
    if name == "value":
        values = values.copy()
        values[..., -2:] = np.eye(2)[(np.arange(values.shape[1]) >= 3).astype(int)]
    return values


def multi_source(combination, sentinel, **options):
    """Returns how to make attention to two sources."""
    return lambda **o: ka.MultiSourceAttention(5, 2, combination, sentinel, 3, **options, **o)


TABLE = [
    Row(ka.AdditiveScorer, lambda **o: ka.AdditiveScorer(5, **o), PAIRS),
    Row(
        ka.AdditiveScorer,
        lambda **o: ka.AdditiveScorer(5, use_bias=False, **o),
        {"query": ("batch", 11), "key": ("batch", "key", 13)},
        label="step",
    ),
    Row(
        ka.AdditiveScorer,
        lambda **o: ka.AdditiveScorer(5, normalize_vector=True, **o),
        PAIRS,
        label="normalized vector",
    ),
    Row(ka.BilinearScorer, lambda **o: ka.BilinearScorer(**o), PAIRS),
    Row(ka.ConcatScorer, lambda **o: ka.ConcatScorer(5, **o), PAIRS),
    Row(
        ka.CounterDropout,
        lambda **o: ka.CounterDropout(0.3, seed=7, **o),
        {"inputs": ("batch", "query", 11)},
    ),
    Row(ka.CosineScorer, lambda **o: ka.CosineScorer(**o), ALIKE),
    Row(
        ka.CoverageScorer,
        lambda **o: ka.CoverageScorer(5, **o),
        {**PAIRS, "previous_weights": ("batch", "query", "key")},
    ),
    Row(ka.DotScorer, lambda **o: ka.DotScorer(**o), ALIKE),
    Row(
        ka.DynamicConvolutionScorer,
        lambda **o: ka.DynamicConvolutionScorer(5, 2, 3, 5, 7, **o),
        {**PAIRS, "previous_weights": ("batch", "query", "key")},
    ),
    Row(ka.GeneralScorer, lambda **o: ka.GeneralScorer(**o), PAIRS),
    Row(ka.LocationScorer, lambda **o: ka.LocationScorer(13, **o), PAIRS),
    Row(
        ka.LocationSensitiveScorer,
        lambda **o: ka.LocationSensitiveScorer(5, 3, 5, **o),
        {**PAIRS, "previous_weights": ("batch", "query", "key")},
    ),
    Row(ka.LowRankBilinearScorer, lambda **o: ka.LowRankBilinearScorer(5, **o), PAIRS),
    Row(ka.MLPScorer, lambda **o: ka.MLPScorer([5, 3], **o), PAIRS),
    Row(ka.ScaledDotScorer, lambda **o: ka.ScaledDotScorer(**o), ALIKE),
    Row(ka.UniformScorer, lambda **o: ka.UniformScorer(**o), PAIRS),
    Row(ka.ArgmaxNormalizer, lambda **o: ka.ArgmaxNormalizer(**o), SCORES, SCORES_MASK),
    Row(ka.EntmaxNormalizer, lambda **o: ka.EntmaxNormalizer(**o), SCORES, SCORES_MASK),
    Row(
        ka.EntmaxNormalizer,
        # Two seeds give two weights, as for every other row.
        lambda **o: ka.EntmaxNormalizer(1.2 + np.random.rand(), learn_alpha=True, **o),
        SCORES,
        SCORES_MASK,
        label="learn_alpha",
    ),
    Row(
        ka.GumbelSoftmaxNormalizer,
        lambda **o: ka.GumbelSoftmaxNormalizer(0.7, seed=3, **o),
        SCORES,
        SCORES_MASK,
    ),
    Row(
        ka.GumbelSoftmaxNormalizer,
        lambda **o: ka.GumbelSoftmaxNormalizer(straight_through=True, seed=3, **o),
        SCORES,
        SCORES_MASK,
        label="straight",
    ),
    Row(ka.ForwardNormalizer, lambda **o: ka.ForwardNormalizer(**o), SCORES, SCORES_MASK),
    Row(ka.MonotonicNormalizer, monotonic("parallel"), SCORES, SCORES_MASK),
    Row(ka.MonotonicNormalizer, monotonic("recursive"), SCORES, SCORES_MASK, label="recursive"),
    Row(ka.MonotonicNormalizer, monotonic("hard"), SCORES, SCORES_MASK, label="hard"),
    Row(ka.SampleNormalizer, lambda **o: ka.SampleNormalizer(seed=3, **o), SCORES, SCORES_MASK),
    Row(ka.SoftmaxNormalizer, lambda **o: ka.SoftmaxNormalizer(**o), SCORES, SCORES_MASK),
    Row(ka.SparsemaxNormalizer, lambda **o: ka.SparsemaxNormalizer(**o), SCORES, SCORES_MASK),
    Row(
        ka.Attention,
        lambda **o: ka.Attention("scaled_dot", **o),
        {"query": ("batch", "query", 11), "value": ("batch", "key", 11)},
        READ_MASKS,
        WITH_WEIGHTS,
        noisy=lambda **o: ka.Attention("scaled_dot", dropout=0.5, seed=3, **o),
    ),
    Row(
        ka.BahdanauAttention,
        lambda **o: ka.BahdanauAttention(5, **o),
        READ,
        READ_MASKS,
        WITH_WEIGHTS,
        noisy=lambda **o: ka.BahdanauAttention(5, dropout=0.5, seed=3, **o),
    ),
    Row(
        ka.BahdanauAttention,
        lambda **o: ka.BahdanauAttention(5, **o),
        {"query": ("batch", 11), "value": ("batch", "key", 13)},
        {"value_mask": READ_MASKS["value_mask"]},
        WITH_WEIGHTS,
        label="step",
    ),
    Row(
        ka.LuongAttention,
        lambda **o: ka.LuongAttention(**o),
        READ,
        READ_MASKS,
        WITH_WEIGHTS,
        noisy=lambda **o: ka.LuongAttention(dropout=0.5, seed=3, **o),
    ),
    Row(
        ka.LocalAttention,
        lambda **o: ka.LocalAttention(3, **o),
        READ,
        READ_MASKS,
        WITH_WEIGHTS,
        noisy=lambda **o: ka.LocalAttention(3, dropout=0.5, seed=3, **o),
    ),
    Row(
        ka.LocalAttention,
        lambda **o: ka.LocalAttention(5, "predictive", units=3, **o),
        READ,
        READ_MASKS,
        WITH_WEIGHTS,
        label="predictive",
        noisy=lambda **o: ka.LocalAttention(5, "predictive", dropout=0.5, seed=3, **o),
    ),
    Row(
        ka.LocalAttention,
        lambda **o: ka.LocalAttention(3, "predictive", renormalize=True, **o),
        {"query": ("batch", 11), "value": ("batch", "key", 13)},
        {"value_mask": READ_MASKS["value_mask"]},
        WITH_WEIGHTS,
        label="step",
    ),
    Row(
        ka.SelfAttention,
        lambda **o: ka.SelfAttention(5, 3, use_bias=True, **o),
        {"inputs": ("batch", "key", 13)},
        SELF_MASK,
        WITH_WEIGHTS,
        noisy=lambda **o: ka.SelfAttention(5, dropout=0.5, seed=3, **o),
    ),
    Row(
        ka.SelfAttention,
        lambda **o: ka.SelfAttention(window=3, scorer="general", **o),
        {"inputs": ("batch", "key", 13)},
        SELF_MASK,
        WITH_WEIGHTS,
        label="window",
        noisy=lambda **o: ka.SelfAttention(window=3, dropout=0.5, seed=3, **o),
    ),
    Row(
        ka.SoftAttention,
        lambda **o: ka.SoftAttention(5, doubly_stochastic=1.0, **o),
        READ,
        READ_MASKS,
        WITH_WEIGHTS,
        noisy=lambda **o: ka.SoftAttention(5, dropout=0.5, seed=3, **o),
    ),
    Row(
        ka.HardAttention,
        lambda **o: ka.HardAttention(5, seed=3, **o),
        READ,
        READ_MASKS,
        WITH_WEIGHTS,
    ),
    Row(
        ka.GaussianGlimpse,
        lambda **o: ka.GaussianGlimpse(3, **o),
        {"image": ("batch", "query", "key", 2), "state": ("batch", 11)},
    ),
    Row(
        ka.GaussianWriter,
        lambda **o: ka.GaussianWriter(7, 5, **o),
        {"patch": ("batch", "query", "query"), "state": ("batch", 11)},
    ),
    Row(
        ka.RetinaGlimpse,
        lambda **o: ka.RetinaGlimpse(3, 2, **o),
        {"image": ("batch", "query", "key"), "location": ("batch", 2)},
    ),
    Row(
        ka.AttentionPooling,
        lambda **o: ka.AttentionPooling(5, **o),
        {"inputs": ("batch", "key", 13)},
        {"mask": Mask(("batch", "key"), "inputs", zeros=(0, 1))},
        WITH_WEIGHTS,
    ),
    Row(
        ka.HierarchicalAttention,
        lambda **o: ka.HierarchicalAttention(5, encoder(3, **o), keras.layers.Dense(2, **o), **o),
        {"inputs": ("batch", "query", "key", 13)},
        {"mask": Mask(("batch", "query", "key"), "inputs", zeros=(1, 2))},
        WITH_WEIGHTS,
    ),
    Row(
        ka.AttentionOverAttention,
        lambda **o: ka.AttentionOverAttention(**o),
        {"document": ("batch", "key", 11), "query": ("batch", "query", 11)},
        {
            "document_mask": Mask(("batch", "key"), "document", zeros=(0, 1, 2)),
            "query_mask": Mask(("batch", "query"), "query", zeros=(0, 1, 2)),
        },
        WITH_WEIGHTS,
    ),
    Row(
        ka.AttentionSum,
        lambda **o: ka.AttentionSum(VOCABULARY, **o),
        {"weights": ("batch", "key"), "document_ids": ("batch", "key")},
        output_dtype="float32",
    ),
    Row(
        ka.AttentionSum,
        lambda **o: ka.AttentionSum(**o),
        {
            "weights": ("batch", "key"),
            "document_ids": ("batch", "key"),
            "candidate_ids": ("batch", "query"),
        },
        label="candidates",
        output_dtype="float32",
    ),
    Row(
        ka.MultiStepAttention,
        lambda **o: ka.MultiStepAttention(**o),
        CONVOLUTIONAL,
        {
            "query_mask": Mask(
                ("batch", "query"), "query", zeros=(0, 1), by_position=True, passes=(0,)
            ),
            "target_mask": Mask(("batch", "query"), "target", zeros=(0, 1), by_position=True),
            "key_mask": Mask(("batch", "key"), "key", zeros=(1,)),
            "source_mask": Mask(("batch", "key"), "source", zeros=(1,)),
        },
        WITH_WEIGHTS,
    ),
    Row(
        ka.MultiStepAttention,
        lambda **o: ka.MultiStepAttention("paper", weight_normalization=False, **o),
        {**CONVOLUTIONAL, "query": ("batch", 11), "target": ("batch", 13)},
        {"key_mask": Mask(("batch", "key"), "key", zeros=(1,))},
        WITH_WEIGHTS,
        label="step",
    ),
    Row(
        ka.MemoryHops,
        lambda **o: ka.MemoryHops(VOCABULARY, 5, num_hops=2, max_memories=7, **o),
        {"story_ids": ("batch", "key", 3), "question_ids": ("batch", "query")},
        flags=WITH_WEIGHTS,
        noisy=lambda **o: ka.MemoryHops(
            VOCABULARY, 5, max_memories=7, empty_memory_rate=0.5, seed=3, **o
        ),
    ),
    Row(
        ka.MemoryHops,
        lambda **o: ka.MemoryHops(
            VOCABULARY,
            5,
            2,
            "layer_wise",
            "centered",
            activation=ka.half_relu,
            pad_to_max_memories=True,
            **o,
        ),
        {"story_ids": ("batch", "key")},
        flags=WITH_WEIGHTS,
        label="language",
    ),
    Row(
        ka.ConcatenateSources,
        lambda **o: ka.ConcatenateSources(**o),
        {"sources": [("batch", "query", 11), ("batch", "key", 13)]},
    ),
    Row(
        ka.SplitSources,
        lambda **o: ka.SplitSources(2, **o),
        {"ids": ("batch", "query")},
        output_dtype="int32",
    ),
    *(
        Row(
            ka.MultiSourceAttention,
            multi_source(combination, sentinel),
            READ,
            READ_MASKS,
            WITH_WEIGHTS,
            label=f"{combination}{' sentinel' * sentinel}",
            valid=name_sources,
            noisy=multi_source(combination, sentinel, dropout=0.5, seed=3),
        )
        for combination in ("flat", "hierarchical")
        for sentinel in (False, True)
    ),
    Row(
        ka.GMMAttention,
        lambda **o: ka.GMMAttention(3, units=5, initial_step=1.0, initial_width=2.0, **o),
        READ,
        READ_MASKS,
        WITH_WEIGHTS,
        noisy=lambda **o: ka.GMMAttention(3, dropout=0.5, seed=3, **o),
    ),
    Row(
        ka.ForwardAttention,
        lambda **o: ka.ForwardAttention("general", 5, **o),
        READ,
        READ_MASKS,
        WITH_WEIGHTS,
    ),
    Row(
        ka.MonotonicChunkwiseAttention,
        lambda **o: ka.MonotonicChunkwiseAttention(
            3, ka.AdditiveScorer(5, **o), ka.GeneralScorer(**o), **o
        ),
        READ,
        READ_MASKS,
        WITH_WEIGHTS,
        noisy=lambda **o: ka.MonotonicChunkwiseAttention(
            3,
            "general",
            "general",
            ka.MonotonicNormalizer(sigmoid_noise=0.5, seed=5, **o),
            dropout=0.5,
            seed=3,
            **o,
        ),
    ),
    Row(
        ka.TextGuidedAttention,
        # The offset cancels in the softmax: no gradient reaches it.
        lambda **o: ka.TextGuidedAttention(5, use_offset=False, **o),
        {"query": ("batch", 11), "value": ("batch", "key", 13)},
        {"value_mask": READ_MASKS["value_mask"]},
        WITH_WEIGHTS,
        noisy=lambda **o: ka.TextGuidedAttention(5, dropout=0.5, seed=3, **o),
    ),
    Row(
        ka.MultiHeadAttention,
        lambda **o: ka.MultiHeadAttention(4, 6, 5, 2, rotary=ka.RotaryEmbedding(**o), **o),
        READ,
        HEADS_MASKS,
        WITH_WEIGHTS,
        noisy=lambda **o: ka.MultiHeadAttention(2, 3, dropout=0.5, seed=3, **o),
    ),
    Row(
        ka.MultiHeadAttention,
        lambda **o: ka.MultiHeadAttention(2, 3, use_bias=True, bias_initializer="normal", **o),
        READ,
        HEADS_MASKS,
        label="unweighed",
        trains=False,  # a bias of the keys cancels in the softmax
    ),
    Row(
        ka.MultiHeadAttention,
        lambda **o: ka.MultiHeadAttention(
            2, 3, scorer=ka.AdditiveScorer(5, **o), normalizer="sparsemax", output_dim=7, **o
        ),
        {"query": ("batch", 11), "value": ("batch", "key", 13)},
        {"value_mask": READ_MASKS["value_mask"]},
        WITH_WEIGHTS,
        label="step",
        trains=False,
    ),
    Row(
        ka.MultiHeadAttention,
        lambda **o: ka.MultiHeadAttention(
            4,
            6,
            5,
            2,
            relative_keys=ka.RelativePositionEmbedding(3, **o),
            relative_values=ka.RelativePositionEmbedding(2, **o),
            **o,
        ),
        READ,
        HEADS_MASKS,
        WITH_WEIGHTS,
        label="relative",
    ),
    Row(
        ka.RotaryEmbedding,
        lambda **o: ka.RotaryEmbedding(**o),
        {"inputs": ("batch", "query", 6)},
    ),
    Row(
        ka.RotaryEmbedding,
        lambda **o: ka.RotaryEmbedding(interleaved=False, **o),
        {"inputs": ("batch", "query", 6)},
        label="halves",
    ),
    Row(
        ka.RelativePositionBias,
        lambda **o: ka.RelativePositionBias(3, 8, 5, **o),
        {**PAIRS, "position_offset": ("batch",)},
        valid=lambda name, x: np.floor(np.abs(x)) if name == "position_offset" else x,
    ),
    Row(
        ka.RelativePositionEmbedding,
        lambda **o: ka.RelativePositionEmbedding(3, **o),
        {**PAIRS, "position_offset": ("batch",)},
        valid=lambda name, x: np.floor(np.abs(x)) if name == "position_offset" else x,
    ),
    Row(
        ka.MultiQueryPooling,
        lambda **o: ka.MultiQueryPooling("general", **o),
        READ,
        {
            "query_mask": Mask(("batch", "query"), "query", zeros=(1,), by_position=True),
            "value_mask": READ_MASKS["value_mask"],
        },
        WITH_WEIGHTS,
        noisy=lambda **o: ka.MultiQueryPooling("general", dropout=0.5, seed=3, **o),
    ),
    Row(
        ka.LearnedQueries,
        lambda **o: ka.LearnedQueries(3, 5, **o),
        {"inputs": ("batch", "key", 13)},
    ),
    Row(
        ka.AttentionRNN,
        lambda **o: ka.AttentionRNN(
            keras.layers.GRUCell(5, recurrent_initializer="normal", **o),
            ka.BahdanauAttention(3, **o),
            order="bahdanau",
            **o,
        ),
        {"inputs": ("batch", "query", 11), "memory": ("batch", "key", 13)},
        {
            "inputs_mask": Mask(
                ("batch", "query"), "inputs", zeros=(0, 1, 2), by_position=True, passes=(0,)
            ),
            "memory_mask": Mask(("batch", "key"), "memory", zeros=(1, 2)),
        },
        {"return_context": True, "return_attention_scores": True},
        noisy=lambda **o: ka.AttentionRNN(
            lstm_cell(5, **o), ka.BahdanauAttention(3, dropout=0.5, seed=3, **o), **o
        ),
    ),
    Row(
        ka.LSTMN,
        lambda **o: ka.LSTMN(5, 3, **o),
        {"inputs": ("batch", "query", 11)},
        {
            "mask": Mask(
                ("batch", "query"), "inputs", zeros=(0, 1, 2), by_position=True, passes=(0,)
            )
        },
        {"return_cells": True, "return_attention_scores": True},
    ),
    Row(
        ka.LSTMN,
        lambda **o: ka.LSTMN(5, fusion="deep", **o),
        {
            "inputs": ("batch", "query", 11),
            "memory": ("batch", "key", 13),
            "memory_cells": ("batch", "key", 5),
        },
        {
            "inputs_mask": Mask(
                ("batch", "query"), "inputs", zeros=(0, 1, 2), by_position=True, passes=(0,)
            ),
            "memory_mask": Mask(("batch", "key"), "memory", zeros=(2,)),
        },
        WITH_WEIGHTS,
        label="deep",
    ),
    Row(
        ka.BahdanauGRU,
        lambda **o: ka.BahdanauGRU(5, return_sequences=True, return_state=True, **o),
        {"sequences": ("batch", "query", 11)},
        {"mask": Mask(("batch", "query"), "sequences", zeros=(0,), by_position=True, passes=(0,))},
    ),
    Row(
        ka.ReverseTokens,
        lambda **o: ka.ReverseTokens(**o),
        {"inputs": ("batch", "query", 11)},
        {"mask": Mask(("batch", "query"), "inputs", zeros=(0,), by_position=True, passes=(0,))},
    ),
    Row(
        ka.BahdanauGRUCell,
        lambda **o: ka.BahdanauGRUCell(5, **o),
        {"inputs": ("batch", 11), "states": [("batch", 5)]},
    ),
    Row(
        ka.NTM,
        ntm(lambda **o: ka.NTMCell(3, 7, 5, lstm_cell(5, **o), initial_controller="learned", **o)),
        {"inputs": ("batch", "key", 11)},
        ntm_mask(0, 2, 3),
        HISTORY,
        output_dtype=(None, "float32", "float32", "float32"),
        noisy=ntm(lambda **o: ka.NTMCell(3, 7, 5, lstm_cell(5, dropout=0.5, seed=3, **o), **o)),
    ),
    Row(
        ka.NTM,
        ntm(
            lambda **o: ka.NTMCell(
                3,
                7,
                5,
                keras.layers.Dense(5, "relu", **o),
                num_read_heads=2,
                num_write_heads=3,
                shift="scalar",
                read_from="previous",
                head_activation="linear",
                activation=None,
                initial_memory="learned",
                **o,
            ),
            return_state=True,
        ),
        {"inputs": ("batch", "key", 11)},
        ntm_mask(0),
        label="feed-forward",
        output_dtype=(None, *["float32"] * 4),
    ),
    Row(
        ka.NTM,
        ntm(
            lambda **o: ka.NTMCell(
                3, 7, 5, keras.layers.GRUCell(5, recurrent_initializer="normal", **o), **o
            )
        ),
        {"inputs": ("batch", "key", 11)},
        ntm_mask(0, 2, 3),
        HISTORY,
        label="gru",
        output_dtype=(None, "float32", "float32", "float32"),
    ),
    Row(
        ka.NTMCell,
        lambda **o: ka.NTMCell(3, 7, 5, lstm_cell(5, **o), 1, 2, **o),
        {
            "inputs": ("batch", 11),
            "states": [("batch", size) for size in (5, 5, 7 * 5, 5, 7, 2 * 7)],
        },
        output_dtype=(None, *["float32"] * 6),
        valid=not_negative_weights,
        trains=False,  # the state is given: none of what is learned of it is used
    ),
    Row(
        ka.SkipFirstUpdate,
        lambda **o: ka.SkipFirstUpdate(lstm_cell(5, **o), **o),
        {"inputs": ("batch", 11), "states": [("batch", 5), ("batch", 5), ("batch", 1)]},
    ),
    Row(
        ka.ChoGRUCell,
        lambda **o: ka.ChoGRUCell(5, 3, bias_initializer="normal", **o),
        {"inputs": ("batch", 11), "states": [("batch", 5)]},
    ),
    Row(
        ka.ChoGRUCell,
        lambda **o: ka.ChoGRUCell(5, reset_covers_context=False, **o),
        {"inputs": ("batch", 11), "states": [("batch", 5)]},
        label="authors",
    ),
    Row(
        ka.ContextAddCell,
        lambda **o: ka.ContextAddCell(lstm_cell(5, **o), 3, **o),
        {"inputs": ("batch", 11), "states": [("batch", 5), ("batch", 5)]},
    ),
    Row(
        ka.AttentionalVectorCell,
        lambda **o: ka.AttentionalVectorCell(
            lstm_cell(5, **o), 3, "tanh", output_is_state=True, **o
        ),
        {"inputs": ("batch", 11), "states": [("batch", 5), ("batch", 5)]},
    ),
    Row(
        ka.ContextInputCell,
        lambda **o: ka.ContextInputCell(lstm_cell(5, **o), 3, **o),
        {"inputs": ("batch", 11), "states": [("batch", 5), ("batch", 5)]},
    ),
    Row(
        ka.BahdanauDecoder,
        lambda **o: ka.BahdanauDecoder(VOCABULARY, 3, 5, maxout_units=7, **o),
        DECODED,
        DECODER_MASKS,
        WITH_WEIGHTS,
        output_dtype="float32",
        noisy=lambda **o: ka.BahdanauDecoder(VOCABULARY, 3, 5, dropout=0.5, seed=3, **o),
    ),
    Row(
        ka.LuongDecoder,
        lambda **o: ka.LuongDecoder(VOCABULARY, 3, 5, cells=lstm_cell(5, **o), **o),
        DECODED,
        DECODER_MASKS,
        WITH_WEIGHTS,
        output_dtype="float32",
        noisy=lambda **o: ka.LuongDecoder(VOCABULARY, 3, 5, dropout=0.5, seed=3, **o),
    ),
    Row(
        ka.KeyValueDecoder,
        lambda **o: ka.KeyValueDecoder(VOCABULARY, 5, 3, **o),
        DECODED,
        DECODER_MASKS,
        WITH_WEIGHTS,
        output_dtype="float32",
        noisy=lambda **o: ka.KeyValueDecoder(VOCABULARY, 5, 3, dropout=0.5, seed=3, **o),
    ),
    Row(
        ka.ChoDecoder,
        lambda **o: ka.ChoDecoder(VOCABULARY, 3, 5, 2, maxout_units=7, **o),
        DECODED,
        flags=WITH_WEIGHTS,
        output_dtype="float32",
        noisy=lambda **o: ka.ChoDecoder(VOCABULARY, 3, 5, dropout=0.5, seed=3, **o),
    ),
    Row(
        ka.ChoDecoder,
        lambda **o: ka.ChoDecoder(VOCABULARY, 3, 5, reset_covers_context=False, output_rank=2, **o),
        DECODED,
        flags=WITH_WEIGHTS,
        label="authors",
        output_dtype="float32",
    ),
    Row(
        ka.Seq2SeqDecoder,
        lambda **o: ka.Seq2SeqDecoder(VOCABULARY, 3, 5, cells=lstm_cell(5, **o), **o),
        DECODED,
        flags=WITH_WEIGHTS,
        output_dtype="float32",
        noisy=lambda **o: ka.Seq2SeqDecoder(VOCABULARY, 3, 5, 2, dropout=0.5, seed=3, **o),
    ),
    Row(
        ka.ShowAttendTellDecoder,
        lambda **o: ka.ShowAttendTellDecoder(VOCABULARY, 3, 5, **o),
        DECODED,
        DECODER_MASKS,
        WITH_WEIGHTS,
        output_dtype="float32",
        noisy=lambda **o: ka.ShowAttendTellDecoder(VOCABULARY, 3, 5, dropout=0.5, seed=3, **o),
    ),
    Row(
        ka.ShowTellDecoder,
        lambda **o: ka.ShowTellDecoder(VOCABULARY, 3, 5, **o),
        DECODED,
        flags=WITH_WEIGHTS,
        output_dtype="float32",
        noisy=lambda **o: ka.ShowTellDecoder(VOCABULARY, 3, 5, dropout=0.5, seed=3, **o),
    ),
    Row(
        ka.ScheduledSampling,
        lambda **o: ka.ScheduledSampling(
            ka.LuongDecoder(VOCABULARY, 3, 5, cells=lstm_cell(5, **o), **o), 0.5, seed=3, **o
        ),
        DECODED,
        DECODER_MASKS,
        WITH_WEIGHTS,
        output_dtype="float32",
    ),
    Row(
        ka.PointerGeneratorDecoder,
        lambda **o: ka.PointerGeneratorDecoder(
            ka.BahdanauDecoder(VOCABULARY - 2, 3, 5, maxout_units=7, **o), 3, **o
        ),
        {**DECODED, "copy_ids": ("batch", "key")},
        DECODER_MASKS,
        WITH_WEIGHTS,
        output_dtype="float32",
        noisy=lambda **o: ka.PointerGeneratorDecoder(
            ka.BahdanauDecoder(VOCABULARY - 2, 3, 5, dropout=0.5, seed=3, **o), 3, **o
        ),
    ),
    Row(
        ka.CopyNetDecoder,
        lambda **o: ka.CopyNetDecoder(
            ka.BahdanauDecoder(VOCABULARY + 1, 3, 5, maxout_units=7, **o), 3, 4, **o
        ),
        {**DECODED, "copy_ids": ("batch", "key")},
        DECODER_MASKS,
        WITH_WEIGHTS,
        output_dtype="float32",
        noisy=lambda **o: ka.CopyNetDecoder(
            ka.BahdanauDecoder(VOCABULARY + 1, 3, 5, dropout=0.5, seed=3, **o), 3, 4, **o
        ),
    ),
    Row(
        ka.EnsembleEncoder,
        lambda **o: ka.EnsembleEncoder(
            [keras.layers.Embedding(VOCABULARY, dim, **o) for dim in (5, 7)], **o
        ),
        {"source_ids": ("batch", "key")},
    ),
    Row(
        ka.EnsembleDecoder,
        lambda **o: ka.EnsembleDecoder(
            [
                ka.BahdanauDecoder(VOCABULARY, 3, 5, maxout_units=7, **o),
                ka.TransformerDecoder(VOCABULARY, 8, 2, 1, **o),
            ],
            [0.7, 0.3],
            memory_dims=[5, 8],
            **o,
        ),
        DECODED,
        DECODER_MASKS,
        WITH_WEIGHTS,
        output_dtype="float32",
        noisy=lambda **o: ka.EnsembleDecoder(
            [ka.BahdanauDecoder(VOCABULARY, 3, 5, dropout=0.5, seed=3, **o)], memory_dims=[13], **o
        ),
    ),
    Row(
        ka.ConvDecoder,
        lambda **o: ka.ConvDecoder(VOCABULARY, 7, [(5, 3), (3, 2)], **o),
        {**DECODED, "encoder_outputs": ("batch", "key", 2 * 7)},
        DECODER_MASKS,
        WITH_WEIGHTS,
        output_dtype="float32",
        noisy=lambda **o: ka.ConvDecoder(VOCABULARY, 7, [(5, 3)], dropout=0.5, seed=3, **o),
    ),
    Row(
        ka.ConvDecoder,
        lambda **o: ka.ConvDecoder(
            VOCABULARY,
            7,
            [(5, 3), (3, 1), (3, 2)],
            scaling="paper",
            attention_layers=[0, 2],
            alignment_layer=2,
            source_embeddings=False,
            weight_normalization=False,
            **o,
        ),
        DECODED,
        DECODER_MASKS,
        WITH_WEIGHTS,
        output_dtype="float32",
        label="paper",
    ),
    Row(
        ka.GatedConvBlock,
        lambda **o: ka.GatedConvBlock(5, 3, **o),
        {"inputs": ("batch", "key", 11)},
        CONVOLVED_MASK,
        noisy=lambda **o: ka.GatedConvBlock(5, 3, dropout=0.5, seed=3, **o),
    ),
    Row(
        ka.GatedConvBlock,
        lambda **o: ka.GatedConvBlock(11, 2, causal=True, weight_normalization=False, **o),
        {"inputs": ("batch", "key", 11)},
        CONVOLVED_MASK,
        label="causal",
    ),
    Row(
        ka.GradientScaling,
        lambda **o: ka.GradientScaling(0.25, **o),
        {"inputs": ("batch", "key", 11)},
    ),
    Row(
        ka.WeightNormalizedDense,
        lambda **o: ka.WeightNormalizedDense(5, **o),
        {"inputs": ("batch", "key", 11)},
    ),
    Row(
        ka.PositionalEncoding,
        lambda **o: ka.PositionalEncoding(scale=True, **o),
        {"inputs": ("batch", "query", 6)},
    ),
    Row(
        ka.LearnedPositionalEmbedding,
        lambda **o: ka.LearnedPositionalEmbedding(11, **o),
        {"inputs": ("batch", "query", 13)},
    ),
    Row(
        ka.TransformerEmbedding,
        lambda **o: ka.TransformerEmbedding(VOCABULARY, 6, dropout=0.0, **o),
        {"ids": ("batch", "query")},
        noisy=lambda **o: ka.TransformerEmbedding(VOCABULARY, 6, dropout=0.5, seed=3, **o),
    ),
    Row(
        ka.TransformerEncoderLayer,
        lambda **o: ka.TransformerEncoderLayer(2, 11, 0.0, **o),
        {"inputs": ("batch", "key", 6)},
        {"mask": Mask(("batch", "key"), "inputs", zeros=(0,), by_position=True, passes=(0,))},
        WITH_WEIGHTS,
        noisy=lambda **o: ka.TransformerEncoderLayer(2, 11, 0.5, seed=3, **o),
    ),
    Row(
        ka.TransformerEncoderLayer,
        lambda **o: ka.TransformerEncoderLayer(
            3, 11, 0.0, "pre", "gelu", 3, ka.RotaryEmbedding(**o), use_bias=True, **o
        ),
        {"inputs": ("batch", "key", 6)},
        {"mask": Mask(("batch", "key"), "inputs", zeros=(0,), by_position=True, passes=(0,))},
        label="pre",
        trains=False,  # a bias of the keys cancels in the softmax
    ),
    Row(
        ka.TransformerDecoderLayer,
        lambda **o: ka.TransformerDecoderLayer(2, 11, 0.0, **o),
        {"inputs": ("batch", "query", 6), "memory": ("batch", "key", 13)},
        {
            "inputs_mask": Mask(
                ("batch", "query"), "inputs", zeros=(0,), by_position=True, passes=(0,)
            ),
            "memory_mask": Mask(("batch", "key"), "memory", zeros=(1,)),
        },
        WITH_WEIGHTS,
        noisy=lambda **o: ka.TransformerDecoderLayer(2, 11, 0.5, seed=3, **o),
    ),
    Row(
        ka.TransformerDecoder,
        lambda **o: ka.TransformerDecoder(VOCABULARY, 14, 2, 7, 11, dropout=0.0, **o),
        DECODED,
        DECODER_MASKS,
        WITH_WEIGHTS,
        output_dtype="float32",
        noisy=lambda **o: ka.TransformerDecoder(VOCABULARY, 14, 2, 7, 11, 0.5, seed=3, **o),
    ),
    Row(
        ka.TransformerDecoder,
        lambda **o: ka.TransformerDecoder(
            VOCABULARY,
            6,
            2,
            3,
            dropout=0.0,
            normalization="pre",
            positions="rotary",
            window=3,
            tie_output=False,
            alignment_layer="mean",
            **o,
        ),
        DECODED,
        DECODER_MASKS,
        WITH_WEIGHTS,
        label="pre",
        output_dtype="float32",
    ),
    Row(
        ka.TransformerDecoder,
        lambda **o: ka.TransformerDecoder(
            VOCABULARY, 6, 2, 3, dropout=0.0, positions="relative", max_distance=2, **o
        ),
        DECODED,
        DECODER_MASKS,
        WITH_WEIGHTS,
        label="relative",
        output_dtype="float32",
    ),
    Row(
        ka.CoverageLoss,
        lambda **o: ka.CoverageLoss(**o),
        {"logits": ("batch", "query", VOCABULARY), "weights": ("batch", "query", "key")},
        output_dtype="float32",
    ),
    Row(
        ka.DoublyStochasticLoss,
        lambda **o: ka.DoublyStochasticLoss(**o),
        {"logits": ("batch", "query", VOCABULARY), "weights": ("batch", "query", "key")},
        output_dtype="float32",
    ),
    Row(
        ka.ReinforceLoss,
        lambda **o: ka.ReinforceLoss(**o),
        {
            "logits": ("batch", "query", VOCABULARY),
            "target_ids": ("batch", "query"),
            "log_alpha": ("batch", "query"),
            "entropy": ("batch", "query"),
        },
        output_dtype="float32",
    ),
]
MASKED = [(row, name) for row in TABLE for name in row.masks]


def name_row_or_mask(value):
    """Returns the name of a row or of a mask, for the ids of tests."""
    return str(value)

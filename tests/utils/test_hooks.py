"""Hooks of scorers, normalizers, decoders: a wrong one is named, with its right signature."""

import keras
import pytest
from keras import ops

import keras_attention as ka
from keras_attention.decoders.recurrent import RecurrentDecoder


def scorer(**methods):
    """Returns a scorer with these methods, made."""
    return type("MyScorer", (ka.Scorer,), methods)()


def normalizer(**methods):
    """Returns a normalizer with these methods, made."""
    return type("MyNormalizer", (ka.Normalizer,), methods)()


def decoder(**methods):
    """Returns a decoder with these methods, made."""
    return type("MyDecoder", (ka.Decoder,), methods)(7)


WRONG = {
    "score without earlier weights": (
        lambda: scorer(score=lambda self, query, prepared: 0),
        r"MyScorer defines `score`.*`score\(query, prepared, previous_weights\)`.*"
        r"`def score\(self, query, prepared, previous_weights=None\)`. "
        r"Received: `def score\(self, query, prepared\)`",
    ),
    "score of the old page": (
        lambda: scorer(score=lambda self, query: 0),
        r"Received: `def score\(self, query\)`",
    ),
    "prepare with a mask": (
        lambda: scorer(prepare=lambda self, key, mask: key),
        r"`def prepare\(self, key\)`. Received: `def prepare\(self, key, mask\)`",
    ),
    "build with one shape": (
        lambda: scorer(build=lambda self, input_shape: None),
        r"`build\(query_shape, key_shape\)`.*Received: `def build\(self, input_shape\)`",
    ),
    "reach without a number": (
        lambda: scorer(valid_keys=lambda self: None),
        r"Received: `def valid_keys\(self\)`",
    ),
    "normalize without noise": (
        lambda: normalizer(normalize=lambda self, scores, mask=None: scores),
        r"`def normalize\(self, scores, mask=None, previous_weights=None, training=None, "
        r"noise=None\)`. Received: `def normalize\(self, scores, mask=None\)`",
    ),
    "noise without a shape": (
        lambda: normalizer(noise=lambda self: None),
        r"`noise\(shape, training\)`.*Received: `def noise\(self\)`",
    ),
    "call in place of normalize": (
        lambda: normalizer(call=lambda self, scores, mask=None: scores),
        r"MyNormalizer defines `call`.*Received: `def call\(self, scores, mask=None\)`",
    ),
    "a step of a scorer without keys": (
        lambda: type("MyScorer", (ka.DotScorer,), {"score_step": lambda self, q: q})(),
        r"MyScorer defines `score_step`.*Received: `def score_step\(self, q\)`",
    ),
    "a mask in place of earlier weights": (
        lambda: scorer(score=lambda self, query, prepared, mask=None: query),
        r"`def score\(self, query, prepared, previous_weights=None\)`. "
        r"Received: `def score\(self, query, prepared, mask=None\)`",
    ),
    "the key before the query": (
        lambda: scorer(score=lambda self, key, query, previous_weights=None: query),
        r"Received: `def score\(self, key, query, previous_weights=None\)`",
    ),
    "score that is none": (
        lambda: scorer(score=None),
        r"MyScorer defines `score`.*`def score\(self, .*Received: score=None",
    ),
    "the number of keys before the batch": (
        lambda: normalizer(initial_weights=lambda self, num_keys, batch: None),
        r"`def initial_weights\(self, batch, num_keys\)`. Received: .*self, num_keys, batch",
    ),
    "a cache without parents": (
        lambda: decoder(reorder_cache=lambda self, s: s),
        r"`reorder_cache\(state, parents\)`.*Received: `def reorder_cache\(self, s\)`",
    ),
    "a readout of nothing": (
        lambda: type("MyDecoder", (RecurrentDecoder,), {"readout": lambda self: 0})(7, 5),
        r"MyDecoder defines `readout`.*`RecurrentDecoder`.*Received: `def readout\(self\)`",
    ),
    "a step without memory": (
        lambda: decoder(decode_step=lambda self, ids, state: (ids, state)),
        r"MyDecoder defines `decode_step`.*`def decode_step\(self, ids, state, memory\)`",
    ),
}


@pytest.mark.parametrize(("make", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_signature_is_refused_when_it_is_made(make, message):
    with pytest.raises(TypeError, match=message):
        make()


def test_more_arguments_with_defaults_are_welcome():
    made = scorer(
        score=lambda self, query, prepared, previous_weights=None, strength=1.0: (
            strength * ops.einsum("bqd,bkd->bqk", query, prepared)
        ),
    )
    assert made(ops.ones((2, 3, 5)), ops.ones((2, 7, 5))).shape == (2, 3, 7)
    normalizer(normalize=lambda self, *arguments: arguments[0])


def test_arguments_may_have_names_of_their_own():
    made = scorer(score=lambda self, states, projected, _=None: ops.matmul(states, projected))
    assert made(ops.ones((2, 3, 5)), ops.ones((2, 5, 5))).shape == (2, 3, 5)
    decoder(decode_step=lambda self, tokens, state, source: (tokens, state, source))


def test_unknown_earlier_weights_are_refused():
    with pytest.raises(ValueError, match="MyScorer sets `reads_weights`.*Received: .*'both'"):
        scorer(reads_weights="both")


def test_a_constructor_without_that_of_the_base_is_named():
    made = scorer(__init__=lambda self: None, score=lambda self, query, prepared, _=None: query)
    with pytest.raises(ValueError, match=r"MyScorer .*begin with `super\(\).__init__\(\*\*kwargs"):
        ka.Attention(made)
    with pytest.raises(RuntimeError, match=r"'MyScorer', you forgot to call `super\(\).__init__"):
        made(ops.ones((2, 3, 5)), ops.ones((2, 7, 5)))


SHAPES = {
    "without keys": lambda self, query, prepared, previous_weights=None: query[:, :, 0],
    "turned": lambda self, query, prepared, previous_weights=None: ops.einsum(
        "bqd,bkd->bkq", query, prepared
    ),
    "too many keys": lambda self, query, prepared, previous_weights=None: ops.zeros(
        (2, 3, 8), self.compute_dtype
    ),
    "nothing": lambda self, query, prepared, previous_weights=None: None,
}


@pytest.mark.parametrize(
    "make",
    [
        ka.Attention,
        lambda scorer: ka.LocalAttention(9, scorer=scorer),
        lambda scorer: ka.MultiHeadAttention(1, 5, scorer=scorer),
        lambda scorer: scorer,
    ],
    ids=["Attention", "LocalAttention", "MultiHeadAttention", "itself"],
)
@pytest.mark.parametrize("score", SHAPES.values(), ids=SHAPES)
def test_scores_of_another_shape_are_refused_in_the_first_call(make, score):
    layer = make(scorer(score=score))
    message = r"MyScorer.score must return .* shape \(batch, query, key\), here \(2, 3, 7\)"
    with pytest.raises(ValueError, match=message):
        layer(ops.ones((2, 3, 5)), ops.ones((2, 7, 5)))


def test_weights_of_another_shape_are_refused_in_the_first_call():
    made = normalizer(normalize=lambda self, scores, *rest: ops.sum(scores, axis=-1))
    with pytest.raises(ValueError, match=r"MyNormalizer.normalize .*here \(2, 3, 7\).*\(2, 3\)"):
        ka.Attention("dot", normalizer=made)(ops.ones((2, 3, 5)), ops.ones((2, 7, 5)))


@pytest.mark.parametrize("make", [scorer, normalizer])
def test_a_missing_hook_is_named(make):
    arguments = [ops.ones((2, 3, 5)), ops.ones((2, 7, 5))]
    arguments = arguments if make is scorer else arguments[:1]
    with pytest.raises(NotImplementedError, match=r"must define `(score|normalize)\(self, "):
        make()(*arguments)


def test_a_missing_hook_of_a_decoder_is_named():
    with pytest.raises(NotImplementedError, match=r"MyDecoder must define `build_layers\(self, "):
        decoder()(ops.ones((2, 3), "int32"), ops.ones((2, 7, 5)))


def test_a_scorer_of_ones_own_keeps_its_file(tmp_path):
    """The example of the docstring, registered, survives a `.keras` file."""

    @keras.saving.register_keras_serializable(package="test_hooks")
    class Distance(ka.Scorer):
        requires_equal_dims = True

        def build(self, query_shape, key_shape):
            self.check_shapes(query_shape, key_shape)
            self.strength = self.add_weight((), "ones", name="strength")

        def score(self, query, prepared, previous_weights=None):
            differences = query[:, :, None, :] - prepared[:, None, :, :]
            distances = ops.sum(ops.square(differences), axis=-1)
            return -self.cast_weight(self.strength) * distances

    inputs = keras.Input((None, 5)), keras.Input((None, 5))
    layer = ka.MultiHeadAttention(2, 3, scorer=Distance())
    model = keras.Model(inputs, layer(*inputs))
    layer.scorer.strength.assign(3.0)
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    data = [ops.ones((2, 3, 5)), ops.reshape(ops.arange(70.0), (2, 7, 5))]
    difference = ops.max(ops.abs(model(data) - again(data)))
    assert float(difference) == 0

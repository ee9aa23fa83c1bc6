"""`compute_output_spec` names the arguments of a call, also where a subclass defines `call`."""

import keras
import pytest

import keras_attention as ka


class Renaming(ka.Normalizer):
    """A normalizer whose `call` has another name for its required argument."""

    def call(self, logits, mask=None, previous_weights=None, training=None, noise=None):
        return super().call(logits, mask, previous_weights, training, noise)

    def normalize(self, scores, mask, previous_weights, training, noise):
        return scores


class PassingOn(ka.BahdanauAttention):
    """An attention whose `call` passes masks and options on."""

    def call(self, query, value, key=None, **kwargs):
        return super().call(query, value, key, **kwargs)


class Extending(ka.DotScorer):
    """A scorer whose `call` takes one argument more, and names all the others."""

    def call(self, query, key, previous_weights=None, scale=1.0):
        return super().call(query, key, previous_weights) * scale


QUERY, VALUE = keras.KerasTensor((3, 2, 4)), keras.KerasTensor((3, 7, 4))
EAGER = keras.ops.ones((3, 2, 4)), keras.ops.ones((3, 7, 4))


def test_a_subclass_may_rename_the_arguments_of_call():
    assert Renaming()(VALUE, mask=keras.KerasTensor((3, 1, 4), "bool")).shape == (3, 7, 4)
    with pytest.raises(ValueError, match="Renaming expects `mask` to broadcast"):
        Renaming()(keras.ops.ones((3, 7, 4)), mask=keras.ops.ones((3, 5, 4), "bool"))


def test_a_subclass_may_pass_the_arguments_of_call_on():
    mask, layer = keras.KerasTensor((3, 7), "bool"), PassingOn(5)
    assert PassingOn(5)(QUERY, VALUE, value_mask=mask).shape == (3, 2, 4)
    context, weights = PassingOn(5)(QUERY, VALUE, return_attention_scores=True)
    assert (context.shape, weights.shape) == ((3, 2, 4), (3, 2, 7))
    with pytest.raises(ValueError, match="PassingOn expects `value_mask` of shape"):
        layer(*EAGER, value_mask=keras.ops.ones(3, "bool"))
    assert not layer.built


def test_a_subclass_may_add_an_argument_to_call():
    assert Extending()(QUERY, VALUE, scale=2.0).shape == (3, 2, 7)
    assert tuple(Extending()(*EAGER, scale=2.0).shape) == (3, 2, 7)

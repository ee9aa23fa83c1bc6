"""Batches depend on the seed, the epoch and the batch; `seek` moves to any of them."""

import keras
import numpy as np
import pytest
from tf_or_skip import tf

from keras_attention.data import ResumableArrays, ResumableData, ResumableDataset

X = np.arange(23)


def _make(kind, seed=1):
    if kind == "arrays":
        return ResumableArrays(X, -X, batch_size=5, seed=seed)
    pairs = tf.data.Dataset.from_tensor_slices((X, -X))
    return ResumableDataset(lambda s: pairs.shuffle(23, seed=s).batch(5), 5, seed=seed)


def _read(data, epoch, batch=0):
    data.seek(epoch, batch)
    return [np.asarray(x).tolist() for x, _ in data.dataset]


@pytest.mark.parametrize("kind", ["arrays", "dataset"])
def test_seek_moves_to_a_batch_of_an_epoch(kind):
    data = _make(kind)
    assert isinstance(data, ResumableData)
    epochs = [_read(data, epoch) for epoch in range(3)]
    for epoch in epochs:
        assert [len(batch) for batch in epoch] == [5, 5, 5, 5, 3]
        assert sorted(sum(epoch, [])) == X.tolist()
    assert epochs[0] != epochs[1] != epochs[2]
    assert _read(_make(kind), 1, 3) == epochs[1][3:]
    assert _read(data, 2, 4) == epochs[2][4:]
    assert _read(_make(kind, seed=2), 0) != epochs[0]


@pytest.mark.parametrize("kind", ["arrays", "dataset"])
def test_a_batch_has_the_shapes_of_the_specification(kind):
    x, y = _make(kind).element_spec
    assert (tuple(x.shape), x.dtype, tuple(y.shape)) == ((None,), "int64", (None,))


def test_texts_are_strings():
    if keras.backend.backend() != "tensorflow":
        pytest.skip("other backends have no tensors of strings")
    for texts in (np.array(["a b", "c"]), np.array(["a b", "c"], object), np.array([b"a b", b"c"])):
        spec, _ = ResumableArrays(texts, np.arange(2), batch_size=1).element_spec
        assert spec.dtype == "string"


def test_the_number_of_batches_is_known_before_seek():
    data = _make("dataset")
    assert int(data.dataset.cardinality()) == 5
    data.seek(0, 3)
    assert int(data.dataset.cardinality()) == 5
    assert len(list(data.dataset)) == 2, "tf.data declares a whole epoch and ends early"


def test_without_a_seed_arrays_keep_their_order():
    data = ResumableArrays(X, X, batch_size=5, seed=None)
    assert sum(_read(data, 4), []) == X.tolist()


def test_arrays_that_fit_shuffles_again_are_refused():
    if keras.backend.backend() == "tensorflow":
        pytest.skip("`fit` does not shuffle a tf.data.Dataset")
    data = _make("arrays")
    data.seek(0, 0)
    with pytest.raises(ValueError, match="Pass `shuffle=False` to `fit`"):
        data.dataset[3]


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="same number of examples"):
        ResumableArrays(X, X[1:])
    with pytest.raises(ValueError, match="at least one"):
        ResumableArrays(X[:0])
    with pytest.raises(ValueError, match="at least one"):
        ResumableArrays(3)
    with pytest.raises(ValueError, match="`batch_size` to be a positive int"):
        ResumableArrays(X, batch_size=0)
    with pytest.raises(ValueError, match="`seed` to be an int of at least 0. Or pass None"):
        ResumableArrays(X, seed=-1)
    if keras.backend.backend() == "tensorflow":
        with pytest.raises(ValueError, match="`batches_per_epoch` to be a positive int"):
            ResumableDataset(lambda seed: tf.data.Dataset.range(3), 0)

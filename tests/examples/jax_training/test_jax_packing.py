"""`pack` and `finish`, which run where TensorFlow is, around a training on JAX."""

import json

import keras
import numpy as np
import pytest

from examples.data.batches import Batches
from examples.data.encoding import EncodedPairs, Ragged
from examples.data.report import Report
from examples.jax_training.__main__ import main
from examples.jax_training.packed_pairs import PackedPairs
from examples.jax_training.packed_training import FILE, PackedTraining
from examples.training.history import read_history
from keras_attention.export import runs

PAIRS = "ab\tA B\nbca\tB C A\nc\tC\nabcab\tA B C A B\ncb\tC B\nba\tB A\nacb\tA C B\n"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "pairs.tsv").write_text(PAIRS * 3)
    options = [
        "rnnsearch", "--run", str(tmp_path / "run"), "--pairs", str(tmp_path / "pairs.tsv"),
        "--validation-pairs", str(tmp_path / "pairs.tsv"), "--source-tokenizer", "characters",
        "--target-tokenizer", "words", "--units", "6", "--embedding-dim", "5", "--batch-size",
        "4", "--num-buckets", "2", "--epochs", "2", "--label-smoothing", "0.1", "--seed", "3",
    ]  # fmt: skip
    return tmp_path / "run", options


@pytest.mark.parametrize("sizes", [{"batch_size": 5}, {"batch_tokens": 23}])
def test_the_batches_are_those_of_a_training_here(sizes):
    random = np.random.default_rng(3)
    sides = [
        Ragged.from_rows([random.integers(4, 90, n) for n in random.integers(1, 12, 41)])
        for _ in range(2)
    ]
    batches = Batches(EncodedPairs(*sides, np.arange(41), Report()), max_shapes=3, seed=5, **sizes)
    arrays = {}
    for name, ids in zip(("source", "target"), sides, strict=True):
        arrays |= {name: ids.values.astype("u1"), f"{name}_lengths": ids.lengths}
    settings = {**batches.plan.settings, "decoder_start_id": batches.decoder_start_id}
    packed = PackedPairs(arrays, json.loads(json.dumps(settings)))
    assert packed.shapes == batches.shapes()
    for epoch in (0, 1, 6):
        for ours, theirs in zip(packed.epoch(epoch), batches.epoch(epoch), strict=True):
            keras.tree.map_structure(np.testing.assert_array_equal, ours, theirs)
    for ours, (inputs, labels, _) in zip(packed.in_order(), batches.evaluation(), strict=True):
        keras.tree.map_structure(np.testing.assert_array_equal, ours, (inputs, labels))


def test_a_trained_seed_becomes_a_run(files, capsys):
    run, options = files
    assert main(["pack", *options]) == 0
    packed = PackedTraining.read(run / FILE)
    model = keras.models.model_from_json(packed.settings["model"])
    optimizer = keras.saving.deserialize_keras_object(packed.settings["optimizer"])
    assert packed.settings["epochs"] == 2
    assert float(optimizer.learning_rate) == pytest.approx(1e-3)
    weights = {f"weight_{n}": x for n, x in enumerate(model.get_weights())}
    np.savez(run / "seed-7.npz", history=[(1, 2.0, 9.0, 0.5), (2, 1.5, 8.0, 1.0)], **weights)
    assert main(["finish", str(run), "--seed", "7"]) == 0, capsys.readouterr().err
    opened = runs.read_run(run)
    batch = next(PackedPairs(*packed.get_pairs("validation")).in_order())[0]
    np.testing.assert_allclose(opened.model(batch), model(batch), rtol=0, atol=1e-6)
    assert opened.settings["seed"] == 7
    assert [row["val_perplexity"] for row in read_history(run / "history.csv")] == [9.0, 8.0]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--monitor", "wer"], "A training on JAX has no --monitor. Leave it out."),
        (["--max-minutes", "5"], "Received: --max-minutes 5"),
        (["--strategy", "mirrored"], "Received: --strategy mirrored"),
        (["--resume"], "A training on JAX has no --resume. Leave it out."),
        (["--no-xla"], "A training on JAX has no --no-xla. Leave it out. Received: --no-xla"),
        (["--tensorboard"], "A training on JAX has no --tensorboard."),
        (["--checkpoint-seconds", "9"], "Received: --checkpoint-seconds 9"),
        (["--schedule", "plateau"], "Received: --schedule plateau"),
        (["--init-stddev", "0.01"], "A training on JAX has no --init-stddev."),
        (["--dtype", "mixed_float16"], "Received: --dtype mixed_float16"),
    ],
)
def test_what_fit_does_not_know_is_refused(files, capsys, more, said):
    run, options = files
    assert main(["pack", *options, *more]) == 2
    assert said in capsys.readouterr().err
    assert not run.exists()


@pytest.mark.parametrize(
    ("model", "options", "said"),
    [
        (
            "transformer",
            "--tokenizer characters --joint-vocabulary --share-embeddings --units 8 --heads 2",
            "Leave --share-embeddings out.",
        ),
        (
            "rnnsearch",
            "--tokenizer words --joint-vocabulary --copied-words 2 --shards x",
            "A training on JAX has no --shards.",
        ),
    ],
)
def test_models_that_do_not_fit_leave_nothing(files, capsys, model, options, said):
    run, given = files
    data = given[3:7]
    assert main(["pack", model, "--run", str(run), *data, *options.split()]) == 2
    assert said in capsys.readouterr().err
    assert not run.exists()


def test_bad_files_are_told(files, capsys):
    run, options = files
    assert main(["finish", str(run)]) == 1
    assert "is no run of `python -m examples.jax_training pack`" in capsys.readouterr().err
    assert main(["pack", *options]) == 0
    assert main(["pack", *options]) == 1
    assert "is not empty" in capsys.readouterr().err
    assert main(["finish", str(run), "--seed", "2"]) == 1
    assert "seed-2.npz" in capsys.readouterr().err
    np.savez(run / "seed-2.npz", history=[(1, 2.0, 9.0, 0.5)], weight_0=np.zeros((2, 3)))
    assert main(["finish", str(run), "--seed", "2"]) == 1
    assert "holds weights of another model: 1 arrays where this one has" in capsys.readouterr().err
    np.savez_compressed(run / "whole.npz", history=np.random.default_rng(3).normal(size=(99, 4)))
    whole = (run / "whole.npz").read_bytes()
    np.savez(run / "other.npz", weights=np.zeros(3))
    np.savez(run / "gap.npz", history=[(1, 2.0, 9.0, 0.5)], weight_1=np.zeros((2, 3)))
    other, gap = (run / "other.npz").read_bytes(), (run / "gap.npz").read_bytes()
    for content in (whole[:200], whole[:200] + bytes(900) + whole[1100:], other, gap):
        (run / "seed-2.npz").write_bytes(content)
        assert main(["finish", str(run), "--seed", "2"]) == 1
        assert "seed-2.npz is no trained seed of" in capsys.readouterr().err
    assert not (run / "model.keras").exists()
    whole = (run / FILE).read_bytes()
    for content in (whole[:200], whole[:800] + bytes(900) + whole[1700:]):
        (run / FILE).write_bytes(content)
        with pytest.raises(ValueError, match="training.npz is no training of"):
            PackedTraining.read(run / FILE)
    assert main(["pack", "memory-network", "--run", str(run / "other")]) != 0

"""`python -m benchmarks ntm`: its peer computes what ours does, its ratios mean what they say."""

import json
import math

import keras
import numpy as np
import pytest
import tensorflow as tf
from seeds import set_seed

from benchmarks import ntm
from benchmarks.__main__ import main

LENGTH, SLOTS, SLOT_DIM, UNITS = 5, 11, 7, 13
SIZES = {"length": LENGTH, "memory_size": SLOTS, "word_size": SLOT_DIM, "units": UNITS}
NAMES = [
    "ours, XLA",
    "ours, graph",
    "PyTorch, eager",
    "PyTorch, eager, tuned",
    "Keras LSTM(256), XLA",
]


@pytest.fixture
def torch(monkeypatch):
    torch = pytest.importorskip(
        "torch", reason="PyTorch is not installed: the ntm benchmark's peer is NOT tested"
    )
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # tiny products in two threads wait for each other
    yield torch
    torch.set_num_threads(threads)


def copy_weights(torch, cell, peer):
    """Copies the weights of our cell into one of the PyTorch models."""
    if isinstance(peer.heads, torch.nn.Linear) and hasattr(peer, "cell"):
        return copy_plainly(torch, cell, peer)
    kernel, recurrent, bias = [np.split(w.numpy(), 4, axis=-1) for w in cell.controller.weights]
    order = [0, 1, 3, 2]  # ours i f g o, theirs i f o g
    kernel, recurrent, bias = [
        np.concatenate([w[gate] for gate in order], axis=-1) for w in (kernel, recurrent, bias)
    ]
    fed = np.concatenate([kernel[ntm.BITS + 1 :], recurrent])
    names = ["key", "addition", "strength", "sharpening", "gate", "erase", "shift"]
    ends = np.cumsum(list(cell.heads.sizes.values()))
    columns = dict(zip(cell.heads.sizes, np.split(np.arange(ends[-1]), ends[:-1]), strict=True))
    columns = np.concatenate([columns[name] for name in names])
    pairs = [
        (peer.inputs.weight, kernel[: ntm.BITS + 1].T),
        (peer.inputs.bias, bias),
        (peer.fed.weight, fed.T),
        (peer.heads.weight, cell.head_kernel.numpy()[:, columns].T),
        (peer.heads.bias, cell.head_bias.numpy()[columns]),
        (peer.outputs.weight, cell.output_kernel.numpy().T),
        (peer.outputs.bias, cell.output_bias.numpy()),
        (peer.initial_reads, cell.initial_state.learned["initial_reads"].numpy()),
        (peer.initial_weights, cell.initial_state.learned["initial_weights"].numpy()),
    ]
    copy_pairs(torch, pairs)


def copy_plainly(torch, cell, peer):
    """Copies the weights into a `PlainNTM`, whose LSTM has two biases."""
    kernel, recurrent, bias = [w.numpy().T for w in cell.controller.weights]
    # Ours: key, strength, gate, sharpening, shift, erase, addition, each for both heads; so theirs.
    copy_pairs(
        torch,
        [
            (peer.cell.weight_ih, kernel),
            (peer.cell.weight_hh, recurrent),
            (peer.cell.bias_ih, bias),
            (peer.cell.bias_hh, 0 * bias),
            (peer.heads.weight, cell.head_kernel.numpy().T),
            (peer.heads.bias, cell.head_bias.numpy()),
            (peer.outputs.weight, cell.output_kernel.numpy().T),
            (peer.outputs.bias, cell.output_bias.numpy()),
            (peer.initial_reads, cell.initial_state.learned["initial_reads"].numpy()),
            (peer.initial_weights, cell.initial_state.learned["initial_weights"].numpy()),
        ],
    )


def copy_pairs(torch, pairs):
    with torch.no_grad():
        for parameter, array in pairs:
            assert tuple(parameter.shape) == array.shape
            parameter.copy_(torch.from_numpy(np.ascontiguousarray(array)))


@pytest.mark.parametrize("kind", ["PlainNTM", "TorchNTM"])
def test_the_peers_compute_the_same_logits_loss_and_gradients(torch, kind):
    from benchmarks.torch_models import ntm as torch_ntm

    set_seed(3)
    model = ntm.build_model(**SIZES)
    generator = np.random.default_rng(3)
    for weight in model.weights:  # biases too, which begin at zero
        weight.assign(generator.normal(scale=0.5, size=weight.shape))
    peer = getattr(torch_ntm, kind)(ntm.BITS + 1, ntm.BITS, UNITS, SLOTS, SLOT_DIM)
    copy_weights(torch, model.layers[-1].cell, peer)
    second_bias = 4 * UNITS if kind == "PlainNTM" else 0
    parameters = sum(parameter.numel() for parameter in peer.parameters())
    assert parameters == model.count_params() + second_bias

    inputs, targets = ntm.example_batch(3, LENGTH)
    with tf.GradientTape() as tape:
        ours = model(inputs)
        bits = keras.ops.binary_crossentropy(targets, ours[:, -LENGTH:], from_logits=True)
        loss = keras.ops.mean(bits)
    gradients = tape.gradient(loss, model.trainable_variables)
    norm = sum(float(tf.reduce_sum(gradient**2)) for gradient in gradients) ** 0.5
    with torch.no_grad():
        theirs = peer(torch.from_numpy(inputs)).numpy()
    assert theirs.std() > 0.1, "the comparison needs logits that differ"
    np.testing.assert_allclose(theirs, ours.numpy(), atol=1e-5, rtol=0)

    optimizer = torch.optim.SGD(peer.parameters(), 0.0)
    batch = [torch.from_numpy(array) for array in (inputs, targets)]
    step = torch_ntm.train_step(peer, optimizer, *batch, 1e9)
    assert step == pytest.approx(float(loss), rel=1e-5)
    once = [value for name, value in peer.named_parameters() if not name.endswith("bias_hh")]
    their_norm = sum(float((parameter.grad**2).sum()) for parameter in once) ** 0.5
    assert their_norm == pytest.approx(norm, rel=1e-4)


def test_the_peers_step_clips_and_learns(torch):
    from benchmarks.torch_models.ntm import TorchNTM, train_step

    torch.manual_seed(1)
    peer = TorchNTM(ntm.BITS + 1, ntm.BITS, UNITS, SLOTS, SLOT_DIM)
    optimizer = torch.optim.Adam(peer.parameters(), 0.03)
    batch = [torch.from_numpy(array) for array in ntm.example_batch(3, 2)]
    losses = [train_step(peer, optimizer, *batch, clip=1e-3) for _ in range(25)]
    assert losses[0] == pytest.approx(math.log(2), rel=0.1) and losses[-1] < 0.7 * losses[0]
    assert max(float(parameter.grad.abs().max()) for parameter in peer.parameters()) <= 1.001e-3


def test_sides_train_from_end_to_end(torch):
    sides = [
        ntm.keras_side(2, **SIZES, jit_compile=False),
        ntm.keras_side(2, **SIZES, jit_compile=False, floor_units=3),
        ntm.torch_side(2, **SIZES),
    ]
    for side in sides:
        first = side()
        assert first == pytest.approx(math.log(2), rel=0.2)
        assert side() != first  # a step was made


def test_the_batch_asks_for_the_copy_after_the_flag():
    inputs, targets = ntm.example_batch(3, LENGTH)
    assert inputs.shape == (3, 2 * LENGTH + 1, 9) and targets.shape == (3, LENGTH, 8)
    np.testing.assert_array_equal(inputs[:, :LENGTH, :8], targets)
    assert inputs[:, :, 8].sum() == inputs[:, LENGTH, 8].sum() == 3
    assert not inputs[:, LENGTH + 1 :].any() and set(np.unique(targets)) == {0, 1}


@pytest.fixture
def fake_measurements(monkeypatch):
    """Stands in for the harness: each further side takes twice the time, three times the memory."""

    def measure_times(cases, repeats, *, threads, warmup, progress):
        return {
            case.name: {
                "median_seconds": 0.25 * 2**index,
                "quartile_seconds": [0.2, 9.0],
                "first_call_seconds": 3.0,
            }
            for index, case in enumerate(cases)
        }

    def measure_memory(cases, repeats, *, threads, progress):
        return {
            case.name: {"median_extra_bytes": 200_000_000 * 3**index}
            for index, case in enumerate(cases)
        }

    monkeypatch.setattr(ntm, "measure_times", measure_times)
    monkeypatch.setattr(ntm, "measure_memory", measure_memory)


def rows_of(path):
    return {row["name"]: row for row in json.loads(path.read_text())["rows"]}


def test_ratios_are_to_the_peer_and_to_the_smallest_size(fake_measurements, tmp_path, capsys):
    path = tmp_path / "ntm.json"
    assert main(["ntm", "--growth-slots", "192", "128", "--json", str(path)]) == 0
    rows = rows_of(path)
    expected = [f"batch {batch}, {name}" for batch in (1, 32) for name in NAMES]
    expected += ["ours, XLA, 128 slots", "ours, XLA, 192 slots"]
    assert list(rows) == expected + [f"ours, XLA, {size} vectors" for size in (20, 80, 320)]
    assert [rows[f"batch 32, {name}"]["speed_ratio"] for name in NAMES] == [4, 2, 1, 0.5, 0.25]
    assert rows["batch 1, ours, XLA"]["steps_per_second"] == 4
    more, less = rows["ours, XLA, 192 slots"], rows["ours, XLA, 128 slots"]
    assert [less[f"{name}_ratio"] for name in ("size", "time", "memory")] == [1, 1, 1]
    assert [more[f"{name}_ratio"] for name in ("size", "time", "memory")] == [1.5, 2, 3]
    assert more["time_of_a_further_one"] == pytest.approx(0.25 / 64)
    assert more["memory_of_a_further_one"] == pytest.approx(400e6 / 64)
    assert "time_of_a_further_one" not in less
    text = capsys.readouterr().out
    assert "Growing like the slots would be 1.5 at the end." in text
    assert "Growing like the vectors would be 16 at the end." in text


def test_parts_can_be_left_out(fake_measurements, tmp_path):
    path = tmp_path / "ntm.json"
    words = ["ntm", "--json", str(path)]
    assert main([*words, "--batches", "7", "--sides", "xla", "--no-growth"]) == 0
    assert list(rows_of(path)) == ["batch 7, ours, XLA"]
    assert rows_of(path)["batch 7, ours, XLA"]["speed_ratio"] is None
    words += ["--no-memory", "--batches", "--growth-slots"]
    assert main([*words, "--growth-lengths", "3"]) == 0
    assert list(rows_of(path)) == ["ours, XLA, 3 vectors"]
    assert "memory_ratio" not in rows_of(path)["ours, XLA, 3 vectors"]


def test_a_missing_peer_stands_in_the_table(monkeypatch, capsys):
    def measure_times(cases, *arguments, **named):
        seconds = {"median_seconds": 2.0, "quartile_seconds": [2.0, 2.0], "first_call_seconds": 3.0}
        return {case.name: {"missing": "no torch"} if case.needs else seconds for case in cases}

    monkeypatch.setattr(ntm, "measure_times", measure_times)
    assert main(["ntm", "--batches", "1", "--no-growth"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "batch 1, PyTorch, eager no torch" in lines
    assert "batch 1, ours, XLA 2.000 s 2.000 to 2.000 s 0.5 - - - - - 3.000 s" in lines

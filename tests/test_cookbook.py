"""The pages of the cookbook run from top to bottom in an empty folder and reach their results."""

import json
import pathlib
import re
import shlex
import subprocess
import sys

import keras
import numpy as np
import pytest
from test_readme import links, python_blocks

import keras_attention as ka
from keras_attention.callbacks import BackupAndRestore

if keras.backend.backend() != "tensorflow":
    pytest.skip("the pages use TensorFlow", allow_module_level=True)

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "docs" / "cookbook"
INDEX = FOLDER / "README.md"
PAGES = sorted(set(FOLDER.glob("*.md")) - {INDEX})


def read_blocks(name):
    return python_blocks((FOLDER / f"{name}.md").read_text())


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs the Python of a page in an empty folder; returns the names that it defines."""
    monkeypatch.chdir(tmp_path)
    policy = keras.config.dtype_policy()

    def run(name):
        names = {"__name__": "__main__"}
        for block in read_blocks(name):
            exec(compile(block, f"{name}.md", "exec"), names)  # our own page
        return names

    yield run
    keras.config.set_dtype_policy(policy)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_short_asks_a_question_and_is_linked(page):
    text = page.read_text()
    lines = [line for block in python_blocks(text) for line in block.splitlines() if line.strip()]
    assert 15 <= len(lines) <= 60 and max(map(len, lines)) <= 100
    assert re.match(r"# .*\?\n", text)
    assert page.name in links(INDEX.read_text())
    assert text.splitlines()[-1].startswith("Next: [")


def test_separate_keys(run, capsys):
    run("separate_keys")
    assert capsys.readouterr().out == "True True\nTrue\n(2, 3, 11) True True\n"


@pytest.mark.thorough
def test_the_classifier(run, tmp_path):
    names = run("classify_text")
    assert names["accuracy"] > 0.98
    assert names["prediction"] > 0.9
    padding = names["padded_ids"] == 0
    assert np.any(padding) and np.all(names["attention_weights"][padding] == 0)
    assert (tmp_path / "classifier.keras").is_file()


@pytest.mark.thorough
def test_the_sequence_to_sequence_model(run, capsys):
    names = run("sequence_to_sequence")
    assert names["exact"]["greedy"] > 0.98 and names["exact"]["beam"] > 0.98
    assert "['9 2 7'] ['0 4 0 4']" in capsys.readouterr().out


@pytest.mark.thorough
def test_names_are_copied(run):
    names = run("copy_names")
    assert names["exact"] > 0.98 and len(names["words"].vocabulary) == 8


def change_page(name, changes):
    """Returns the program of a page with some of its text replaced."""
    code = "\n".join(read_blocks(name))
    for old, new in changes.items():
        assert code.count(old) == 1, old
        code = code.replace(old, new)
    return code


@pytest.mark.thorough
def test_the_attentions_of_long_copies(capsys):
    """With two updates each and short sequences; without XLA, whose compilations take minutes."""
    changes = {
        "UPDATES, TEST_LENGTHS = 300, (100, 200, 500, 1000)": "UPDATES, TEST_LENGTHS = 2, (5, 7)",
        "[100, *random.integers(20, 101, 15)]": "[7, 3]",
        "jit_compile=True": "jit_compile=False",
        "attentions.items()": "[*attentions.items()][::2]",
    }
    names = {}
    exec(change_page("copy_long_sequences", changes), names)
    printed = capsys.readouterr().out.splitlines()
    assert len(names["attentions"]) == 7 and len(printed) == 4
    assert all(isinstance(make(), keras.layers.Layer) for make in names["attentions"].values())
    for line, (name, accuracies) in zip(printed, names["accuracies"].items(), strict=True):
        assert line.startswith(name) and line.count("%") == 2
        assert len(accuracies) == 2 and all(0 <= accuracy < 0.5 for accuracy in accuracies)


@pytest.mark.slow
def test_a_mixture_copies_sequences_twice_as_long_as_those_of_training():
    changes = {"attentions.items()": "[*attentions.items()][:1]"}
    names = {}
    exec(change_page("copy_long_sequences", changes), names)
    at_100, at_200, *_ = names["accuracies"]["GMM v2"]
    assert at_100 > 0.98 and at_200 > 0.9


@pytest.mark.thorough
def test_the_required_phrases_stand_where_they_belong(run):
    names = run("require_phrases")
    for phrases, before, after in zip(
        *(names[n] for n in ("phrases", "plain", "found")), strict=True
    ):
        assert after.texts and all(phrases[0] in text for text in after.texts)
        assert not all(phrases[0] in text for text in before.texts)
    first, second = (after.texts[0] for after in names["found"])
    assert first in ("small red car", "little red car")
    assert re.fullmatch(r"(old|ancient) (house|home) little home", second)


@pytest.mark.thorough
def test_a_training_that_is_watched_and_resumed(run, tmp_path, capsys, monkeypatch):
    class Killed(Exception):
        pass

    def kill(callback, batch, logs=None):
        if callback.model.optimizer.iterations == 77:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(BackupAndRestore, "on_train_batch_begin", kill)
        with pytest.raises(Killed):
            run("watch_and_resume")
    assert (tmp_path / "backup" / "training.backup").is_file()
    capsys.readouterr()
    resumed = run("watch_and_resume")
    printed = capsys.readouterr().out
    assert "Epoch 3: val_bleu" in printed and "Epoch 2: val_bleu" not in printed
    assert max(resumed["history"].history["val_bleu"]) > 95
    assert len(resumed["history"].history["perplexity"]) == 4
    assert (tmp_path / "best.keras").is_file() and not (tmp_path / "backup").exists()
    assert list((tmp_path / "logs").iterdir())
    expected = run("watch_and_resume")["model"].get_weights()
    for one, other in zip(expected, resumed["model"].get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.thorough
def test_the_guided_alignment(run, tmp_path):
    names = run("guide_the_alignment")
    (plain, _), (guided, accuracy) = names["results"].values()
    assert guided < 0.05 < 0.5 < plain and accuracy > 0.9
    assert len((tmp_path / "found.txt").read_text().splitlines()) == 500


@pytest.mark.thorough
def test_the_several_sources(run):
    names = run("attend_to_several_sources")
    weights, one = names["first_weight"], names["one"]
    assert names["exact"] > 0.95 and weights[one].mean() > weights[~one].mean() + 0.1


def test_the_replaced_layers(run):
    names = run("replace_keras_attention")
    for layer in ("dot", "additive", "heads"):
        assert names[f"{layer}_difference"] < 1e-5


@pytest.mark.thorough
def test_the_forecast(run):
    names = run("forecast_time_series")
    assert names["lag"] == names["LAG"]
    assert names["average"].max() > 0.8
    assert names["error"] < 1.2 * names["noise"] < 0.3 * names["last_value_error"]


@pytest.mark.thorough
def test_the_captions(run):
    names = run("caption_images")
    assert names["exact"] > 0.95


def test_the_scorer_and_the_normalizer(run):
    weights = np.array(run("write_a_scorer")["weights"])
    assert np.all(weights[1, :, 3:] == 0)
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)
    assert np.all(weights[0].argmax(axis=-1) == np.arange(5))


def test_the_cell_and_the_decoder(run):
    names = run("write_a_decoder")
    assert names["weights"].shape == (2, 5, 7)
    assert names["difference"] < 1e-5
    assert names["found"]["ids"].shape == (2, 4)


@pytest.mark.thorough
def test_mixed_precision(run):
    names = run("mixed_precision")
    assert min(names[policy] for policy in ("plain", "mixed")) > 0.9
    assert {weight.dtype for weight in names["model"].trainable_weights} == {"float32"}
    assert names["model"].layers[2].compute_dtype == "bfloat16"


@pytest.mark.thorough
def test_several_devices(tmp_path):
    """In a process of its own: the devices are chosen before TensorFlow starts."""
    code = "\n".join(read_blocks("several_gpus"))
    code += "\nassert strategy.num_replicas_in_sync == 2 and accuracy > 0.95, accuracy"
    code += "\nassert difference < 1e-3, difference"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.thorough
def test_the_loop_in_onnx_runtime(run):
    reason = "needs ONNX Runtime and tf2onnx; `sh .ci/runtimes` installs them and runs this test"
    for package in ("onnxruntime", "tf2onnx"):
        pytest.importorskip(package, reason=reason)
    assert run("run_in_onnx")["same"]


@pytest.mark.thorough
def test_the_served_model(run, tmp_path, capsys):
    text = (FOLDER / "serve_a_model.md").read_text()
    serve, docker, curl = re.findall(r"^```sh\n(.*?)\n^```", text, re.MULTILINE | re.DOTALL)
    train, ask = read_blocks("serve_a_model")
    exec(compile(train, "serve_a_model.md", "exec"), {})
    folder, name = re.search(r'"\$PWD/(\S+):/models/(\S+):ro"', docker).groups()
    assert (tmp_path / folder / "1" / "saved_model.pb").is_file()
    assert f"/v1/models/{name}:predict" in curl
    command = [sys.executable, *shlex.split(serve)[1:], "--port", "0", "--rest-api-port", "0"]
    server = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        printed = ""
        while "Ready." not in printed:
            line = server.stdout.readline()
            assert line, printed
            printed += line
        port = re.search(r"http://[^:]+:(\d+)", printed)[1]
        done = subprocess.run(
            shlex.split(curl.replace(":8501/", f":{port}/")),
            capture_output=True,
            text=True,
            check=True,
        )
        (prediction,) = json.loads(done.stdout)["predictions"]
        assert prediction["praise"][0] > 0.9
        names = {}
        exec(compile(ask.replace(":8501", f":{port}"), "serve_a_model.md", "exec"), names)
        assert names["answer"]["praise"][0, 0] > 0.9 > 0.1 > names["answer"]["praise"][1, 0]
    finally:
        server.terminate()
        server.wait(timeout=60)
        server.stdout.close()


def read_table():
    """Returns the cells of the rows of the index's table of layers."""
    text = INDEX.read_text().split("## Which attention shall I take?")[1]
    rows = re.findall(r"^\| (.*) \|$", text, re.MULTILINE)[1:]
    return [row.split(" | ") for row in rows]


def test_the_layers_of_the_table_can_be_made():
    rows = read_table()
    assert len(rows) >= 10
    for row in rows:
        for code in re.findall(r"`([^`]+\(.*?\))`", row[1]):
            assert isinstance(eval(code, {**vars(ka), "keras": keras}), keras.layers.Layer)


def count_keys_read(attention, num_queries=4, num_keys=12):
    """Returns how many keys change the context of the first query, with all keys after it."""
    random = np.random.RandomState(1)
    query, value = random.randn(1, num_queries, 6), random.randn(1, num_keys, 6)
    first = np.array(attention(query, value))[0, 0]
    for count in range(1, num_keys):
        changed = value.copy()
        changed[:, count:] = random.randn(1, num_keys - count, 6)
        if np.allclose(np.array(attention(query, changed))[0, 0], first, atol=1e-6):
            return count
    return num_keys


def test_the_attentions_that_the_table_calls_online_read_no_later_keys():
    assert count_keys_read(ka.LocalAttention(5, "monotonic")) == 3
    assert count_keys_read(ka.Attention("dot", normalizer=ka.MonotonicNormalizer("hard"))) < 12
    chunkwise = ka.MonotonicChunkwiseAttention(2, "dot", "dot", ka.MonotonicNormalizer("hard"))
    assert count_keys_read(chunkwise) < 12
    assert count_keys_read(ka.Attention("dot")) == 12
    inputs, changed = np.random.RandomState(2).randn(2, 1, 9, 6)
    changed[:, :5] = inputs[:, :5]
    causal = ka.SelfAttention(6)
    found, other = (np.array(causal(x, use_causal_mask=True)) for x in (inputs, changed))
    np.testing.assert_allclose(found[:, :5], other[:, :5], atol=1e-6)

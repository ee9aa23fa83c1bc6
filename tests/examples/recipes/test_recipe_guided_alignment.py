"""Guided alignment of translators: links of files, batches, the added loss, outputs with links."""

import argparse

import keras
import numpy as np
import pytest
import tensorflow as tf
from translation_commands import Echo, call, read_options

from examples.commands.arguments import UsageError
from examples.data.linked_batches import LinkedBatches, read_pair_links
from examples.data.pair_files import PairFiles
from examples.models import rnnsearch, seq2seq, transformer
from examples.recipes.guided_alignment import append_links, guide_alignment
from examples.recipes.translation import Translation
from examples.training.fitting import make_trainer
from keras_attention import TokenCrossentropy
from keras_attention.export import Translation as TranslatedText
from keras_attention.export import runs
from keras_attention.export.tokenizers import CharacterTokenizer, WordTokenizer

WORDS = WordTokenizer([*"abcde"])
PAIRS = [("a b c", "b a"), ("d", "e d c b"), ("a c e d b", "c"), ("b\u00a0 c", "a a a")]
LINKS = [{(0, 1), (2, 0)}, {(0, 3)}, set(), {(1, 0), (1, 2)}]


def test_links_belong_to_the_lines_of_their_pairs(tmp_path):
    pairs, links = tmp_path / "pairs.tsv", tmp_path / "links.txt"
    lines = ["\t".join(pair) for pair in PAIRS]
    pairs.write_text("\n".join([*lines[:2], "no tab", *lines[2:]]) + "\n")
    links.write_text("0-1 2p0\n0-3\n7-7\n\n1-0 1-2\n")
    files = PairFiles(pairs=pairs)
    corpus = files.read("train")
    assert read_pair_links(links, files, corpus) == dict(zip(PAIRS, LINKS, strict=True))
    for line, message in [("1-0 2-0", ":5: the link 2-0 .*source has 2 words"), ("x", ":5: ")]:
        links.write_text(f"0-1 2p0\n0-3\n7-7\n\n{line}\n")
        with pytest.raises(ValueError, match=message):
            read_pair_links(links, files, corpus)
    links.write_text("0-0\n" * 4)
    with pytest.raises(ValueError, match="links.txt has 4 lines, and there are 5 source sentences"):
        read_pair_links(links, files, files.read("train", max_examples=2))


@pytest.mark.parametrize("max_shapes", [1, 4])
def test_batches_hold_the_links_of_their_rows(max_shapes):
    options = {"batch_size": 3, "max_shapes": max_shapes, "max_target_length": 4}
    batches = LinkedBatches.from_pairs(PAIRS, WORDS, WORDS, links=LINKS, **options)
    seen = {}
    for inputs, labels, index in batches.evaluation():
        shape = (*labels.shape, inputs["source"].shape[1])
        assert inputs["alignment"].shape == shape and inputs["alignment"].dtype == tf.float32
        for place, alignment in zip(index.numpy(), inputs["alignment"].numpy(), strict=True):
            found = {(s, t) for t, s in np.argwhere(alignment).tolist()}
            assert place >= 0 or not found, "an empty row"
            seen[place] = found
    seen.pop(-1, None)
    assert seen == {place: LINKS[place] for place in (0, 2, 3)}  # the second target is too long
    others = LinkedBatches.from_pairs(PAIRS, WORDS, WORDS, links=LINKS[::-1], **options)
    assert batches.digest() != others.digest()
    (inputs, _), *_ = batches.epoch(0)
    assert sorted(inputs) == ["alignment", "source", "target"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("module", "options"),
    [
        (rnnsearch, {"units": 4, "embedding_dim": 3}),
        (rnnsearch, {"units": 4, "embedding_dim": 3, "scheduled_sampling": "constant:1"}),
        (transformer, {"units": 4, "heads": 2, "layers": 1, "dropout": 0}),
    ],
)
def test_the_loss_of_the_alignment_is_added_and_the_logits_stay(module, options):
    size = WORDS.vocabulary_size
    model = module.build(size, size, seed=1, **options)
    batches = LinkedBatches.from_pairs(PAIRS, WORDS, WORDS, links=LINKS, batch_size=4, max_shapes=1)
    inputs, labels, _ = next(iter(batches.evaluation()))
    guided = make_trainer(guide_alignment(model, "ce", 0.5), TokenCrossentropy(), jit_compile=False)
    plain = {name: inputs[name] for name in ("source", "target")}
    logits = model(plain)
    np.testing.assert_allclose(guided(inputs), logits, atol=1e-6)
    assert guided.count_params() == model.count_params()
    encoded = model.get_layer("encoder")(inputs["source"])
    _, weights = model.get_layer("decoder")(
        inputs["target"],
        encoded["memory"],
        initial_state=encoded.get("initial_state"),
        memory_mask=inputs["source"] != 0,
        return_attention_scores=True,
    )
    alignment = inputs["alignment"].numpy()
    shared = alignment / np.maximum(alignment.sum(-1, keepdims=True), 1)
    costs = -(shared * np.log(np.maximum(weights, 1e-30))).sum(-1)[alignment.any(-1)]
    expected = float(TokenCrossentropy()(labels, logits)) + 0.5 * costs.mean()
    found = guided.evaluate(inputs, labels, verbose=0, batch_size=4)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--pairs y --guided-alignment z", "counts words.*sentencepiece of the source"),
        ("--pairs y --tokenizer words --target-tokenizer characters --guided-alignment z", "words"),
        ("--tokenizer words --guided-alignment z", "files that have one target a line"),
        ("--pairs y --format targets --tokenizer words --guided-alignment z", "one target a line"),
        ("--pairs y --tokenizer words --strategy mirrored --guided-alignment z", "one device"),
        ("--pairs y --guided-alignment-cost mse", "--guided-alignment-cost is for --guided-align"),
        ("--pairs y --guided-alignment-weight 1", "--guided-alignment-weight is for --guided-al"),
    ],
)
def test_options_that_do_not_go_with_guided_alignment(line, message):
    with pytest.raises(UsageError, match=message):
        read_options(line)


def test_a_model_without_attention_is_not_guided():
    recipe = read_options("--pairs y --tokenizer words --guided-alignment z", "seq2seq")
    recipe.model = seq2seq.build(9, 9, units=4, embedding_dim=3)
    with pytest.raises(UsageError, match="--guided-alignment needs a model with attention"):
        recipe.make_fit_model(recipe.model)
    assert Translation().make_fit_model(recipe.model) is None


@pytest.mark.parametrize(
    ("tokens", "form", "expected"),
    [
        (["x", "y", "</s>"], "hard", "x y ||| 1-0"),
        (["x", "y", "</s>"], "0.3", "x y ||| 0-1 1-0"),
        (["x", "y", "z"], "hard", "x y ||| 0-2 1-0"),  # the longest that is written has no EOS
        (["x", "y", "</s>"], "0.9", "x y |||"),
    ],
)
def test_links_stand_behind_the_output(tokens, form, expected):
    alignment = np.array([[0.2, 0.6, 0.2], [0.3, 0.2, 0.5], [0.7, 0.2, 0.1]])
    found = TranslatedText(["x y"], [0.0], ["a", "b", "</s>"], tokens, alignment)
    assert append_links(found, form) == expected
    assert append_links(TranslatedText([], [], ["</s>"], [], np.zeros((0, 1))), form) == ""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    model = rnnsearch.build(WORDS.vocabulary_size, WORDS.vocabulary_size, 4, 3)
    settings = {"model": "rnnsearch", "training": {"pairs": "x"}}
    return runs.write_run(tmp_path_factory.mktemp("run") / "run", model, settings, WORDS, WORDS)


class _Aligned(Echo):
    """Every token attends to its own; the EOS tokens to each other."""

    def align(self, texts):
        tokens = [[*text.split(), "</s>"] for text in texts]
        return [
            TranslatedText([text], [0.0], row, row, np.eye(len(row)))
            for text, row in zip(texts, tokens, strict=True)
        ]


@pytest.mark.thorough
def test_commands_write_links(run, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Translation, "make_translator", lambda *_: _Aligned())
    call("translate", run, "a b", " ", "c", "--alignment", "hard")
    assert capsys.readouterr().out == "a b ||| 0-0 1-1\n\nc ||| 0-0\n"
    call("translate", run, "a b")
    assert capsys.readouterr().out == "a b\n"
    pairs, output = tmp_path / "pairs.tsv", tmp_path / "out"
    pairs.write_text("a b\ta b\nc\td\n")
    call("evaluate", run, "--pairs", pairs, "--output", output, "--alignment", "0.5")
    assert output.read_text() == "a b ||| 0-0 1-1\nc ||| 0-0\n"
    for command, *options in [("translate", "a", "--all"), ("evaluate", "--pairs", pairs)]:
        with pytest.raises(UsageError, match="--alignment is "):
            call(command, run, *options, "--alignment", "hard")


@pytest.mark.thorough
def test_runs_and_forms_without_links(run, tmp_path):
    for form in ("soft", "0", "1.5", "nan"):
        with pytest.raises((argparse.ArgumentError, SystemExit)):
            call("translate", run, "a", "--alignment", form)
    letters = CharacterTokenizer([*"abc"])
    models = {
        "--alignment counts words": (rnnsearch, letters),
        "--alignment needs a model with attention": (seq2seq, WORDS),
    }
    for number, (message, (module, tokenizer)) in enumerate(models.items()):
        size = tokenizer.vocabulary_size
        model = module.build(size, size, units=4, embedding_dim=3)
        settings = {"model": module.__name__.rpartition(".")[2], "training": {"pairs": "x"}}
        other = runs.write_run(tmp_path / str(number), model, settings, tokenizer, tokenizer)
        with pytest.raises(UsageError, match=message):
            call("translate", other, "a", "--alignment", "hard")
        keras.backend.clear_session()

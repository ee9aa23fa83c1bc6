"""Translators that copy unknown words: trained, evaluated, asked by the commands."""

import random
import re

import numpy as np
import pytest
from translation_commands import read_options

from examples.__main__ import main
from examples.commands.arguments import UsageError
from examples.data.batches import Batches
from examples.models import luong, rnnsearch
from examples.recipes.free_running import free_running_perplexity
from keras_attention import PointerGeneratorDecoder
from keras_attention.export.tokenizers import WordTokenizer

WORDS = "--tokenizer words --joint-vocabulary --copied-words 3"
VOCABULARY = WordTokenizer([*"abcdefg"])  # ids 4 to 10


def write_pairs(path, count, ending, seed):
    chosen = random.Random(seed)
    names = ["".join(chosen.choices("bdfgklmnprst", k=5)) + ending for _ in range(97)]
    lines = []
    for _ in range(count):
        one, other = chosen.sample(names, 2)
        lines.append(f"{one} greets {other}\t{other} was greeted by {one}\n")
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.mark.thorough
def test_a_run_copies_names_it_has_never_seen(tmp_path, capsys):
    training = write_pairs(tmp_path / "train.tsv", 600, "a", 1)
    test = write_pairs(tmp_path / "test.tsv", 31, "o", 2)
    run = str(tmp_path / "run")
    line = f"train luong --run {run} --pairs {training} {WORDS} --min-frequency 60 --units 32"
    line += " --embedding-dim 16 --layers 1 --epochs 8 --learning-rate 0.01 --num-buckets 1"
    assert main(line.split()) == 0
    output = tmp_path / "outputs.txt"
    line = f"evaluate {run} --pairs {test} --measure exact_match --output {output} --max-length 7"
    capsys.readouterr()
    assert main(line.split()) == 0
    printed = capsys.readouterr().out
    outputs = output.read_text(encoding="utf-8").splitlines()
    references = [one.split("\t")[1] for one in test.read_text(encoding="utf-8").splitlines()]
    assert np.mean([one == other for one, other in zip(outputs, references, strict=True)]) > 0.9
    assert float(re.search(r"perplexity\D+([\d.]+)", printed)[1]) < 1.2, printed


@pytest.mark.thorough
@pytest.mark.parametrize("module", [luong, rnnsearch])
def test_references_with_copied_words_are_scored_freely_too(module):
    model = module.build(11, 11, 6, 5, copied_words=2)
    decoder = model.get_layer("decoder")
    assert isinstance(decoder, PointerGeneratorDecoder) and decoder.vocabulary_size == 11 + 2
    pairs = [("a zwei b drei", "zwei a"), ("vier a", "drei vier b")]
    batches = Batches.from_pairs(
        pairs, VOCABULARY, VOCABULARY, batch_size=2, max_shapes=1, num_copied_words=2
    )
    assert [row.tolist() for row in batches.encoded.source] == [[4, 11, 5, 12, 3], [11, 4, 3]]
    assert [row.tolist() for row in batches.encoded.target] == [[11, 4, 3], [1, 11, 5, 3]]
    inputs, labels, *_ = next(iter(batches.evaluation()))
    logits = np.array(model(inputs)).astype("float64")
    found = free_running_perplexity(model, VOCABULARY, batches)
    assert 1 < found < np.exp(-logits.min())
    # The first tokens are fed alike in both ways.
    np.testing.assert_allclose(np.exp(logits).sum(-1), 1, rtol=1e-4)


def test_what_cannot_be_copied_is_refused():
    for line in (
        "--copied-words 3",
        "--copied-words 3 --tokenizer words",
        "--copied-words 3 --tokenizer characters --joint-vocabulary",
    ):
        with pytest.raises(UsageError, match="--copied-words needs words as tokens"):
            read_options(line).check()
    with pytest.raises(UsageError, match="Leave out one of it and"):
        options = "--source a --target b --guided-alignment c --tokenizer words --joint-vocabulary"
        read_options(f"--copied-words 3 {options}").check()
    with pytest.raises(UsageError, match="Leave out one of it and --scheduled-sampling"):
        options = "--tokenizer words --joint-vocabulary --scheduled-sampling constant:0.5"
        read_options(f"--copied-words 3 {options}").check()
    with pytest.raises(ValueError, match="Leave out one of copied_words and"):
        luong.build(11, 11, 4, 3, copied_words=2, scheduled_sampling="constant:0.5")

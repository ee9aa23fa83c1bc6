import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from examples import predict
from examples.data import dates
from examples.recipes import text_metrics
from examples.recipes.translation import Translation
from keras_attention.export import Translation as TranslatedText
from keras_attention.plotting import _fonts

pytestmark = pytest.mark.thorough

ROOT = pathlib.Path(__file__).parents[3]
GREEDY = ("--beam-width", 1)
BLOCK = """
import sys


class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "keras_attention":
            raise ImportError(f"{name} is blocked")


sys.meta_path.insert(0, Blocked())
from examples.predict import main

sys.exit(main(sys.argv[1:]))
"""


class Echo:
    """Stands in for a translator: the output is the text, every token looks everywhere."""

    def translate(self, texts):
        return [
            TranslatedText([text], [0.0], [*text], [*text], np.full((len(text), len(text)), 0.1))
            for text in texts
        ]

    align = translate


def test_texts_may_follow_an_option_and_have_ranked_outputs(command, words_run):
    status, out, err = command(
        "translate",
        words_run,
        "ein hund schläft .",
        "--all",
        "kein baum fällt .",
        "--beam-width",
        3,
    )
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert len(lines) == 8
    assert (lines[0], lines[4]) == ("ein hund schläft .", "kein baum fällt .")
    assert lines[1].endswith("  a dog sleeps .")
    assert lines[5].endswith("  no tree falls .")
    scores = [float(line.split()[0]) for line in lines[5:]]
    assert scores == sorted(scores, reverse=True)


def test_all_prints_every_hypothesis_with_its_score(command, words_run, monkeypatch):
    class Two(Echo):
        def translate(self, texts):
            empty = np.zeros((0, 0))
            return [TranslatedText(["a", "b"], [-0.5, -2.0], [], [], empty) for _ in texts]

    monkeypatch.setattr(Translation, "make_translator", lambda *_: Two())
    status, out, _ = command("translate", words_run, "--all", "ein hund")
    assert (status, out) == (0, "ein hund\n    -0.5000  a\n    -2.0000  b\n")


def test_each_line_of_standard_input_has_its_line_of_output(
    command, words_run, standard_input, monkeypatch
):
    monkeypatch.setattr(Translation, "make_translator", lambda *_: Echo())
    standard_input("\ufeffein hund\r\n\r\n \nein\u2028baum\rfällt\nkein .".encode())
    status, out, err = command("translate", words_run)
    assert (status, out, err) == (0, "ein hund\n\n\nein\u2028baum\rfällt\nkein .\n", "")
    standard_input(b"ein\r\n\r\n")
    assert command("translate", words_run, "--all")[1] == "ein\n     0.0000  ein\n\n"


def test_no_input_gives_no_output(command, words_run, standard_input):
    standard_input(b"")
    assert command("translate", words_run, *GREEDY) == (0, "", "")


def test_input_that_is_not_utf8_is_told_by_line(command, words_run, standard_input):
    standard_input("ein hund .\nschläft\n".encode("latin-1"))
    status, out, err = command("translate", words_run)
    assert (status, out) == (1, "")
    assert err.startswith("error: Line 2 of standard input is not UTF-8. Convert it")


def test_evaluation_on_files(command, words_run, parallel_files, tmp_path):
    source, target = parallel_files
    output, numbers = tmp_path / "new" / "out.en", tmp_path / "numbers.json"
    status, out, err = command(
        *("evaluate", words_run, "--source", source, "--target", target, *GREEDY),
        *("--output", output, "--json", numbers, "--max-examples", 40),
    )
    assert (status, err) == (0, "")
    told = json.loads(numbers.read_text())
    outputs = output.read_text(encoding="utf-8").splitlines()
    references = target.read_text(encoding="utf-8").splitlines()[:40]
    right = sum(a == b for a, b in zip(outputs, references, strict=True))
    assert told["exact_match"] == right / 40 > 0.5
    assert told["pairs"] == 40
    assert "tok:none" in told["bleu_signature"]
    assert 50 < told["bleu"] <= 100.0001
    assert 50 < told["chrf"] <= 100.0001
    assert 0 < told["token_accuracy"] <= 1 <= told["perplexity"]
    assert told["perplexity_free_running"] >= 1
    assert f"exact match          {told['exact_match']:.4f}" in out


def test_an_evaluation_that_fails_writes_nothing_and_keeps_what_is_there(
    command, words_run, tmp_path
):
    output, numbers, missing = (tmp_path / name for name in ("out", "numbers", "missing"))
    numbers.write_text("{}")
    files = ("--source", missing, "--target", missing, "--output", output, "--json", numbers)
    status, _, err = command("evaluate", words_run, *files)
    assert (status, f"{missing} does not exist" in err) == (1, True)
    assert (output.exists(), numbers.read_text()) == (False, "{}")


def test_bleu_is_measured_as_asked(command, words_run, parallel_files, monkeypatch):
    monkeypatch.setattr(Translation, "make_translator", lambda *_: Echo())
    files = ("--source", parallel_files[0], "--target", parallel_files[0], "--max-examples", 2)
    status, out, _ = command("evaluate", words_run, *files, "--bleu-tokenize", "intl")
    assert status == 0
    assert "tok:intl" in out
    assert "bleu                 100.0000" in out


def test_raw_text_is_tokenized_for_bleu_and_tokenized_text_is_not():
    assert [
        text_metrics.choose_bleu_tokenizer(k) for k in ("words", "characters", "sentencepiece")
    ] == [
        "none",
        "13a",
        "13a",
    ]
    outputs, references = ["A cat sleeps here."], [["A cat sleeps here ."]]
    assert text_metrics.corpus_bleu(outputs, references, "13a")[0] == pytest.approx(100)
    assert text_metrics.corpus_bleu(outputs, references, "none")[0] < 100
    bleu, signature = text_metrics.corpus_bleu(
        ["a cat sleeps here"], [["A Cat Sleeps Here"]], "13a", True
    )
    assert (bleu, "case:lc" in signature) == (pytest.approx(100), True)


def test_evaluation_on_dates(command, dates_run):
    status, out, err = command(
        "evaluate", dates_run, "--max-examples", 40, *GREEDY, "--max-length", 11
    )
    assert (status, err) == (0, "")
    for name in (
        "perplexity",
        "perplexity free running",
        "token accuracy",
        "exact match",
        "year attended",
    ):
        assert f"{name} " in out
    assert "bleu" not in out


def test_a_run_without_attention_is_not_asked_where_it_looked(command, dates_run, monkeypatch):
    monkeypatch.setattr(Translation, "has_attention", False)
    monkeypatch.setattr(Translation, "make_translator", lambda *_: Echo())
    status, out, _ = command(
        "evaluate", dates_run, "--max-examples", 8, *GREEDY, "--max-length", 11
    )
    assert status == 0
    assert "exact match" in out and "year" not in out


def test_pictures_of_texts(command, words_run, tmp_path):
    texts = ["ein hund schläft .", "kein vogel singt ."]
    status, out, err = command("plot", words_run, "--output-dir", tmp_path / "new", *texts, *GREEDY)
    assert (status, err) == (0, "")
    names = ["alignment_1.png", "alignment_2.png", "alignments.png"]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == names
    assert all((tmp_path / "new" / name).read_bytes().startswith(b"\x89PNG") for name in names)
    assert "alignment_1.png  ein hund schläft . -> a dog sleeps ." in out


def test_characters_without_a_font_are_noted_once_and_plainly(
    command, words_run, tmp_path, monkeypatch, recwarn
):
    drawn = _fonts.choose_families(["a"])[0]
    monkeypatch.setattr(Translation, "make_translator", lambda *_: Echo())
    monkeypatch.setattr(_fonts, "_advised_fonts", set())
    monkeypatch.setattr(_fonts, "choose_families", lambda texts: (drawn, {"龘"}))
    status, _, err = command("plot", words_run, "--output-dir", tmp_path, "ein", "kein")
    assert status == 0
    assert err.startswith("note: No installed font contains 龘 (U+9F98): drawn as □.")
    assert err.count("\n") == 1
    assert not [w for w in recwarn if "installed font" in str(w.message)]


def test_the_dates_drawn_by_default_spread_over_scripts():
    texts = dates.choose_shown_dates()
    assert len(texts) == len(dates.SHOWN_FORMS) == len(set(texts))
    together = "".join(texts)
    for first, last in ("AZ", "ая", "αω", "ءي", "अह", "一龠"):
        assert any(first <= char <= last for char in together), (first, last)
    assert any(text.startswith("<en-US> ") for text in texts)


@pytest.mark.slow
def test_exports_are_numbered_and_answer_without_the_library(command, words_run, tmp_path):
    base = tmp_path / "served"
    status, out, err = command("export", words_run, base, "--beam-width", 2, "--version", 9)
    assert (status, out, err) == (0, f"{base / '9'}\n", "")
    (base / "10").mkdir()
    assert predict.newest_version(base) == base / "10"
    status, _, err = command("export", words_run, base, "--version", 10)
    assert status == 1
    assert err.startswith(f"error: {base / '10'} exists already. Choose another version")
    (base / "10").rmdir()
    asked = subprocess.run(
        [sys.executable, "-c", BLOCK, str(base), "ein hund schläft .", "kein baum fällt ."],
        cwd=ROOT,
        env=os.environ,
        text=True,
        capture_output=True,
    )
    assert asked.returncode == 0, asked.stderr
    lines = asked.stdout.splitlines()
    assert lines[0].startswith("ein hund schläft .  ->  a dog sleeps .   (score -")
    assert lines[1].startswith("kein baum fällt .  ->  no tree falls .   (score -")
    assert lines[2] == f"Answered from {base / '9'}; keras_attention was not imported."

"""Error rates against numbers worked by hand, and scores with several references."""

import pytest

from examples.recipes import text_metrics
from examples.recipes.text_metrics import phoneme_error_rate, word_error_rate
from keras_attention.export import tokenizers


def test_rates_worked_by_hand():
    outputs = ["AE B Z", "AE T", "K AE T S", ""]
    references = [
        ["EY B IY EH S", "AE B Z"],  # right, by the second: 0 of 3
        ["AH T", "EY T IY"],  # one substitution in the first: 1 of 2
        ["K AE T"],  # one insertion: 1 of 3
        ["D AO G"],  # three deletions: 3 of 3
    ]
    assert word_error_rate(outputs, references) == 75.0
    assert phoneme_error_rate(outputs, references) == pytest.approx(100 * 5 / 11)


def test_the_first_of_two_equally_near_references_is_the_length():
    assert phoneme_error_rate(["A B"], [["A B C", "A"]]) == pytest.approx(100 / 3)
    assert phoneme_error_rate(["A B"], [["A", "A B C"]]) == pytest.approx(100)


def test_more_edits_than_phonemes_are_more_than_all():
    assert phoneme_error_rate(["A B C"], [["D"]]) == 300.0


def test_spaces_between_phonemes_do_not_matter():
    assert word_error_rate([" A  B"], [["A B"]]) == 0.0


def test_any_reference_counts():
    outputs, references = ["x", "y", "z"], [["w", "x"], ["y"], ["a"]]
    assert text_metrics.exact_match(outputs, references) == pytest.approx(2 / 3)
    outputs = ["a dog sleeps on the sofa", "two cats play in the garden"]
    references = [["the dog is asleep", outputs[0]], [outputs[1]]]
    assert text_metrics.corpus_bleu(outputs, references)[0] == pytest.approx(100)
    assert text_metrics.corpus_chrf(outputs, references) == pytest.approx(100)
    first = [accepted[:1] for accepted in references]
    assert text_metrics.corpus_bleu(outputs, first)[0] < 60


def test_references_are_read_as_the_tokenizer_reads():
    tokenizer = tokenizers.train("words", ["a b"], lowercase=True)
    assert text_metrics.normalize_references(tokenizer, [["A  B"], ["C", " d"]]) == [
        ["a b"],
        ["c", "d"],
    ]

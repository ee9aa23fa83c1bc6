"""N-grams: bits of a random 6-gram source, and the predictor that cannot be beaten."""

import collections

import numpy as np
import pytest

from examples.tasks.base import cost_in_bits
from examples.tasks.ngrams import (
    NGrams,
    draw_bits,
    ngrams_example,
    optimal_bits,
    optimal_probabilities,
)


@pytest.fixture(scope="module")
def many():
    return NGrams().draw(np.random.default_rng(1), batch_size=10_000)


def predict_by_counting(bits):
    """Returns equation 10 for each bit of a sequence, by counting anew at every step."""
    probabilities = []
    for step in range(len(bits)):
        context = tuple(bits[step - 5 : step])
        seen = collections.Counter(
            bits[n] for n in range(5, step) if tuple(bits[n - 5 : n]) == context
        )
        fair = step < 5
        probabilities.append(0.5 if fair else (seen[1] + 0.5) / (seen[0] + seen[1] + 1))
    return probabilities


def test_a_bit_is_seen_one_step_after_it_was_due():
    example = ngrams_example(np.array([[1, 0, 0, 1, 1, 1, 0], [0, 1, 1, 1, 0, 0, 1]]))
    assert example.inputs[..., 0].tolist() == [[0, 1, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 0, 0]]
    assert example.targets[..., 0].tolist() == [[1, 0, 0, 1, 1, 1, 0], [0, 1, 1, 1, 0, 0, 1]]
    assert example.due.tolist() == [[1] * 7] * 2


@pytest.mark.parametrize(
    "table, follows",
    [
        (lambda context: context >> 4, lambda past: past[-5]),  # the oldest bit of five
        (lambda context: context & 1, lambda past: past[-1]),
        (lambda context: 1 - (context >> 2 & 1), lambda past: 1 - past[-3]),
    ],
    ids=["oldest", "newest", "not the middle"],
)
def test_a_certain_table_is_followed(table, follows):
    tables = np.tile([float(table(context)) for context in range(32)], (64, 1))
    bits = draw_bits(np.random.default_rng(2), tables, 37)
    for row in bits.tolist():
        assert all(row[n] == follows(row[:n]) for n in range(5, 37))
    assert len({tuple(row[:5]) for row in bits.tolist()}) > 20, "the first five are fair"


def test_every_sequence_has_a_table_of_its_own():
    tables = np.repeat([[0.0], [1.0], [0.25]], 32, axis=1)
    tables = np.repeat(tables, [3, 3, 4000], axis=0)
    bits = draw_bits(np.random.default_rng(4), tables, 11)
    assert not bits[:3, 5:].any() and bits[3:6, 5:].all()
    assert abs(bits[6:, 5:].mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / bits[6:, 5:].size)


def test_the_first_five_bits_are_fair(many):
    assert abs(many.targets[:, :5].mean() - 0.5) < 4 * 0.5 / np.sqrt(5 * 10_000)


def test_the_optimal_predictor_counts_what_followed_what(many):
    probabilities = optimal_probabilities(many)[:7, :, 0]
    bits = many.targets[:7, :, 0].astype(int).tolist()
    np.testing.assert_allclose(
        probabilities, [predict_by_counting(row) for row in bits], rtol=1e-12
    )


def test_the_optimum_by_hand():
    # After 00000 comes 1 (1/2); after 00001 comes 0 (1/2); 00010: 0; 00100: 0; 01000: 0;
    # 10000: 0; then 00000 a second time, 1 having been seen: 3/4, and 1 comes.
    example = ngrams_example(np.array([[0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1]]))
    probabilities = optimal_probabilities(example)[0, :, 0]
    assert probabilities.tolist() == [0.5] * 11 + [0.75]
    assert optimal_bits(example) == pytest.approx(11 + np.log2(4 / 3))
    assert NGrams().optimal_bits(example) == optimal_bits(example)


def test_the_optimum_costs_what_the_reference_says(many):
    """SPEC: 128.2 bits over the 195 positions that can be predicted, with a deviation of 36."""
    costs = optimal_bits(many) - 5  # five fair bits
    error = costs.std() / np.sqrt(len(costs))
    assert error < 0.4
    assert abs(costs.mean() - 128.2) < 3 * error
    assert costs.std() == pytest.approx(36, abs=1.5)


@pytest.mark.parametrize("prior", [0.25, 1.0])
def test_another_prior_does_worse(many, prior):
    """On the same sequences, so that the deviation of 36 bits falls out of the comparison."""
    loss = cost_in_bits(_predictions(many.targets[..., 0], prior), many) - optimal_bits(many)
    assert loss.mean() > 4 * loss.std() / np.sqrt(len(loss))


def _predictions(bits, prior):
    """Returns (N1 + prior) / (N0 + N1 + 2 prior)."""
    bits = bits.astype(int)
    contexts = sum(2 ** (4 - n) * bits[:, n : n - 5] for n in range(5))
    rows = np.arange(len(bits))
    seen = np.full((len(bits), 32, 2), prior)
    probabilities = np.full((*bits.shape, 1), 0.5)
    for step in range(5, bits.shape[1]):
        counts = seen[rows, contexts[:, step - 5]]
        probabilities[:, step, 0] = counts[:, 1] / counts.sum(axis=1)
        seen[rows, contexts[:, step - 5], bits[:, step]] += 1
    return probabilities


def test_guessing_costs_a_bit_each(many):
    guesses = cost_in_bits(np.full((10_000, 200, 1), 0.5), many)
    assert (guesses == 200).all()


def test_padding_changes_no_cost():
    example = NGrams().draw(np.random.default_rng(5), batch_size=3, length=23)
    padded = optimal_bits(example.pad(31))
    np.testing.assert_allclose(padded, optimal_bits(example), rtol=1e-14)  # another order of sums

import keras
import numpy as np
import pytest
import tensorflow as tf
from seeds import set_seed

from examples.data import babi_encoding
from examples.data.babi import Question
from examples.data.rows import RowBatches
from examples.models import memory_network
from examples.recipes.babi import Babi
from examples.training.fitting import evaluate
from examples.training.history import History
from examples.training.linear_start import (
    Choice,
    LinearStart,
    SummedCostDescent,
    make_metrics,
)
from keras_attention import MemoryHops

WORDS = ("ann", "bob", "is", "out", "where")


def question(*sentences, asked="Where is Bob?", answer="out"):
    return Question("1", 0, sentences, asked, answer)


# Words.


def test_stories_are_encoded_from_the_oldest_sentence_and_padded_behind():
    tokenizer = babi_encoding.SentenceTokenizer(WORDS)
    told = [
        question("Ann is out.", "Bob is OUT!", "Ann out"),
        question("Bob.", answer="unheard"),
    ]
    inputs, labels, weights = babi_encoding.encode_questions(told, tokenizer, memories=2, words=4)
    assert inputs["story"].tolist() == [
        [[5, 6, 7, 0], [4, 7, 0, 0]],  # the two most recent
        [[5, 0, 0, 0], [0, 0, 0, 0]],
    ]
    assert inputs["question"].tolist() == [[8, 6, 5, 0]] * 2
    assert labels["logits"].tolist() == [7, 1]
    assert weights.tolist() == [1.0, 1.0]
    assert babi_encoding.count_words(told) == 3


def test_what_is_cut_off_is_counted_as_it_is_encoded():
    tokenizer = babi_encoding.SentenceTokenizer(WORDS)
    told = [
        question("Ann is out out.", "Bob is OUT!", "Ann out out", asked="Where is Bob out?"),
        question("Bob."),
    ]
    for memories, length in ((2, 2), (2, 3), (3, 4), (1, 9)):
        found = babi_encoding.measure_length(told, tokenizer, memories, length)
        inputs, *_ = babi_encoding.encode_questions(told, tokenizer, memories, length)
        read = sum(int((inputs[name] > 0).sum()) for name in ("story", "question"))
        assert found.words - found.cut_words == read
        kept = int((inputs["story"] > 0).any(axis=2).sum())
        assert (found.questions, found.sentences, found.sentences - found.cut_sentences) == (
            *(2, 4),
            kept,
        )
    found = babi_encoding.measure_length(told, tokenizer, 2, 2)
    assert found == babi_encoding.Length(
        questions=2, sentences=4, cut_stories=1, cut_sentences=1, words=14, cut_texts=4, cut_words=5
    )
    assert "4 sentences, 25.0 % of them too old to be read, of 1 stories; of 14 words" in str(found)
    assert found.is_cut and not babi_encoding.measure_length(told, tokenizer, 3, 4).is_cut


def test_a_learned_vocabulary_comes_back_and_holds_every_word_once(tmp_path):
    learned = babi_encoding.learn_words(
        [question("Ann, is out.", "Ann is out"), question("Out?", answer="n,w")]
    )
    assert sorted(learned.vocabulary) == ["ann", "ann,", "bob", "is", "n,w", "out", "where"]
    learned.save(tmp_path / "words")
    again = Babi(stories=[]).load_tokenizer(tmp_path / "words")
    assert again.encode(["WHERE is bob?"])[0].numpy().tolist() == (
        learned.encode(["where is bob"])[0].numpy().tolist()
    )


# Batches.


def rows(count, columns, first):
    numbers = np.arange(first, first + count, dtype=np.int32)
    return {"words": np.tile(numbers[:, None], columns)}, {"answer": numbers}


def test_an_epoch_takes_rows_once_and_is_a_function_of_seed_and_number():
    groups = [rows(11, 3, 1), rows(7, 5, 100)]
    batches = RowBatches(groups, batch_size=3, seed=1)
    assert batches.batches_per_epoch(0) == 3 + 2
    assert batches.shapes() == [((3, 3),), ((3, 5),)]
    epochs = [
        [(inputs["words"].numpy(), labels["answer"].numpy()) for inputs, labels in batches.epoch(n)]
        for n in (0, 0, 1)
    ]
    first, same, other = (np.concatenate([answer for _, answer in epoch]) for epoch in epochs)
    assert len(set(first.tolist())) == len(first) == 15
    assert first.tolist() == same.tolist() != other.tolist()
    for ids, answer in epochs[0]:
        assert (ids == answer[:, None]).all()  # inputs and labels stay together
    later = [labels["answer"].numpy().tolist() for _, labels in batches.epoch(1, start=3)]
    assert later == [answer.tolist() for _, answer in epochs[2]][3:]


def test_rows_that_fill_no_batch_are_trained_on_and_measured_with_empty_rows():
    groups = [rows(2, 3, 1), rows(0, 5, 1)]
    for is_training in (True, False):
        batches = RowBatches(groups, batch_size=5, is_training=is_training)
        ((_, labels),) = batches.epoch(0)
        assert sorted(labels["answer"].numpy().tolist()) == [0, 0, 0, 1, 2]
    with pytest.raises(ValueError, match="expects at least one row"):
        RowBatches(groups[1:], batch_size=5)


# What is minimized.


def as_data(*batch):
    return tf.data.Dataset.from_tensors(tf.nest.map_structure(tf.constant, batch))


def test_questions_are_counted_and_an_unknown_answer_is_never_right():
    draw = np.random.default_rng(1)
    logits = draw.normal(size=(5, 7)).astype("float32")
    logits[3, 1] = 9.0  # says the unknown word
    logits[2, 5] = 9.0
    answer = np.array([2, 0, 5, 1, 6], np.int32)
    inputs = {"logits": keras.Input([7], name="logits")}
    model = keras.Model(inputs, {**inputs, "weights": 2 * inputs["logits"]})
    asked = [0, 2, 3, 4]
    weights = np.isin(np.arange(5), asked).astype("float32")
    data = as_data({"logits": logits}, {"logits": answer}, weights)
    numbers = evaluate(model, data, Babi(stories=[]).make_loss(), make_metrics())
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    loss = -sum(logs[n, answer[n]] for n in asked) / 4
    assert numbers["loss"] == pytest.approx(loss, rel=1e-5)
    assert numbers["crossentropy"] == pytest.approx(loss, rel=1e-5)
    wrong = sum(logits[n].argmax() != answer[n] for n in (0, 2, 4)) + 1
    assert numbers["error"] == wrong / 4


def test_each_matrix_is_clipped_by_itself_on_the_summed_cost():
    steep, flat = keras.Variable(np.zeros(2)), keras.Variable(np.zeros((1, 3)))
    descent = SummedCostDescent(0.1, batch_size=4, largest_norm=10.0)
    descent.apply([tf.constant([30.0, 40.0]), tf.constant([[0.0, 0.5, 0.0]])], [steep, flat])
    np.testing.assert_allclose(steep, [-0.6, -0.8], rtol=1e-6)  # 0.1 of the norm 10
    np.testing.assert_allclose(flat, [[0.0, -0.2, 0.0]], rtol=1e-6)  # summed, not clipped


def test_rows_that_an_embedding_lists_twice_are_summed_before_they_are_clipped():
    table = keras.Variable(np.zeros((3, 2)))
    twice = tf.IndexedSlices(
        tf.constant([[1.5, 2.0], [1.5, 2.0]]), tf.constant([1, 1]), tf.constant([3, 2])
    )
    SummedCostDescent(0.1, batch_size=4, largest_norm=10.0).apply([twice], [table])
    np.testing.assert_allclose(table, [[0, 0], [-0.6, -0.8], [0, 0]], rtol=1e-6)


# The linear start.


@pytest.fixture
def reader():
    layer = MemoryHops(vocabulary_size=11, units=3, num_hops=1, linear_start=True)
    layer(np.ones((1, 2, 3), "int32"), np.ones((1, 3), "int32"))
    return layer


@pytest.fixture
def start(reader, tmp_path):
    """Makes the callback, as it is after some epochs and a resumption, and a model for it."""

    def make(choices=(), rate=None, **options):
        history = History(tmp_path / "history.csv")
        history.restore([{"val_choice": choice} for choice in choices])
        options = {"halve_every": 2, "patience": 2, "linear_epochs": 9, **options}
        callback = LinearStart(tmp_path, reader, 0.08, **options)
        model = keras.Sequential([keras.layers.Dense(1)])
        model.compile(keras.optimizers.SGD(rate or 0.08 * (0.5 if reader.is_linear() else 1.0)))
        callback.set_model(model)
        return callback

    return make


def follow(start, choices, first=0):
    """The rate and whether the layer is linear after each epoch."""
    found = []
    for epoch, choice in enumerate(choices, first):
        start.on_epoch_begin(epoch)
        start.on_epoch_end(epoch, {"val_choice": choice})
        rate = float(start.model.optimizer.learning_rate)
        found.append((pytest.approx(rate), start.reader.is_linear()))
    return found


CHOICES = [2.9, 2.91, 2.8, 2.85, 2.81, 0.9, 0.8, 0.7, 0.6, 0.5]


def test_the_softmax_comes_back_when_nothing_improves_and_the_rate_halves_from_then_on(start):
    found = follow(start(), CHOICES)
    assert found[:4] == [(0.04, True)] * 4
    assert found[4:] == [(0.08, False)] * 2 + [(0.04, False)] * 2 + [(0.02, False)] * 2


@pytest.mark.parametrize("done", range(1, 10))
def test_a_resumed_start_goes_on_as_if_it_had_not_been_stopped(start, reader, done):
    found = follow(start(), CHOICES)
    rate, linear = found[done - 1]
    reader.set_linear(linear)  # as the backup has it, with the optimizer's rate
    resumed = start(CHOICES[: done + 1], rate=rate.expected)  # a row is newer than the backup
    assert follow(resumed, CHOICES[done:], done) == [(rate.expected, x) for rate, x in found[done:]]


def test_the_softmax_comes_back_at_the_latest_after_the_linear_epochs(start):
    found = follow(start(linear_epochs=3), [2.9, 2.8, 2.7, 0.6])
    assert [linear for _, linear in found] == [True, True, False, False]


def test_without_a_linear_start_the_full_rate_halves_at_once(start, reader):
    reader.set_linear(False)
    found = follow(start(), [0.5] * 4)
    assert [rate for rate, _ in found] == [0.08, 0.04, 0.04, 0.02]


def test_the_choice_is_the_error_then_the_loss_and_never_a_linear_model():
    set_seed(1)
    model = memory_network.build(11, 3, 50, True, units=5, num_hops=1, empty_memory_rate=0.0)
    reader = model.get_layer("reader")
    inputs = {"story": np.full((2, 3, 3), 4), "question": np.full((2, 3), 5)}

    def choose(answers):
        data = as_data(inputs, {"logits": answers}, np.ones(2, "float32"))
        return evaluate(model, data, Babi(stories=[]).make_loss(), [Choice(reader)])["choice"]

    answers = model.predict_on_batch(inputs)["logits"].argmax(axis=1)
    assert choose(answers) > 2.0  # although no answer is wrong
    reader.set_linear(False)
    answers = model.predict_on_batch(inputs)["logits"].argmax(axis=1)
    for labels, error in ((answers, 0.0), ((answers + 1) % 7 + 4, 1.0)):
        found = choose(labels)
        assert error < found < error + 0.5  # the loss counts less than one of the two questions

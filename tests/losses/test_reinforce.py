"""REINFORCE: the estimator is exact on average, the baseline moves, padding stays out."""

import keras
import numpy as np
import pytest
from seeds import set_seed
from tf_or_skip import tf

from keras_attention import BahdanauDecoder, HardAttention, LuongDecoder, ReinforceLoss

B, T, V = 3, 5, 7
MASK = np.arange(T) < np.array([[5], [2], [0]])


def _random(*shape):
    return np.random.RandomState(sum(shape)).randn(*shape)


LOGITS, LOG_ALPHA, ENTROPY = _random(B, T, V), -np.exp(_random(B, T)), np.exp(_random(B, T, 1))
ENTROPY = ENTROPY[:, :, 0]
TARGETS = np.random.RandomState(1).randint(0, V, (B, T))


def _log_probs():
    shifted = LOGITS - LOGITS.max(-1, keepdims=True)
    log_probs = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return np.take_along_axis(log_probs, TARGETS[:, :, None], axis=-1)[:, :, 0]


@pytest.mark.parametrize("baseline", [0.0, -3.0, 17.0])
def test_averaged_over_the_draws_the_gradient_is_exact(baseline):
    """SPEC 7.2: three locations, one step, the estimator averaged by hand."""
    set_seed(1)
    locations, width = 3, 4
    attention = HardAttention(5, expected_rate=0.0, dtype="float64")
    readout = keras.layers.Dense(V, dtype="float64")
    loss = ReinforceLoss(loss_weight=1.0, entropy_weight=0.0, dtype="float64")
    query, value = tf.constant(_random(1, 1, 2)), tf.constant(_random(1, locations, width))
    targets = np.array([[3]])
    attention.build(query.shape, value.shape)
    readout.build((1, 1, width))
    loss.build((1, 1, V))
    variables = [w.value for w in attention.trainable_variables + readout.trainable_variables]

    def log_prob(context):
        return tf.nn.log_softmax(readout(context), axis=-1)[0, 0, 3]

    def exact():
        """-sum_s alpha_s log p(y | s), the gate included."""
        memory = attention.prepare(value)
        alpha = tf.nn.softmax(attention.scorer.score(query, memory["key"])[0, 0])
        contexts = [attention.apply_gate(query, value[:, s : s + 1]) for s in range(locations)]
        return -sum(alpha[s] * log_prob(contexts[s]) for s in range(locations)), alpha

    def estimate(place):
        noise = {"normalizer": 1e6 * tf.one_hot([[place]], locations, dtype="float64")}
        context, weights, auxiliary_outputs = attention.attend(
            query,
            attention.prepare(value),
            noise=noise,
            training=True,
            return_auxiliary_outputs=True,
        )
        assert np.array(weights)[0, 0, place] == 1
        logits = loss(readout(context), targets, **auxiliary_outputs, training=True)
        return -tf.nn.log_softmax(logits, axis=-1)[0, 0, 3] + loss.losses[0]

    def gradients(function, *arguments):
        with tf.GradientTape() as tape:
            cost = function(*arguments)
            cost = cost[0] if isinstance(cost, tuple) else cost
        found = tape.gradient(cost, variables, unconnected_gradients="zero")
        return [np.array(gradient) for gradient in found]

    expected, alpha = gradients(exact), np.array(exact()[1])
    average = [np.zeros_like(gradient) for gradient in expected]
    for place in range(locations):
        loss.baseline.assign(baseline)
        found = gradients(estimate, place)
        average = [a + alpha[place] * g for a, g in zip(average, found, strict=True)]
    for one, other in zip(average, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6 * max(1, abs(baseline)))
    assert all(np.abs(gradient).max() > 1e-3 for gradient in expected)


def test_the_baseline_of_the_worked_numbers():
    loss = ReinforceLoss()
    for reward, baseline in ((-10, -1.0), (-8, -1.7), (-9, -2.43)):
        logits = np.log([[[np.exp(reward), 1 - np.exp(reward)]]])
        loss(
            logits,
            np.array([[0]]),
            log_alpha=np.zeros((1, 1)),
            entropy=np.zeros((1, 1)),
            training=True,
        )
        np.testing.assert_allclose(float(loss.baseline), baseline, rtol=1e-5)


@pytest.mark.parametrize("reward", ["sum", "mean"])
@pytest.mark.parametrize("junk", [0.0, np.nan, np.inf])
def test_the_loss_is_what_the_paper_writes_and_padding_is_nowhere(reward, junk):
    loss = ReinforceLoss(0.3, 0.05, reward=reward, dtype="float64")
    loss.build((B, T, V))
    loss.baseline.assign(-2.0)
    rewards, costs = [], []
    for row in (0, 1):  # the third has no real step
        steps = MASK[row].sum()
        log_p = _log_probs()[row, :steps].sum() / (steps if reward == "mean" else 1)
        rewards.append(log_p)
        costs.append(
            -0.3 * (log_p + 2.0) * LOG_ALPHA[row, :steps].sum() - 0.05 * ENTROPY[row, :steps].sum()
        )
    log_alpha, entropy = (tf.constant(np.where(MASK, x, junk)) for x in (LOG_ALPHA, ENTROPY))
    logits = tf.constant(np.where(MASK[:, :, None], LOGITS, junk))
    targets = np.where(MASK, TARGETS, -1)
    with tf.GradientTape() as tape:
        tape.watch([logits, log_alpha, entropy])
        loss(logits, targets, log_alpha, entropy, mask=MASK, training=True)
        (cost,) = loss.losses
    np.testing.assert_allclose(float(cost), np.mean(costs), rtol=1e-12)
    np.testing.assert_allclose(float(loss.baseline), 0.9 * -2.0 + 0.1 * np.mean(rewards))
    to_logits, to_log_alpha, to_entropy = tape.gradient(cost, [logits, log_alpha, entropy])
    assert to_logits is None, "the reward passes no gradient on"
    steps = np.where(MASK, -0.3 * (np.array([*rewards, 0.0]) + 2.0)[:, None] / 2, 0)
    np.testing.assert_allclose(np.array(to_log_alpha), steps, rtol=1e-12)
    np.testing.assert_allclose(np.array(to_entropy), np.where(MASK, -0.05 / 2, 0), rtol=1e-12)


@pytest.mark.parametrize("reward", ["sum", "mean"])
def test_no_mask_is_the_mask_of_all(reward):
    found = []
    for mask in (None, np.ones((B, T), bool), np.ones((1, T), bool), np.ones((B, 1), bool)):
        loss = ReinforceLoss(reward=reward)
        loss(LOGITS, TARGETS, LOG_ALPHA, ENTROPY, mask=mask, training=True)
        found.append([float(loss.losses[0]), float(loss.baseline)])
    np.testing.assert_allclose(found, [found[0]] * 4, rtol=1e-6)


def test_a_better_sample_than_usual_gets_likelier():
    """The sign: a published reimplementation has it wrong."""
    loss = ReinforceLoss(entropy_weight=0.0)
    loss.build((1, 1, 2))
    for baseline, sign in ((-5.0, -1), (0.0, 1)):  # the reward is log 1/2
        loss.baseline.assign(baseline)
        log_alpha = tf.constant([[-1.0]])
        with tf.GradientTape() as tape:
            tape.watch(log_alpha)
            loss(np.zeros((1, 1, 2)), np.array([[1]]), log_alpha, np.zeros((1, 1)), training=True)
            cost = loss.losses[0]
        assert np.sign(float(tape.gradient(cost, log_alpha)[0, 0])) == sign


def test_outside_of_training_nothing_is_added_or_updated():
    loss = ReinforceLoss()
    loss(LOGITS, TARGETS, LOG_ALPHA, ENTROPY)
    assert loss.losses == [] and float(loss.baseline) == 0


def test_a_batch_of_padding_leaves_the_baseline_alone():
    loss = ReinforceLoss()
    loss.build((B, T, V))
    loss.baseline.assign(-2.0)
    loss(LOGITS, TARGETS, LOG_ALPHA, ENTROPY, mask=np.zeros((B, T), "bool"), training=True)
    assert float(loss.baseline) == -2.0 and float(loss.losses[0]) == 0


@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "float16"])
def test_logits_pass_unchanged(policy):
    loss = ReinforceLoss(dtype=policy)
    logits = tf.constant(LOGITS, "float32")
    passed = loss(logits, TARGETS, LOG_ALPHA, ENTROPY, training=True)
    assert passed.dtype == "float32" and np.array_equal(np.array(passed), np.array(logits))
    assert loss.baseline.dtype == "float32" and loss.losses[0].dtype == "float32"


def test_bad_input_is_named():
    loss = ReinforceLoss()
    with pytest.raises(ValueError, match="`logits` of rank 3"):
        loss(LOGITS[:, 0], TARGETS, LOG_ALPHA, ENTROPY)
    with pytest.raises(ValueError, match="`logits` and `targets`.*axis 1.*targets.shape=.3, 4"):
        loss(LOGITS, TARGETS[:, :4], LOG_ALPHA, ENTROPY)
    with pytest.raises(ValueError, match="`mask` to be boolean"):
        loss(LOGITS, TARGETS, LOG_ALPHA, ENTROPY, mask=MASK.astype("float32"))
    with pytest.raises(ValueError, match="`reward` to be one of 'sum', 'mean'"):
        ReinforceLoss(reward="bleu")


SOURCE, COLORS, START, END = 5, 3, 2, 3


def _data(rows, seed=0):
    """One of five locations is flagged; the answer is its color."""
    random = np.random.RandomState(seed)
    flagged = random.randint(0, SOURCE, rows)
    colors = random.randint(0, COLORS, (rows, SOURCE))
    memory = np.concatenate(
        [np.eye(COLORS)[colors], np.eye(SOURCE)[flagged][:, :, None]], axis=-1
    ).astype("float32")
    answers = 4 + colors[np.arange(rows), flagged]
    labels = np.stack([answers, np.full(rows, END)], axis=1)
    inputs = np.stack([np.full(rows, START), answers], axis=1)
    return {"memory": memory, "inputs": inputs, "targets": labels}, labels, flagged


def _captioner(make, **options):
    set_seed(2)
    symbols = {
        "memory": keras.Input((None, COLORS + 1), name="memory"),
        "inputs": keras.Input((None,), dtype="int32", name="inputs"),
        "targets": keras.Input((None,), dtype="int32", name="targets"),
    }
    attention = HardAttention(8, expected_rate=0.0, vector_initializer="zeros", seed=1)
    decoder = make(attention)
    logits, auxiliary_outputs = decoder(
        symbols["inputs"], symbols["memory"], return_auxiliary_outputs=True
    )
    mask = keras.ops.not_equal(symbols["targets"], 0)
    logits = ReinforceLoss(**options)(logits, symbols["targets"], **auxiliary_outputs, mask=mask)
    model = keras.Model(symbols, logits)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    model.compile(keras.optimizers.Adam(0.02), loss, jit_compile=True)
    return model, decoder


DECODERS = {
    "bahdanau": lambda attention: BahdanauDecoder(V, 4, 16, attention=attention),
    "luong": lambda attention: LuongDecoder(V, 4, 16, attention=attention, input_feeding=False),
}


@pytest.mark.parametrize(
    ("make", "loss_weight", "found"),
    [
        pytest.param("bahdanau", 0.5, True, marks=pytest.mark.thorough),
        pytest.param("luong", 0.5, True, marks=pytest.mark.slow),
        pytest.param("luong", 0.0, False, marks=pytest.mark.slow),
    ],
)
def test_reinforce_finds_where_the_answer_is(make, loss_weight, found):
    model, decoder = _captioner(DECODERS[make], loss_weight=loss_weight, entropy_weight=0.01)
    data, labels, _ = _data(64 * 120)
    model.fit(data, labels, batch_size=64, epochs=1, verbose=0)
    data, labels, flagged = _data(200, seed=1)
    _, alignment = decoder(data["inputs"], data["memory"], return_attention_scores=True)
    looked = np.array(alignment)[:, 0].argmax(-1)
    hits = np.mean(looked == flagged)
    assert hits > 0.95 if found else hits < 0.6

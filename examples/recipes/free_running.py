"""Perplexity of references while a model runs freely, as it does where it translates.

    perplexity = e^(-mean of log p(y_t | source, w_1 .. w_{t-1}))
    w_t = the most probable token after w_1 .. w_{t-1}, never padding or the start

y: the reference with its EOS token, w: what greedy decoding writes, past an EOS token of its own
too. The mean is over all tokens y_t. Teacher forcing has y_1 .. y_{t-1} in the place of w.
"""

import keras
import numpy as np
import tensorflow as tf

from examples.data.batches import Batches
from keras_attention.decoders import (
    CopyNetDecoder,
    PointerGeneratorDecoder,
    get_decoder_start_id,
    start_decoder,
)
from keras_attention.export.tokenizers.base import EOS_ID, PADDING_ID
from keras_attention.search import SpecialIds, score_sequences


def free_running_perplexity(model: keras.Model, target, batches: Batches) -> float:
    """Returns the perplexity of references with the model's own most probable tokens fed.

    Args:
        model: A translator.
        target: The tokenizer of its target.
        batches: The `Batches` of sources and references.
    """
    longest = max(steps for _, _, steps in batches.shapes())
    encoder, decoder = model.get_layer("encoder"), model.get_layer("decoder")
    start_id = get_decoder_start_id(decoder)
    num_ids = target.vocabulary_size + getattr(decoder, "num_copied_words", 0)

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32)] * 2, autograph=False)
    def score(ids, references):
        known, copied = ids, {}
        if isinstance(decoder, (PointerGeneratorDecoder, CopyNetDecoder)):
            known, copied = decoder.replace_copied_ids(ids), {"copy_ids": ids}
        encoded = encoder(known, training=False)
        memory = decoder.prepare(encoded["memory"], memory_mask=ids != PADDING_ID, **copied)
        state = start_decoder(decoder, memory, encoded.get("initial_state"), longest)
        found = score_sequences(
            _make_free_running_step(decoder.step, start_id, num_ids),
            {"decoder": state, "ids": tf.fill(tf.shape(ids)[:1], start_id)},
            memory,
            references,
            return_alignments=False,
            special_ids=SpecialIds(start_id=start_id),
        )
        return tf.reduce_sum(found["token_log_probs"]), tf.reduce_sum(found["lengths"])

    sums = [score(inputs["source"], labels) for inputs, labels, _ in batches.evaluation()]
    log_prob, count = (sum(map(float, side)) for side in zip(*sums, strict=True))
    return float(np.exp(np.float64(-log_prob / count)))


def _make_free_running_step(step, start_id, num_ids):
    """A step that reads the most probable token of the last one, whatever ids it is given."""

    def free_running_step(_, state, memory):
        logits, decoder, alignment = step(state["ids"], state["decoder"], memory)
        in_vocabulary = tf.range(tf.shape(logits)[1]) < num_ids
        logits = tf.where(in_vocabulary, logits, -1e9)
        never_fed = list({PADDING_ID, start_id} - {EOS_ID})
        is_never_fed = tf.reduce_any(tf.range(tf.shape(logits)[1])[:, None] == never_fed, axis=1)
        words = tf.where(is_never_fed, -1e9, logits)
        ids = tf.argmax(words, axis=-1, output_type=tf.int32)
        return logits, {"decoder": decoder, "ids": ids}, alignment

    return free_running_step

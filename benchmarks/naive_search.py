"""The least that a search with our Transformer can be on TensorFlow, the peer of our searches.

One loop, caches, a top-k, gathers: no masks, no options, no positions past the end, no end of a
hypothesis. It has the weights of our model, follows the same hypotheses, encoder included, and
returns their log-probabilities alone: it keeps no earlier tokens, which ours does.
"""

import numpy as np
import tensorflow as tf

from benchmarks.decode import END_ID


def normalize(x, layer):
    """Returns `x` normalized as a `LayerNormalization` does."""
    x = x - tf.reduce_mean(x, -1, keepdims=True)
    x *= tf.math.rsqrt(tf.reduce_mean(x * x, -1, keepdims=True) + layer.epsilon)
    return x * layer.gamma + layer.beta


def make_search(model, batch, beam, length):
    """Returns `search(source_ids)`, which gives log-probabilities `(batch, beam)`, best first."""
    encoder, decoder = model.get_layer("encoder"), model.get_layer("decoder")
    layers, heads, width = decoder.stack, decoder.num_heads, decoder.dim
    dim, rows, table = width // heads, batch * beam, decoder.embed.table.embeddings
    rates = 10000.0 ** (-np.arange(0, width, 2) / width)
    angles = np.arange(length)[:, None] * rates
    positions = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(length, width)
    positions = tf.constant(positions, tf.float32)
    forbidden = tf.constant(np.where(np.arange(table.shape[0]) == END_ID, -1e9, 0), tf.float32)
    never = tf.constant([[i in (0, 2, END_ID) for i in range(table.shape[0])]])

    def step(ids, index, caches, sources):
        x = tf.gather(table, ids) * width**0.5 + positions[index]
        caches = list(caches)
        for number, (layer, (source_keys, source_values)) in enumerate(
            zip(layers, sources, strict=True)
        ):
            own, cross = layer.self_attention, layer.cross_attention
            query, key, value = (
                tf.reshape(tf.matmul(x, dense.kernel), (rows, heads, dim))
                for dense in (own.query_dense, own.key_dense, own.value_dense)
            )
            for place, new in ((2 * number, key), (2 * number + 1, value)):
                caches[place] = tf.tensor_scatter_nd_update(caches[place], [[index]], new[None])
            keys, values = caches[2 * number : 2 * number + 2]
            scores = tf.einsum("nhd,tnhd->nht", query, keys) * dim**-0.5
            weights = tf.nn.softmax(tf.where(tf.range(length) <= index, scores, -1e9))
            context = tf.reshape(tf.einsum("nht,tnhd->nhd", weights, values), (rows, width))
            x = normalize(
                x + tf.matmul(context, own.output_dense.kernel), layer.self_attention_normalization
            )
            query = tf.reshape(tf.matmul(x, cross.query_dense.kernel), (batch, beam, heads, dim))
            scores = tf.einsum("bkhd,bhsd->bhks", query, source_keys) * dim**-0.5
            context = tf.einsum("bhks,bhsd->bkhd", tf.nn.softmax(scores), source_values)
            context = tf.matmul(tf.reshape(context, (rows, width)), cross.output_dense.kernel)
            x = normalize(x + context, layer.cross_attention_normalization)
            inner, outer = layer.intermediate_dense, layer.feed_forward_output_dense
            inner = tf.nn.relu(tf.matmul(x, inner.kernel) + inner.bias)
            outer = tf.matmul(inner, outer.kernel) + outer.bias
            x = normalize(x + outer, layer.feed_forward_normalization)
        return tf.matmul(x, table, transpose_b=True) + forbidden, caches

    def body(index, ids, totals, *caches):
        logits, caches = step(ids, index, caches, body.sources)
        log_sum = tf.reduce_logsumexp(logits, -1, keepdims=True)
        logits = tf.where(never, -2e9, logits)
        if beam == 1:
            ids = tf.argmax(logits, -1, output_type=tf.int32)
            totals += tf.reduce_max(logits, -1, keepdims=True) - log_sum
            return index + 1, ids, totals, *caches
        values, best = tf.math.top_k(logits, beam)
        values = tf.reshape(values - log_sum, (batch, beam, beam)) + totals[:, :, None]
        totals, chosen = tf.math.top_k(tf.reshape(values, (batch, beam * beam)), beam)
        ids = tf.gather(tf.reshape(best, (batch, beam * beam)), chosen, batch_dims=1)
        parents = tf.reshape(chosen // beam + tf.range(batch)[:, None] * beam, (rows,))
        caches = [tf.gather(cache, parents, axis=1) for cache in caches]
        return index + 1, tf.reshape(ids, (rows,)), totals, *caches

    def search(source_ids):
        memory = encoder(source_ids, training=False)["memory"]
        prepared = decoder.prepare(memory)["layers"]
        body.sources = [(layer["key"], layer["value"]) for layer in prepared]
        totals = tf.tile(tf.constant([[0.0] + [-1e9] * (beam - 1)]), (batch, 1))
        caches = [tf.zeros((length, rows, heads, dim)) for _ in range(2 * len(layers))]
        start = (0, tf.fill([rows], 2), totals, *caches)
        return tf.while_loop(lambda index, *_: index < length, body, start)[2]

    return search

"""The least that a Transformer decoder's search can be on JAX, the peer of our search.

One loop, caches, a top-k, gathers: no encoder, no masks, no options, no positions past the end. It
works on random weights of the same sizes as the model of the decode benchmark.
"""

import jax
import jax.numpy as jnp

HEADS = 4


def make_weights(width, layers, vocabulary, dtype):
    """Returns a tree of random weights."""
    keys = iter(jax.random.split(jax.random.key(1), 8 * layers + 3))

    def draw(*shape):
        return (jax.random.normal(next(keys), shape) * 0.05).astype(dtype)

    shapes = {
        "qkv": (width, 3 * width),
        "output": (width, width),
        "cross_query": (width, width),
        "cross_source": (width, 2 * width),
        "cross_output": (width, width),
        "expand": (width, 4 * width),
        "reduce": (4 * width, width),
    }
    blocks = [{name: draw(*shape) for name, shape in shapes.items()} for _ in range(layers)]
    tables = draw(vocabulary, width), draw(256, width), draw(width, vocabulary)
    return {"layers": blocks, "tables": tables}


def normalize(x):
    """Returns the layer normalization without parameters, computed in float32."""
    y = x.astype("float32")
    y = y - y.mean(-1, keepdims=True)
    return (y * jax.lax.rsqrt(jnp.mean(y * y, -1, keepdims=True) + 1e-6)).astype(x.dtype)


def decode(weights, memory, beam, length):
    """Returns log-probabilities `(batch, beam)` and ids `(batch, beam, length)`."""
    (batch, source, width), dim = memory.shape, memory.shape[-1] // HEADS
    rows, layers = batch * beam, weights["layers"]
    embedding, positions, output = weights["tables"]
    cross = []
    for layer in layers:
        pair = (memory @ layer["cross_source"]).reshape(batch, source, 2, HEADS, dim)
        cross.append([pair[:, :, 0], pair[:, :, 1]])

    def step(ids, index, caches):
        x, new = embedding[ids] + positions[index], []
        for layer, (keys, values), (source_keys, source_values) in zip(
            layers, caches, cross, strict=True
        ):
            query, key, value = jnp.split(normalize(x) @ layer["qkv"], 3, -1)
            query, key, value = (y.reshape(rows, HEADS, dim) for y in (query, key, value))
            keys, values = keys.at[index].set(key), values.at[index].set(value)
            new.append((keys, values))
            scores = jnp.einsum("nhd,tnhd->nht", query, keys).astype("float32") * dim**-0.5
            scores = jnp.where(jnp.arange(length) <= index, scores, -1e9)
            shares = jax.nn.softmax(scores).astype(x.dtype)
            x += jnp.einsum("nht,tnhd->nhd", shares, values).reshape(rows, width) @ layer["output"]
            query = (normalize(x) @ layer["cross_query"]).reshape(batch, beam, HEADS, dim)
            scores = jnp.einsum("bkhd,bshd->bhks", query, source_keys).astype("float32")
            shares = jax.nn.softmax(scores * dim**-0.5).astype(x.dtype)
            context = jnp.einsum("bhks,bshd->bkhd", shares, source_values)
            x += context.reshape(rows, width) @ layer["cross_output"]
            x += jax.nn.relu(normalize(x) @ layer["expand"]) @ layer["reduce"]
        return (normalize(x) @ output).astype("float32"), new

    def body(index, state):
        ids, found, totals, caches = state
        logits, caches = step(ids, index, caches)
        if beam == 1:
            ids = jnp.argmax(logits, -1).astype("int32")
            best = jnp.max(logits, -1) - jax.nn.logsumexp(logits, -1)
            return ids, found.at[:, 0, index].set(ids), totals + best[:, None], caches
        values, best = jax.lax.top_k(logits, beam)
        values = values - jax.nn.logsumexp(logits, -1, keepdims=True)
        values = values.reshape(batch, beam, beam) + totals[:, :, None]
        totals, chosen = jax.lax.top_k(values.reshape(batch, beam * beam), beam)
        parents = chosen // beam
        ids = jnp.take_along_axis(best.reshape(batch, beam * beam), chosen, 1).astype("int32")
        found = jnp.take_along_axis(found, parents[..., None], 1).at[:, :, index].set(ids)
        flat = (parents + jnp.arange(batch)[:, None] * beam).ravel()
        caches = [tuple(cache[:, flat] for cache in pair) for pair in caches]
        return ids.ravel(), found, totals, caches

    empty = jnp.zeros((length, rows, HEADS, dim), memory.dtype)
    totals = jnp.tile(jnp.array([[0.0] + [-1e9] * (beam - 1)]), (batch, 1))
    start = (
        jnp.zeros(rows, "int32"),
        jnp.zeros((batch, beam, length), "int32"),
        totals,
        [(empty, empty) for _ in layers],
    )
    _, found, totals, _ = jax.lax.fori_loop(0, length, body, start)
    return totals, found

"""The encoder of Li et al. 2019 (https://arxiv.org/abs/1910.02612).

p_j = E_p x_j + noise                               the primitive embedding: a value
f_j = E_f x_j + noise                               the functional embedding
k_j = [forward_j; backward_j] of two LSTMs on f     a key
memory = [k; p],  initial_state = the last states of both LSTMs side by side

Noise is drawn while training only. It and the penalty on the embeddings limit how much each of
them can tell: the paper's entropy regularization.
"""

import keras


def build(
    vocabulary_size,
    units,
    embedding_dim,
    value_dim,
    noise=1.0,
    l2=0.0,
    penalty="positions",
    seed=None,
    dtype=None,
):
    """Returns the encoder: source ids to `memory` and `initial_state`.

    Args:
        vocabulary_size: Number of source ids; 0 is padding and masked.
        units: Size of a key, even: each direction has half of it.
        embedding_dim: Size of the functional embedding.
        value_dim: Size of the primitive embedding.
        noise: Standard deviation of the Gaussian noise.
        l2: Factor of the penalty.
        penalty: `"positions"`, the mean square of each embedding, summed over the positions of a
            source, padding included: frequent words are drawn to 0 more than rare ones.
            `"words"`, the sum of the squares of both tables: every word alike.
        seed: Optional int, the seed of the noise.
        dtype: Optional dtype policy.

    Returns:
        A functional model from `(batch, source)` ids to a dict of `memory`
        `(batch, source, units + value_dim)`, whose last entries are the values, and
        `initial_state`, the list of h and c, each `(batch, units)`.

    Raises:
        ValueError: If `units` is odd.
    """
    if units % 2:
        raise ValueError(
            "The encoder with two embeddings expects `units` to be even: each direction has half "
            f"of them. Received: units={units}"
        )
    source = keras.Input([None], dtype="int32", name="source")

    def penalties(size):
        if not l2:
            return {}
        if penalty == "words":
            return {"embeddings_regularizer": keras.regularizers.L2(l2)}
        # Keras divides the sum over a batch by its sources.
        return {"activity_regularizer": keras.regularizers.L2(l2 / size)}

    def embed(name, size, index):
        embedded = keras.layers.Embedding(
            vocabulary_size,
            size,
            embeddings_initializer=keras.initializers.RandomUniform(-1.0, 1.0),
            **penalties(size),
            mask_zero=True,
            dtype=dtype,
            name=f"{name}_embedding",
        )(source)
        noise_seed = None if seed is None else seed + index
        return keras.layers.GaussianNoise(
            noise, seed=noise_seed, dtype=dtype, name=f"{name}_noise"
        )(embedded)

    values = embed("primitive", value_dim, 0)
    # Not keras.layers.LSTM: on a GPU it takes cuDNN, which XLA cannot compile.
    directions = keras.layers.RNN(
        keras.layers.LSTMCell(units // 2, dtype=dtype),
        return_sequences=True,
        return_state=True,
        dtype=dtype,
    )
    keys, *last = keras.layers.Bidirectional(directions, dtype=dtype, name="keys")(
        embed("functional", embedding_dim, 1)
    )
    join = keras.layers.Concatenate
    initial_state = [
        join(dtype=dtype, name=f"initial_{name}")([last[place], last[place + 2]])
        for place, name in enumerate("hc")
    ]
    memory = join(dtype=dtype, name="memory")([keys, values])
    return keras.Model(source, {"memory": memory, "initial_state": initial_state}, name="encoder")

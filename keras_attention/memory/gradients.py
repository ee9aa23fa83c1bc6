"""The gradients of addressing and writing, for the backward loop of `sequence`.

Here a memory has its slots last, `(batch, slot_dim, slots)`; `sequence` says why. The functions
take the gradient of what the forward step computed (`given`) and return those of what it was
given. Whatever does not depend on `given` is computed for all steps at once, by `addressed`, and
handed in as `now`, the part of one step.
"""

from keras import ops

from keras_attention.memory.addressing import (
    LOG_EPSILON,
    circular_shift,
    interpolate,
    wrapped,
)
from keras_attention.scorers.cosine import inverse_norms


def addressed(parameters, shares, similarity, memory_scale, previous):
    """Returns what `addressing_gradient` needs, for as many rows as there are.

    Args:
        parameters: Dict, see `Heads.parameters`.
        shares: The share of every whole shift, `(rows, heads, shifts)`.
        similarity: `(rows, heads, slots)`, what `similarities` returned.
        memory_scale: `(rows, slots)`, 1 over the length of every slot.
        previous: `(rows, heads, slots)`, the weights of the step before.
    """
    strength, gate, key = parameters["strength"], parameters["gate"], parameters["key"]
    content = ops.softmax(strength * similarity)
    gated = interpolate(content, previous, gate[:, :, 0])
    shifted = circular_shift(gated, shares) + LOG_EPSILON
    key_scale = inverse_norms(key)[:, :, None]
    return {
        "logarithm": ops.log(shifted),
        "power": parameters["sharpening"] / shifted,
        "around": wrapped(gated, shares.shape[-1] // 2),
        "shares": shares,
        "back": ops.flip(shares, -1),
        "gate": gate,
        "content": content,
        "moved": content - previous,
        "similarity": similarity,
        "strength": strength,
        "scale": strength * key_scale,
        "key": key,
        "key_pull": strength * key * key_scale * key_scale,
        "memory_scale": memory_scale[:, None, :],
        "memory_pull": ops.square(memory_scale)[:, None, :],
    }


def addressing_gradient(given, now, memory, weights):
    """Returns the gradients of the parameters, of the memory and of the previous weights.

    Args:
        given: Gradient of the weights `(batch, heads, slots)`.
        now: Dict, what `addressed` returned.
        memory: `(batch, slot_dim, slots)`, what was addressed.
        weights: The weights that were returned.
    """
    of_power = weights * (given - _sum(weights * given))
    of_shifted = of_power * now["power"]
    of_gated = circular_shift(of_shifted, now["back"])
    of_scores = now["content"] * (of_gated - _sum(of_gated * now["content"])) * now["gate"]
    turned = of_scores * now["similarity"]
    of_products = of_scores * now["scale"] * now["memory_scale"]
    of_strength = _sum(turned)
    gradients = {
        "key": over_slots(of_products, memory) - now["key_pull"] * of_strength,
        "strength": of_strength,
        "gate": _sum(of_gated * now["moved"]),
        "sharpening": _sum(of_power * now["logarithm"]),
        "shares": _shares_gradient(of_shifted, now["around"], now["shares"].shape[-1]),
    }
    pull = now["memory_pull"] * ops.sum(turned * now["strength"], axis=1, keepdims=True)
    # A product of matrices: XLA would compute sums of `columns` anew in every element.
    of_memory = ops.einsum("bhn,bhd->bdn", of_products, now["key"]) - memory * pull
    return gradients, of_memory, of_gated * (1.0 - now["gate"])


def _shares_gradient(given, around, count):
    slots = given.shape[-1]
    parts = [
        _sum(given * around[:, :, count - 1 - index : count - 1 - index + slots])
        for index in range(count)
    ]
    return ops.concatenate(parts, axis=-1)


def access_gradient(given, memory, now, of_reads, read_from):
    """Returns the gradients of the memory before a step, and of what wrote to it and read it.

        M' = M prod_h (1 - w_h e_h) + sum_h w_h a_h        r_i = v_i . (M' or M)

    Args:
        given: Gradient of the written memory but for the reads, `(batch, slot_dim, slots)`.
        memory: The memory before.
        now: Dict of `writing` (w) `(batch, heads, slots)`, `erase` and `addition` (e, a)
            `(batch, heads, slot_dim)`, and `reading` (v) `(batch, readers, slots)`.
        of_reads: Gradient of the reads `(batch, readers, slot_dim)`.
        read_from: "written" or "previous".

    Returns:
        The gradients of memory, reading, writing, erase and addition.
    """
    writing, erase, heads = now["writing"], now["erase"], range(now["writing"].shape[1])
    factors = [1.0 - columns(writing, erase, head) for head in heads]
    # What each head erases from: the memory after all others have erased.
    rests = [_times(memory, factors[:head] + factors[head + 1 :]) for head in heads]
    of_writes = _write_gradient(given, rests, now)
    seen = sum(columns(now["reading"], of_reads, head) for head in range(of_reads.shape[1]))
    if read_from == "previous":
        return _times(given, factors) + seen, over_dim(of_reads, memory), *of_writes
    of_reading, *through_reads = _read_gradient(of_reads, rests, now)
    of_writes = [one + other for one, other in zip(of_writes, through_reads, strict=True)]
    return _times(given + seen, factors), of_reading, *of_writes


def _write_gradient(given, rests, now):
    """Returns the gradients of writing, erase and addition."""
    of_writing, of_erase = [], []
    for head, rest in enumerate(rests):
        product = given * rest
        of_writing.append(-over_dim(now["erase"][:, head, None], product))
        of_erase.append(-over_slots(now["writing"][:, head, None], product))
    of_writing = over_dim(now["addition"], given) + ops.concatenate(of_writing, axis=1)
    return of_writing, ops.concatenate(of_erase, axis=1), over_slots(now["writing"], given)


def _read_gradient(of_reads, rests, now):
    """Returns the gradients of reading, writing, erase and addition from what was read.

    The reads give the written memory the gradient `sum_i v_i of_reads_i`. It has the rank of the
    read heads: products with it are products of vectors, so it need not be made.
    """
    reading, of_reading = now["reading"], over_dim(of_reads, rests[0])
    of_writing, of_erase, of_addition = [], [], []
    for head, rest in enumerate(rests):
        weights, erase, addition = (
            now[name][:, head, None] for name in ("writing", "erase", "addition")
        )
        added = ops.sum(of_reads * addition, axis=-1, keepdims=True)
        change = added - over_dim(of_reads * erase, rest)
        of_reading = of_reading + weights * (added if head else change)
        met = reading * weights
        of_writing.append(ops.sum(reading * change, axis=1, keepdims=True))
        of_erase.append(-ops.sum(of_reads * over_slots(met, rest), axis=1, keepdims=True))
        of_addition.append(ops.sum(of_reads * _sum(met), axis=1, keepdims=True))
    parts = (of_writing, of_erase, of_addition)
    return of_reading, *(ops.concatenate(part, axis=1) for part in parts)


def _times(tensor, factors):
    for factor in factors:
        tensor = tensor * factor
    return tensor


def over_dim(vectors, memory):
    """Returns the product of every vector and every slot, `(batch, heads, slots)`."""
    return ops.einsum("bhd,bdn->bhn", vectors, memory)


def over_slots(weights, memory):
    """Returns what every head of `weights` reads, `(batch, heads, slot_dim)`.

    A head at a time: for a product of two matrices XLA would turn the memory, and a sum of
    elements costs it five times as much.
    """
    heads = range(weights.shape[1])
    reads = [ops.einsum("bn,bdn->bd", weights[:, head], memory) for head in heads]
    return ops.stack(reads, axis=1)


def columns(weights, vectors, head):
    """Returns the product of a head's vector and its weight at every slot, slots last."""
    return weights[:, head, None, :] * vectors[:, head, :, None]


def _sum(tensor):
    """Returns the sum over the last axis; as a product, which XLA does several times faster."""
    ones = ops.ones((tensor.shape[-1], 1), dtype=tensor.dtype)
    return ops.matmul(tensor, ones)

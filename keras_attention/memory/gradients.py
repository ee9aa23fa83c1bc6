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
        "gated": gated,
        "shares": shares,
        "kept": 1.0 - gate,
        "content": content,
        "gated_content": gate * content,
        "moved": content - previous,
        "similarity": similarity,
        "along": strength * similarity,
        "scale": strength * key_scale * memory_scale[:, None, :],
        "key": key,
        "key_pull": key * key_scale * key_scale,
        "memory_pull": memory_scale * memory_scale,
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
    of_gated = circular_shift(of_shifted, ops.flip(now["shares"], -1))
    of_content = of_gated * now["gated_content"]
    of_scores = of_content - now["content"] * _sum(of_content)
    along = of_scores * now["along"]
    of_products = of_scores * now["scale"]
    gradients = {
        "key": ops.einsum("bhn,bdn->bhd", of_products, memory) - now["key_pull"] * _sum(along),
        "strength": _sum(of_scores * now["similarity"]),
        "gate": _sum(of_gated * now["moved"]),
        "sharpening": _sum(of_power * now["logarithm"]),
        "shares": _shares_gradient(of_shifted, now["gated"], now["shares"].shape[-1]),
    }
    pull = now["memory_pull"] * ops.sum(along, axis=1)
    of_memory = ops.einsum("bhn,bhd->bdn", of_products, now["key"]) - memory * pull[:, None, :]
    return gradients, of_memory, of_gated * now["kept"]


def _shares_gradient(given, weights, count):
    slots = weights.shape[-1]
    around = wrapped(weights, count // 2)
    parts = [
        _sum(given * around[:, :, count - 1 - index : count - 1 - index + slots])
        for index in range(count)
    ]
    return ops.concatenate(parts, axis=-1)


def write_gradient(given, memory, weights, erase, addition):
    """Returns the gradients of the memory before, of weights, erase and addition.

    Args:
        given: Gradient of the written memory `(batch, slot_dim, slots)`.
        memory: The memory before.
        weights: `(batch, heads, slots)`.
        erase: `(batch, heads, slot_dim)`.
        addition: `(batch, heads, slot_dim)`.
    """
    heads = range(weights.shape[1])
    factors = [1.0 - columns(weights, erase, head) for head in heads]
    of_weights, of_erase, of_addition = [], [], []
    for head in heads:
        erased = given * memory
        for other in heads:
            if other != head:
                erased = erased * factors[other]
        at_slots = weights[:, head, None, :]
        change = given * addition[:, head, :, None] - erased * erase[:, head, :, None]
        of_weights.append(ops.sum(change, axis=1))
        of_erase.append(-ops.sum(erased * at_slots, axis=2))
        of_addition.append(ops.sum(given * at_slots, axis=2))
    for factor in factors:
        given = given * factor
    stacked = [ops.stack(parts, axis=1) for parts in (of_weights, of_erase, of_addition)]
    return given, *stacked


def columns(weights, vectors, head):
    """Returns the product of a head's vector and its weight at every slot, slots last."""
    return weights[:, head, None, :] * vectors[:, head, :, None]


def _sum(tensor):
    return ops.sum(tensor, axis=-1, keepdims=True)

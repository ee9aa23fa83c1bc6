"""Gradients of NTM addressing and writing, for the backward loop of `ntm_sequence`.

Here a memory has its slots on the last axis, `(batch, word_size, memory_size)`, for the reason in
`ntm_sequence`. The functions take the gradient of a forward result (`cotangent`) and return those
of its inputs; `of_x` is the gradient of x. `compute_addressing_residuals` computes what does not
depend on `cotangent` for all steps at once; a step gets its slice as `residuals`.
"""

from collections.abc import Mapping

from keras import ops

from keras_attention._utils.tensor_types import Tensor, TensorLike
from keras_attention.ntm.addressing import LOG_EPSILON, circular_shift, interpolate, wrap_around
from keras_attention.scorers.cosine import inverse_norms


def compute_addressing_residuals(
    parameters: Mapping[str, TensorLike],
    shift_weights: TensorLike,
    similarity: TensorLike,
    memory_scale: TensorLike,
    previous: TensorLike,
) -> dict[str, Tensor]:
    """Returns what `addressing_gradient` needs that does not depend on the cotangent.

    Args:
        parameters: Dict, the result of `HeadLayout.parameters`.
        shift_weights: The weight of every integer shift, `(rows, heads, shifts)`.
        similarity: `(rows, heads, memory_size)`, the result of `similarities`.
        memory_scale: `(rows, memory_size)`, 1 over the length of every slot.
        previous: `(rows, heads, memory_size)`, the weights of the previous step.
    """
    strength, gate, key = parameters["strength"], parameters["gate"], parameters["key"]
    content = ops.softmax(strength * similarity)
    gated = interpolate(content, previous, gate[:, :, 0])
    shifted = circular_shift(gated, shift_weights) + LOG_EPSILON
    key_scale = inverse_norms(key)[:, :, None]
    return {
        "log_shifted": ops.log(shifted),
        "power_slope": parameters["sharpening"] / shifted,
        "padded_gated": wrap_around(gated, shift_weights.shape[-1] // 2),
        "shift_weights": shift_weights,
        "reversed_shift_weights": ops.flip(shift_weights, -1),
        "gate": gate,
        "content": content,
        "content_minus_previous": content - previous,
        "similarity": similarity,
        "strength": strength,
        "scale": strength * key_scale,
        "key": key,
        "key_pull": strength * key * key_scale * key_scale,
        "memory_scale": memory_scale[:, None, :],
        "memory_pull": ops.square(memory_scale)[:, None, :],
    }


def addressing_gradient(
    cotangent: TensorLike,
    residuals: Mapping[str, TensorLike],
    memory: TensorLike,
    weights: TensorLike,
) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """Returns the gradients of the parameters, of the memory and of the previous weights.

    Args:
        cotangent: Gradient of the weights `(batch, heads, memory_size)`.
        residuals: Dict, the result of `compute_addressing_residuals`.
        memory: `(batch, word_size, memory_size)`, the addressed memory.
        weights: The weights that addressing returned.
    """
    of_power = weights * (cotangent - _sum(weights * cotangent))
    of_shifted = of_power * residuals["power_slope"]
    of_gated = circular_shift(of_shifted, residuals["reversed_shift_weights"])
    of_scores = (
        residuals["content"]
        * (of_gated - _sum(of_gated * residuals["content"]))
        * residuals["gate"]
    )
    similarity_terms = of_scores * residuals["similarity"]
    of_products = of_scores * residuals["scale"] * residuals["memory_scale"]
    of_strength = _sum(similarity_terms)
    gradients = {
        "key": read_slots(of_products, memory) - residuals["key_pull"] * of_strength,
        "strength": of_strength,
        "gate": _sum(of_gated * residuals["content_minus_previous"]),
        "sharpening": _sum(of_power * residuals["log_shifted"]),
        "shift_weights": _shift_weights_gradient(
            of_shifted, residuals["padded_gated"], residuals["shift_weights"].shape[-1]
        ),
    }
    pull = residuals["memory_pull"] * ops.sum(
        similarity_terms * residuals["strength"], axis=1, keepdims=True
    )
    # A matrix product: XLA would recompute the sums of `outer_product_slots_last` in every
    # element.
    of_memory = ops.einsum("bhn,bhd->bdn", of_products, residuals["key"]) - memory * pull
    return gradients, of_memory, of_gated * (1.0 - residuals["gate"])


def _shift_weights_gradient(cotangent, padded_gated, count):
    memory_size = cotangent.shape[-1]
    parts = [
        _sum(cotangent * padded_gated[:, :, start : start + memory_size])
        for start in range(count - 1, -1, -1)
    ]
    return ops.concatenate(parts, axis=-1)


def access_gradient(
    cotangent: TensorLike,
    memory: TensorLike,
    residuals: Mapping[str, TensorLike],
    of_reads: TensorLike,
    read_from: str,
) -> tuple[Tensor, ...]:
    """Returns the gradients of the memory before a step, and of the heads' writes and reads.

        M' = M prod_h (1 - w_h e_h) + sum_h w_h a_h        r_i = v_i . (M' or M)

    Args:
        cotangent: Gradient of the written memory, without that of the reads, `(batch, word_size,
            memory_size)`.
        memory: The memory before the step.
        residuals: Dict of `writing` (w) `(batch, heads, memory_size)`, `erase` and `addition` (e,
            a) `(batch, heads, word_size)`, and `reading` (v) `(batch, readers, memory_size)`.
        of_reads: Gradient of the reads `(batch, readers, word_size)`.
        read_from: "written" or "previous".

    Returns:
        The gradients of memory, reading, writing, erase and addition.
    """
    writing, erase = residuals["writing"], residuals["erase"]
    heads = range(writing.shape[1])
    factors = [1.0 - outer_product_slots_last(writing, erase, head) for head in heads]
    # The memory that each head erases: the result after all other heads have erased.
    rests = [_multiply(memory, factors[:head] + factors[head + 1 :]) for head in heads]
    of_writes = _write_gradient(cotangent, rests, residuals)
    reads_gradient = sum(
        outer_product_slots_last(residuals["reading"], of_reads, head)
        for head in range(of_reads.shape[1])
    )
    if read_from == "previous":
        of_memory = _multiply(cotangent, factors) + reads_gradient
        return of_memory, dot_with_slots(of_reads, memory), *of_writes
    of_reading, *through_reads = _read_gradient(of_reads, rests, residuals)
    of_writes = [one + other for one, other in zip(of_writes, through_reads, strict=True)]
    return _multiply(cotangent + reads_gradient, factors), of_reading, *of_writes


def _write_gradient(cotangent, rests, residuals):
    """Returns the gradients of writing, erase and addition."""
    of_writing, of_erase = [], []
    for head, rest in enumerate(rests):
        product = cotangent * rest
        of_writing.append(-dot_with_slots(residuals["erase"][:, head, None], product))
        of_erase.append(-read_slots(residuals["writing"][:, head, None], product))
    of_writing = dot_with_slots(residuals["addition"], cotangent) + ops.concatenate(
        of_writing, axis=1
    )
    return (
        of_writing,
        ops.concatenate(of_erase, axis=1),
        read_slots(residuals["writing"], cotangent),
    )


def _read_gradient(of_reads, rests, residuals):
    """Returns the contributions of the reads to the gradients of all heads.

    The reads contribute `sum_i v_i of_reads_i` to the gradient of the written memory. Its rank is
    the number of read heads, so its products reduce to products of vectors.
    """
    reading, of_reading = residuals["reading"], dot_with_slots(of_reads, rests[0])
    of_writing, of_erase, of_addition = [], [], []
    for head, rest in enumerate(rests):
        weights, erase, addition = (
            residuals[name][:, head, None] for name in ("writing", "erase", "addition")
        )
        added = ops.sum(of_reads * addition, axis=-1, keepdims=True)
        change = added - dot_with_slots(of_reads * erase, rest)
        of_reading = of_reading + weights * (added if head else change)
        reading_times_writing = reading * weights
        of_writing.append(ops.sum(reading * change, axis=1, keepdims=True))
        erased = read_slots(reading_times_writing, rest)
        of_erase.append(-ops.sum(of_reads * erased, axis=1, keepdims=True))
        of_addition.append(ops.sum(of_reads * _sum(reading_times_writing), axis=1, keepdims=True))
    parts = (of_writing, of_erase, of_addition)
    return of_reading, *(ops.concatenate(part, axis=1) for part in parts)


def _multiply(tensor, factors):
    for factor in factors:
        tensor = tensor * factor
    return tensor


def dot_with_slots(vectors: TensorLike, memory: TensorLike) -> Tensor:
    """Returns the dot product of every vector and every slot, `(batch, heads, memory_size)`."""
    return ops.einsum("bhd,bdn->bhn", vectors, memory)


def read_slots(weights: TensorLike, memory: TensorLike) -> Tensor:
    """Returns the read vector of every head of `weights`, `(batch, heads, word_size)`.

    The heads are computed one at a time: for a product of two matrices XLA would transpose the
    memory, and a sum of elements costs it five times as much.
    """
    heads = range(weights.shape[1])
    reads = [ops.einsum("bn,bdn->bd", weights[:, head], memory) for head in heads]
    return ops.stack(reads, axis=1)


def outer_product_slots_last(weights: TensorLike, vectors: TensorLike, head: int) -> Tensor:
    """Returns the outer product of a head's vector and its weights, slots last."""
    return weights[:, head, None, :] * vectors[:, head, :, None]


def _sum(tensor):
    """Returns the sum over the last axis, as a product, which is several times faster in XLA."""
    ones = ops.ones((tensor.shape[-1], 1), dtype=tensor.dtype)
    return ops.matmul(tensor, ones)

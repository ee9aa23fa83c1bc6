"""Room for the keys and values of a decoder that writes one position after another.

A cache is a dict of tensors, so that it can live in a decoder's state: every leaf has rows
first, and beams are reordered by gathering rows. Rows may stand at different positions. What
was not written yet is masked and 0.
"""

from keras import ops

from keras_attention.shapes import reshape


def empty_cache(rows, max_length, sizes, dtype):
    """Returns a cache in which nothing is written.

    Args:
        rows: Int or int tensor, the number of sequences.
        max_length: Int, the number of positions there is room for.
        sizes: Dict of leaf name to `(heads, dim)`.
        dtype: Their dtype.

    Returns:
        A dict of the leaves `(rows, heads, max_length, dim)` and `mask`, boolean
        `(rows, max_length)`, True where something was written.
    """
    cache = {
        name: ops.zeros((rows, heads, max_length, dim), dtype=dtype)
        for name, (heads, dim) in sizes.items()
    }
    return {**cache, "mask": ops.zeros((rows, max_length), dtype="bool")}


def written(cache, new, position):
    """Returns the cache with `new` at `position` and after it.

    One new position is scattered, which a compiled loop does in place; several are chosen with a
    `where` over the whole cache.

    Args:
        cache: A dict, see `empty_cache`.
        new: A dict of the same names: leaves `(rows, heads, new, dim)` and `mask`
            `(rows, new)`.
        position: Int `(rows,)`, where the first new one goes. What falls outside of the
            cache is not written.
    """
    if new["mask"].shape[1] == 1:
        names = [name for name in cache if name != "mask"]
        leaves = {name: _with_one(cache[name], new[name], position) for name in names}
        return {**leaves, "mask": _chosen({"mask": cache["mask"]}, new, position)["mask"]}
    return _chosen(cache, new, position)


def _with_one(old, new, position):
    """Returns the leaf `old` with `new`, `(rows, heads, 1, dim)`, at each row's position."""
    rows, heads, length, dim = ops.shape(old)
    position = ops.cast(position, "int32")
    place = ops.clip(position, 0, length - 1)
    # As one table of vectors, which is read and written without a copy.
    table = reshape(old, (rows * heads * length, dim))
    first = ops.arange(rows * heads, dtype="int32") * length
    indices = first + ops.repeat(place, heads)
    # A position outside of the cache leaves the nearest place as it is.
    kept = ops.take(table, indices, axis=0)
    inside = ops.repeat(position == place, heads)[:, None]
    updates = ops.where(inside, reshape(ops.cast(new, old.dtype), (rows * heads, dim)), kept)
    table = ops.scatter_update(table, indices[:, None], updates)
    return reshape(table, (rows, heads, length, dim))


def _chosen(cache, new, position):
    """Returns the leaves of `cache` with those of `new`, as `written` does."""
    num_new = ops.shape(new["mask"])[1]
    slots = ops.arange(ops.shape(cache["mask"])[1], dtype="int32")[None, :]
    offsets = slots - ops.cast(position, "int32")[:, None]  # (rows, slot), which new one fits
    here = ops.logical_and(offsets >= 0, offsets < num_new)
    source = ops.clip(offsets, 0, num_new - 1)

    def put(old, leaf):
        axis = len(leaf.shape) // 2  # length is axis 2 of 4, or 1 of 2
        lead, tail = [1] * (axis - 1), [1] * (len(leaf.shape) - axis - 1)
        rows, length = ops.shape(source)
        if leaf.shape[axis] != 1:  # one new position broadcasts
            index = reshape(source, (rows, *lead, length, *tail))
            leaf = ops.take_along_axis(leaf, index, axis=axis)
        return ops.where(reshape(here, (rows, *lead, length, *tail)), leaf, old)

    return {name: put(cache[name], new[name]) for name in cache}

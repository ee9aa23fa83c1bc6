"""The four projections and the positions of attention with several heads."""

from keras import ops

from keras_attention._utils.dtypes import at_least_float32
from keras_attention._utils.initializers import derive_initializer
from keras_attention._utils.shapes import apply_to_rows, get_shape
from keras_attention._utils.tensor_types import Tensor, TensorDict, TensorLike
from keras_attention.attention import _heads
from keras_attention.kernels.matmul_precision import Dense


class HeadProjectionsMixin:
    """Projects queries, keys, values and contexts of a layer with the arguments of heads."""

    def build_projections(self, query: int, key: int, value: int) -> None:
        """Makes and builds the projections for queries, keys and values of these widths."""
        heads = self.num_key_value_heads or self.num_heads
        value_dim = self.value_dim or self.key_dim
        sizes = {
            "query": (query, self.num_heads * self.key_dim),
            "key": (key, heads * self.key_dim),
            "value": (value, heads * value_dim),
            "output": (self.num_heads * value_dim, self.output_dim or query),
        }
        for index, (name, (input_dim, units)) in enumerate(sizes.items()):
            dense = Dense(
                units,
                use_bias=self.use_bias,
                kernel_initializer=derive_initializer(self.kernel_initializer, index),
                bias_initializer=derive_initializer(self.bias_initializer, index),
                dtype=self.dtype_policy,
                name=name,
            )
            dense.build((None, input_dim))
            setattr(self, f"{name}_dense", dense)
        dims = {"key_dim": self.key_dim, "value_dim": value_dim}
        embeddings = (self.relative_keys, self.relative_values)
        for embedding, (name, dim) in zip(embeddings, dims.items(), strict=True):
            if embedding is not None:
                embedding.check_width(name, dim)
                embedding.build_table(dim)

    @property
    def uses_distances(self) -> bool:
        """Whether the distance of query and key counts, besides masks."""
        return self.relative_keys is not None or self.relative_values is not None

    def project_query(self, query: TensorLike, positions: TensorLike) -> Tensor:
        """Returns the queries of each head, `(batch, heads, query, key_dim)`."""
        queries = _heads.project_heads(self.query_dense, query, self.num_heads)
        return self._rotate(queries, positions)

    def project_source(
        self,
        value: TensorLike,
        key: TensorLike | None = None,
        value_mask: TensorLike | None = None,
        key_mask: TensorLike | None = None,
        position: TensorLike | None = None,
    ) -> TensorDict:
        """Returns `projected_key`, `value` and `mask`, as `start_cache` describes them."""
        value, key, mask = self._mask_source(value, key, value_mask, key_mask)
        heads = self.num_key_value_heads or self.num_heads
        keys, values = (
            _heads.project_heads(dense, one, heads)
            for dense, one in ((self.key_dense, key), (self.value_dense, value))
        )
        return {"projected_key": self._rotate(keys, position), "value": values, "mask": mask}

    def _rotate(self, tensor, positions):
        if self.rotary is None:
            return tensor
        return ops.cast(self.rotary(tensor, positions), self.compute_dtype)

    def project_contexts(self, contexts: TensorLike) -> Tensor:
        """Returns contexts of heads, `(batch, heads, query, dim)`, joined and projected."""
        return apply_to_rows(self.output_dense, _heads.join_heads(contexts))

    def add_relative_keys(
        self, scores: TensorLike, queries: TensorLike, positions: TensorLike
    ) -> Tensor:
        """Returns the scores `(batch, heads, query, key)` with those of the keys' distances.

        Args:
            queries: The result of `project_query`.
            positions: Int `(1 or batch, query)`, the position of each query.
        """
        if self.relative_keys is None:
            return scores
        queries = self.scorer.query_for_dot(queries)
        relative = self.relative_keys.score(queries, positions, get_shape(scores)[-1])
        scores = at_least_float32(scores)
        return scores + ops.cast(relative, scores.dtype)

    def add_relative_values(
        self, contexts: TensorLike, weights: TensorLike, positions: TensorLike
    ) -> Tensor:
        """Returns the contexts `(batch, heads, query, dim)` with those of the keys' distances."""
        if self.relative_values is None:
            return contexts
        relative = self.relative_values.read(weights, positions)
        return contexts + ops.cast(relative, contexts.dtype)

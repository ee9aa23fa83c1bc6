"""The four projections of attention with several heads."""

from keras_attention._utils.initializers import derive_initializer
from keras_attention._utils.tensor_types import Tensor, TensorDict, TensorLike
from keras_attention.attention import _heads
from keras_attention.kernels.products import Dense


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

    def project_query(self, query: TensorLike, positions: TensorLike) -> Tensor:
        """Returns the queries of each head, `(batch, heads, query, key_dim)`."""
        queries = _heads.project_heads(self.query_dense, query, self.num_heads)
        return queries if self.rotary is None else self.rotary(queries, positions)

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
        if self.rotary is not None:
            keys = self.rotary(keys, position)
        return {"projected_key": keys, "value": values, "mask": mask}

    def project_contexts(self, contexts: TensorLike) -> Tensor:
        """Returns contexts of heads, `(batch, heads, query, dim)`, joined and projected."""
        return _heads.project_positions(self.output_dense, _heads.join_heads(contexts))

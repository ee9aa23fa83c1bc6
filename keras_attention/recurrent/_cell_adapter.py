"""Adapter between the recurrent layers and any Keras cell."""

import contextlib
import inspect

import keras
from keras import ops


class CellAdapter:
    """Calls a Keras cell, a stack of cells, or a cell with a projection outside the loop.

    If a cell has `project(inputs, first=0)` and `update(projected, states)` besides `call` (see
    `BahdanauGRUCell`), its input is projected outside the loop.

    Args:
        owner: The layer's name in errors.
        cell: A cell, its config, or a list of cells to stack.
    """

    def __init__(self, owner, cell):
        self.owner = owner
        if isinstance(cell, (list, tuple)):
            cells = [self._deserialize(one) for one in cell]
            if len({id(one) for one in cells}) < len(cells):
                raise ValueError(
                    f"{owner} expects different cells to stack. Create each one separately, as in "
                    f"`[keras.layers.GRUCell(64) for _ in range(2)]`. Received: cell={cell!r}"
                )
            policy = getattr(cells[0], "dtype_policy", None) if cells else None
            cell = keras.layers.StackedRNNCells(cells, dtype=policy) if cells else None
        cell = self._deserialize(cell)
        if not callable(getattr(cell, "call", None)) or not hasattr(cell, "state_size"):
            raise ValueError(
                f"{owner} expects `cell` to be a Keras cell such as `keras.layers.GRUCell(64)`, or "
                f"a non-empty list of cells. Received: cell={cell!r}"
            )
        self.cell = cell
        self.has_projection = hasattr(cell, "project") and hasattr(cell, "update")
        parameters = inspect.signature(cell.call).parameters
        self.takes_training = "training" in parameters

    @staticmethod
    def _deserialize(cell):
        if isinstance(cell, dict):
            return keras.saving.deserialize_keras_object(cell)
        return cell

    @property
    def cells(self):
        """The cells from bottom to top."""
        return list(self.cell.cells) if self._is_stack else [self.cell]

    @property
    def config(self):
        """The serialized cell: a config, or the list of configs of a stack."""
        configs = [keras.saving.serialize_keras_object(cell) for cell in self.cells]
        return configs if self._is_stack else configs[0]

    @property
    def state_size(self):
        """The sizes of the state, as a list (of lists, for a stack)."""
        size = self.cell.state_size
        if self._is_stack:
            return [list(one) if keras.tree.is_nested(one) else [one] for one in size]
        return list(size) if keras.tree.is_nested(size) else [size]

    @property
    def output_dim(self):
        """The size of the top cell's output, the first tensor of its state."""
        return keras.tree.flatten(self.cells[-1].state_size)[0]

    def build(self, input_shape):
        if not self.cell.built:
            self.cell.build(input_shape)

    def project(self, inputs):
        """Returns the input of the loop: projected inputs if the cell supports it."""
        return self.cell.project(inputs) if self.has_projection else inputs

    def step(self, inputs, feedback, state, training=None, is_projected=True):
        """Returns output and state of one step; `feedback` is concatenated to the inputs.

        Outside of a loop, `is_projected` False, one product projects both.
        """
        if self.has_projection and is_projected:
            if feedback is not None:
                first = self.cell.kernel.shape[0] - feedback.shape[-1]
                inputs = inputs + self.cell.project(feedback, first=first)
            output, new_state = self.cell.update(inputs, state)
        else:
            if feedback is not None:
                inputs = ops.concatenate([inputs, ops.cast(feedback, inputs.dtype)], axis=-1)
            if self.has_projection:
                output, new_state = self.cell.update(self.cell.project(inputs), state)
            else:
                options = {"training": training} if self.takes_training else {}
                output, new_state = self._call_nonempty(inputs, state, options)
        if not keras.tree.is_nested(new_state):
            new_state = [new_state]
        # A loop carries the state, so its structure and dtypes must not change.
        flat = [
            ops.cast(new, old.dtype)
            for new, old in zip(
                keras.tree.flatten(new_state), keras.tree.flatten(state), strict=True
            )
        ]
        return output, keras.tree.pack_sequence_as(state, flat)

    def _call_nonempty(self, inputs, state, options):
        """Calls the cell; an empty batch is replaced by one element, which is cut off again.

        Keras' `ops.add` mistakes a matrix without rows for a bias, and fails.
        """
        if inputs.shape[0] != 0:
            return self.cell(inputs, state, **options)
        one = keras.tree.map_structure(
            lambda leaf: ops.zeros((1, *leaf.shape[1:]), dtype=leaf.dtype), (inputs, state)
        )
        return keras.tree.map_structure(lambda leaf: leaf[:0], self.cell(*one, **options))

    def get_output(self, state):
        """Returns the top cell's output `(rows, output_dim)` from its state."""
        top = state[-1] if self._is_stack else state
        return keras.tree.flatten(top)[0]

    @property
    def _is_stack(self):
        return isinstance(self.cell, keras.layers.StackedRNNCells)

    def start(self, rows, initial_state=None):
        """Returns the state before the first step, in the compute dtype."""
        dtype = self.cell.compute_dtype
        if initial_state is None:
            return keras.tree.map_structure(
                lambda size: ops.zeros((rows, size), dtype=dtype), self.state_size
            )
        self.check_state(initial_state)
        flat = [ops.cast(leaf, dtype) for leaf in keras.tree.flatten(initial_state)]
        return keras.tree.pack_sequence_as(self.state_size, flat)

    def check_state(self, initial_state, owner=None):
        """Raises `ValueError` unless `initial_state` has the structure of the cell's state."""
        if initial_state is None:
            return
        received = [tuple(leaf.shape) for leaf in keras.tree.flatten(initial_state)]
        expected = [(None, size) for size in keras.tree.flatten(self.state_size)]
        fits = len(received) == len(expected) and all(
            len(got) == 2 and got[1] in (size, None)
            for got, (_, size) in zip(received, expected, strict=False)
        )
        if not fits:
            shapes = ", ".join(f"(batch, {size})" for _, size in expected)
            raise ValueError(
                f"{owner or self.owner} expects `initial_state` of {len(expected)} tensor(s) "
                f"of shape {shapes}, as its cell does. Received: shapes={received}"
            )

    def check_dropout(self, way_out):
        """Raises if a cell would sample a dropout mask inside a loop.

        `keras.layers.RNN` samples masks beforehand only for its own cells. A mask sampled inside
        its loop would outlive the loop.
        """
        for cell in self.cells:
            for name in ("dropout", "recurrent_dropout"):
                rate, mask = getattr(cell, name, 0), getattr(cell, f"_{name}_mask", None)
                if rate and mask is None:
                    raise ValueError(
                        f"{self.owner} cannot apply the dropout of its cell in `keras.layers.RNN`. "
                        f"{way_out}, or apply dropout before and after the layer. "
                        f"Received: cell.{name}={rate}"
                    )

    def offer_dropout_masks(self, wrapper, select_inputs=lambda inputs: inputs):
        """Lets `AttentionRNN` sample the masks of the cell before its loop, if it has any.

        Args:
            wrapper: The cell around this one, which gets the methods of Keras' cells.
            select_inputs: Callable from the inputs of the wrapper to those of the cell.
        """
        cell = self.cell
        if hasattr(cell, "get_dropout_mask"):
            wrapper.get_dropout_mask = lambda inputs: cell.get_dropout_mask(select_inputs(inputs))
            wrapper.get_recurrent_dropout_mask = cell.get_recurrent_dropout_mask
            wrapper.reset_dropout_mask = cell.reset_dropout_mask
            wrapper.reset_recurrent_dropout_mask = cell.reset_recurrent_dropout_mask

    @contextlib.contextmanager
    def dropout_masks(self, rows, input_dim, training):
        """Context manager: samples the dropout masks of Keras' cells, and drops them on exit."""
        cells = [cell for cell in self.cells if hasattr(cell, "get_dropout_mask")]
        if not training or not cells:
            yield
            return
        width = input_dim
        rows = max(rows, 1) if isinstance(rows, int) else rows  # as `_call_nonempty` does
        for cell in self.cells:
            if cell in cells:
                state_dim = keras.tree.flatten(cell.state_size)[0]
                cell.get_dropout_mask(ops.ones((rows, width), dtype=cell.compute_dtype))
                cell.get_recurrent_dropout_mask(
                    ops.ones((rows, state_dim), dtype=cell.compute_dtype)
                )
            width = keras.tree.flatten(cell.state_size)[0]
        try:
            yield
        finally:
            for cell in cells:
                cell.reset_dropout_mask()
                cell.reset_recurrent_dropout_mask()

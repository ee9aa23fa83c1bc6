"""A search in parts, for tokens that are needed before the search has ended."""

import inspect
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import keras
from keras import ops

from keras_attention._utils.shapes import get_shape, reshape
from keras_attention._utils.tensor_types import Step, Structure, Tensor, TensorLike
from keras_attention.search._argument_tensors import get_static_value
from keras_attention.search._beam_loop import BeamLoop
from keras_attention.search.beam import beam_search
from keras_attention.search.beam_options import BeamOptions
from keras_attention.search.constraints import Constraints
from keras_attention.search.greedy import _make_greedy_loop, greedy_search
from keras_attention.search.penalties import LengthPenalty
from keras_attention.search.sampling import _make_sample_loop, sample_search
from keras_attention.search.shallow_fusion import ShallowFusion

#: Any argument of a search.
SearchArgument: TypeAlias = (
    int | TensorLike | LengthPenalty | Constraints | BeamOptions | ShallowFusion | None
)
#: The loop of each search.
LOOPS = {
    beam_search: BeamLoop,
    greedy_search: _make_greedy_loop,
    sample_search: _make_sample_loop,
}


class ResumableSearch:
    """A search that you run a few steps at a time, to show tokens as they become certain.

    `start` takes the first step, `advance` some more, and `finish` returns what the search itself
    would have returned. In between, `find_certain` returns the tokens that no later step can
    change. All parts run the code of the search.

    A state is a named tuple of tensors `(batch, ...)`. Its field `active`, boolean `(batch,)`,
    is True for batch elements whose search goes on; `time`, int32 `(batch,)`, is the number of
    steps, the same for all. The other fields are not documented. A state may leave a compiled
    function and enter another one, which creates its own `ResumableSearch` with the same arguments:
    only the structure of `state` counts there.

    Args:
        search: `greedy_search`, `beam_search` or `sample_search`.
        step, state, memory: As the search takes them.
        **options: The other arguments of the search.

    Raises:
        TypeError: If the search has no such argument, or one is missing.
        ValueError: If `search` is another function, or an argument is out of range.

    Example:

    >>> import keras
    >>> from keras_attention.search import ResumableSearch, greedy_search
    >>> def step(ids, state, memory):  # counts up: 4, 5, 6, then the end
    ...     following = keras.ops.where(ids == 2, 4, keras.ops.where(ids == 6, 3, ids + 1))
    ...     return keras.ops.one_hot(following, 7) * 9.0, state, keras.ops.zeros((len(ids), 1))
    >>> search = ResumableSearch(greedy_search, step, {}, keras.ops.zeros((1, 1)), max_length=6)
    >>> state = search.start()
    >>> while keras.ops.any(state.active):
    ...     certain = search.find_certain(state)
    ...     print(keras.ops.convert_to_numpy(certain["ids"])[0, : int(certain["lengths"][0])])
    ...     state = search.advance(state)
    [4]
    [4 5]
    [4 5 6]
    >>> keras.ops.convert_to_numpy(search.finish(state)["ids"]).tolist()
    [[4, 5, 6, 3, 0, 0]]
    """

    def __init__(
        self,
        search: Callable,
        step: Step,
        state: Structure,
        memory: Structure,
        **options: SearchArgument,
    ) -> None:
        if search not in LOOPS:
            raise ValueError(
                "ResumableSearch expects `search` to be `greedy_search`, `beam_search` or "
                f"`sample_search`. Received: search={search!r}"
            )
        arguments = inspect.signature(search).bind(step, state, memory, **options)
        arguments.apply_defaults()
        self._loop = LOOPS[search](*arguments.args, **arguments.kwargs)

    def start(self) -> NamedTuple:
        """Returns the state after the first step."""
        loop_state, _ = self._loop.start()
        return self._put_batch_first(loop_state)

    def advance(self, state: NamedTuple, num_steps: int | TensorLike = 1) -> NamedTuple:
        """Returns the state after more steps; they end early where no batch element is active.

        Args:
            state: The result of `start` or `advance`.
            num_steps: The number of steps, an int or an int32 scalar.
        """
        return self._put_batch_first(self._loop.advance(self._unpack(state), num_steps))

    def find_certain(self, state: NamedTuple) -> dict[str, Tensor]:
        """Returns the tokens that the best result begins with, whatever the next steps find.

        A token of greedy search or sampling is certain once it is chosen. One of a beam search is
        certain once the best finished hypothesis and all live ones that may still precede it
        share it. The tokens of a batch element that is not active are all certain. Only where a
        beam search ends without any hypothesis, which takes constraints or a step that forbid
        every token, its result has no tokens although some had seemed certain.

        Args:
            state: The result of `start` or `advance`.

        Returns:
            Dict of tensors: `ids` int32 `(batch, max_length)`, padding after the certain ones;
            `lengths` int32 `(batch,)`, their number, EOS included; and, unless the search has
            `return_alignments=False`, `alignments` float32 `(batch, max_length, source)`.
        """
        return self._loop.find_certain(self._unpack(state))

    def finish(self, state: NamedTuple) -> dict[str, Tensor]:
        """Returns the result of the search.

        Args:
            state: The result of `start` or `advance`, without active elements.

        Raises:
            ValueError: If an element is active. A compiled function cannot raise; there its
                unfinished hypotheses are missing.
        """
        active = get_static_value(state.active)
        if active is not None and active.any():
            raise ValueError(
                "ResumableSearch expects a search that has ended. Call `advance` until no element "
                f"of `state.active` is True. Received: active={active.tolist()}"
            )
        return self._loop.finish(self._unpack(state))

    def _put_batch_first(self, loop_state):
        """Returns a state of tensors `(batch, ...)`."""
        batch, beam_width = get_shape(loop_state.active)[0], self._loop.beam_width

        def convert(name, value):
            if name in self._loop.time_major:
                return keras.tree.map_structure(_swap_first_axes, value)
            if name in self._loop.flat_beams:
                return keras.tree.map_structure(
                    lambda leaf: reshape(leaf, (batch, beam_width, *get_shape(leaf)[1:])), value
                )
            return ops.broadcast_to(value, (batch,)) if name == "time" else value

        return self._convert(loop_state, convert)

    def _unpack(self, state):
        """Returns the loop state of a state of tensors `(batch, ...)`."""
        beam_width = self._loop.beam_width

        def convert(name, value):
            if name in self._loop.time_major:
                return keras.tree.map_structure(_swap_first_axes, value)
            if name in self._loop.flat_beams:
                return keras.tree.map_structure(_flatten_first_axes, value)
            return ops.max(value, initial=0) if name == "time" else value

        def _flatten_first_axes(leaf):
            batch, _, *sizes = get_shape(leaf)
            return reshape(leaf, (batch * beam_width, *sizes))

        return self._convert(state, convert)

    def _convert(self, state, convert):
        fields = zip(self._loop.state_type._fields, state, strict=True)
        return self._loop.state_type(*(convert(name, value) for name, value in fields))


def _swap_first_axes(tensor):
    return ops.swapaxes(tensor, 0, 1)

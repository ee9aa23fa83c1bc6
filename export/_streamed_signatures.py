"""Signatures that run a search in parts, so that a host can show text as it becomes certain.

For each of `STREAMED` there are three signatures:

    <name>_start    text                  -> text, active, state_00, state_01, ...
    <name>_advance  steps, state_00, ...  -> text, active, state_00, ...
    <name>_finish   state_00, ...         -> the outputs of the signature <name>

`text` is what is certain so far. The state has all that a search needs between two calls: its
hypotheses, the caches of the decoder and the memory. Dimension 0 of every tensor is the batch.
"""

import tensorflow as tf

from keras_attention.export._tf_functions import (
    MAX_CHUNK_SIZE,
    make_signature,
    make_source_mask,
)
from keras_attention.export.tokenizers.base import UNKNOWN_TEXT
from keras_attention.search import ResumableSearch

TEXT = tf.TensorSpec([None], tf.string, name="text")
STEPS = tf.TensorSpec([None], tf.int32, name="steps")
STATE = "state_{:02d}"
#: The signatures that are streamed.
STREAMED = ("serving_default", "greedy")


class StreamedSignature:
    """One signature in parts.

    Args:
        signatures: The `TranslatorSignatures`.
        name: One of `STREAMED`.

    Attributes:
        functions: Dict of the `tf.function`s `start`, `advance` and `finish`.
    """

    def __init__(self, signatures, name):
        self._signatures, self._pipeline = signatures, signatures.pipeline
        self._name = name
        self._structures = {}  # set while `start` is traced
        start = make_signature(self._start, TEXT)
        with tf.init_scope():
            found = start.get_concrete_function().structured_outputs
        state = [
            tf.TensorSpec([None, *tensor.shape[1:]], tensor.dtype, name=key)
            for key, tensor in sorted(found.items())
            if key not in ("active", "text")
        ]
        self.functions = {
            "start": start,
            "advance": make_signature(self._advance, STEPS, *state),
            "finish": make_signature(self._finish, *state),
        }

    def _start(self, text):
        message = f"a streamed search takes at most {MAX_CHUNK_SIZE} texts"
        check = tf.debugging.assert_less_equal(tf.size(text), MAX_CHUNK_SIZE, message=message)
        with tf.control_dependencies([check]):
            text = tf.identity(text)
        ids, length = self._pipeline.tokenize_source(text)
        decoder_state, memory = self._pipeline.start_decoding(ids, length)
        carried = {"length": length, "mask": make_source_mask(ids, length)}
        carried |= {"memory": memory, "text": text}
        search = self._open_search(decoder_state, carried)
        self._structures["decoder"] = tf.nest.map_structure(
            tf.TensorSpec.from_tensor, decoder_state
        )
        return self._pack(search, carried | {"search": search.start()})

    def _advance(self, steps, *state):
        carried = self._unpack(state)
        search = self._open_search(self._make_decoder_state(carried), carried)
        num_steps = tf.clip_by_value(tf.reduce_max(steps), 1, self._pipeline.max_length)
        advanced = search.advance(carried["search"], num_steps)
        return self._pack(search, carried | {"search": advanced})

    def _finish(self, *state):
        carried = self._unpack(state)
        search = self._open_search(self._make_decoder_state(carried), carried)
        return self._signatures.format_results(
            self._name, search.finish(carried["search"]), carried["text"]
        )

    def _open_search(self, decoder_state, carried):
        function, arguments = self._signatures.choose_search_function(self._name, carried["mask"])
        inputs = (self._pipeline.step, decoder_state, carried["memory"])
        return ResumableSearch(function, *inputs, **arguments)

    def _make_decoder_state(self, carried):
        """Returns a decoder state; a resumed search uses only its structure."""
        batch = tf.size(carried["length"])
        return tf.nest.map_structure(
            lambda spec: tf.zeros([batch, *(size or 1 for size in spec.shape[1:])], spec.dtype),
            self._structures["decoder"],
        )

    def _pack(self, search, carried):
        """Returns the outputs: the certain text, which elements are active, and the state."""
        certain, is_active = search.find_certain(carried["search"]), carried["search"].active
        found = {"ids": certain["ids"], "alignment": certain.get("alignments")}
        text = self._signatures.decode(found, carried["text"])
        # Hold back trailing U+FFFD: the missing bytes of the character may still follow.
        held_back = tf.strings.regex_replace(text, f"{UNKNOWN_TEXT}+$", "")
        text = tf.where(is_active, held_back, text)
        self._structures["carried"] = _get_specs(carried)
        flat = [_to_served_dtype(tensor) for tensor in tf.nest.flatten(carried)]
        state = {STATE.format(number): tensor for number, tensor in enumerate(flat)}
        return {"text": text, "active": tf.cast(is_active, tf.int32), **state}

    def _unpack(self, state):
        """Returns the argument of `_pack`; fails on states that a server has joined or padded."""
        specs = tf.nest.flatten(self._structures["carried"])
        flat = [
            tf.cast(tensor, spec.dtype) if tensor.dtype != spec.dtype else tensor
            for tensor, spec in zip(state, specs, strict=True)
        ]
        carried = tf.nest.pack_sequence_as(self._structures["carried"], flat)
        time, mask = carried["search"].time, tf.cast(carried["mask"], tf.int32)
        message = "the rows of a streamed search are expected to come from one request"
        checks = [
            tf.debugging.assert_equal(time, tf.reduce_max(time), message=message),
            tf.debugging.assert_equal(tf.reduce_sum(mask, 1), carried["length"], message=message),
        ]
        with tf.control_dependencies(checks):
            return tf.nest.map_structure(tf.identity, carried)


def make_streamed_signatures(signatures) -> dict:
    """Returns the `tf.function`s of the streamed signatures of `TranslatorSignatures`, by name."""
    return {
        f"{name}_{part}": function
        for name in STREAMED
        for part, function in StreamedSignature(signatures, name).functions.items()
    }


def describe_streamed_signatures(functions: dict, descriptions: dict) -> dict:
    """Returns the descriptions of the streamed signatures among `functions`, for the model card.

    Args:
        functions: The `tf.function`s by signature name.
        descriptions: The descriptions of the other signatures.
    """
    found = {}
    for name in STREAMED:
        if f"{name}_start" not in functions:
            continue
        outputs = functions[f"{name}_start"].get_concrete_function().structured_outputs
        state = {key: "state of the search" for key in outputs if key not in ("text", "active")}
        progress = {
            "text": "the text that is certain",
            "active": "1 while the search of the text goes on, then 0",
        }
        found[f"{name}_start"] = {
            "description": f"Begins `{name}`: pass the state to `{name}_advance`.",
            "inputs": {"text": descriptions[name]["inputs"]["text"]},
            "outputs": progress | state,
        }
        found[f"{name}_advance"] = {
            "description": f"Continues `{name}`, for texts of one `{name}_start`.",
            "inputs": {"steps": "tokens to search on, the largest counts; at least 1"} | state,
            "outputs": progress | state,
        }
        found[f"{name}_finish"] = {
            "description": f"Ends `{name}`, once no text is active.",
            "inputs": state,
            "outputs": descriptions[name]["outputs"],
        }
    return found


def _to_served_dtype(tensor):
    """Returns a tensor in one of the dtypes of signatures."""
    if tensor.dtype in (tf.float32, tf.int32, tf.string):
        return tensor
    return tf.cast(tensor, tf.float32 if tensor.dtype.is_floating else tf.int32)


def _get_specs(structure):
    return tf.nest.map_structure(tf.TensorSpec.from_tensor, structure)

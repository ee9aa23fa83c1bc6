"""Streamed predictions: the text of a search as it becomes certain, as server-sent events.

An event is a line `data: JSON` and an empty line (WHATWG HTML, section 9.2). The JSON is one of
three: `{"text": [...]}`, the new text of each row; the response of `:predict`, as the last event;
or `{"error": ...}`, as the last event if the search fails after the first one.

A version has the signatures `<name>_start`, `<name>_advance` and `<name>_finish` for this. The
outputs `state_*` of the first two are inputs of the last two.
"""

from collections.abc import Iterator

import numpy as np

from keras_attention.export.serving._bounded_request_queue import RequestQueue
from keras_attention.export.serving._json_responses import JsonWriter, dump_json
from keras_attention.export.serving.errors import check_deadline, invalid_argument

HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
)
PARTS = ("start", "advance", "finish")


def get_start_signature(loaded, name: str) -> str:
    """Returns `<name>_start`, the name of the signature that begins the stream of a signature.

    Raises:
        ServingError: If the version has no such signature, or does not stream it.
    """
    if name not in loaded.signatures:
        raise invalid_argument(f'Serving signature name: "{name}" not found in signature def')
    if not all(f"{name}_{part}" in loaded.signatures for part in PARTS):
        raise invalid_argument(
            f'Signature "{name}" of this version is not streamed. Ask with :predict, or export a '
            "translator with SearchOptions(stream=True)."
        )
    return f"{name}_start"


def read_steps(document: dict) -> int:
    """Returns the field `steps`: by how many tokens the search advances between two events."""
    steps = document.get("steps", 1)
    if isinstance(steps, bool) or not isinstance(steps, int) or not 0 < steps < 2**31:
        raise invalid_argument(f"'steps' is expected to be a positive int. Received: {steps!r:.99}")
    return steps


def generate_events(
    loaded,
    name: str,
    inputs: dict[str, np.ndarray],
    steps: int,
    writer: JsonWriter,
    request_queue: RequestQueue,
    deadline: float | None,
) -> Iterator[bytes]:
    """Yields the events of a search, b"" after steps without new text.

    Holds a slot of the queue until the search has ended or the generator is closed.

    Args:
        loaded: The `LoadedVersion`.
        name: Name of the signature.
        inputs: The inputs of `<name>_start`.
        steps: The number of tokens by which the search advances between two events.
        writer: Writes the last event.
        request_queue: The `RequestQueue`.
        deadline: Time on `time.monotonic()` after which the client has given up.

    Raises:
        ServingError: If the request fails.
    """
    with request_queue.acquire_slot(deadline):
        outputs = loaded.run(f"{name}_start", inputs, (), deadline)
        sent = [b""] * len(outputs["text"])
        while True:
            texts = outputs["text"].tolist()
            # A row whose text no longer continues what was sent gets nothing now; the last event
            # has its full text.
            pieces = [
                text[len(before) :] if text.startswith(before) else b""
                for text, before in zip(texts, sent, strict=True)
            ]
            sent = texts
            state = {key: array for key, array in outputs.items() if key.startswith("state_")}
            is_active = outputs["active"].any()
            del outputs
            text = [piece.decode("utf-8", "surrogateescape") for piece in pieces]
            yield (make_event(dump_json({"text": text})) if any(pieces) else b"")
            if not is_active:
                break
            check_deadline(deadline, "while the model was run")
            advance_inputs = {"steps": np.full(len(texts), steps, np.int32), **state}
            outputs = loaded.run(f"{name}_advance", advance_inputs, (), deadline)
        answer = loaded.run(f"{name}_finish", state, (), deadline)
        event = make_event(b"".join(writer.write(answer, deadline)))
    yield event


def make_event(data: bytes) -> bytes:
    """Returns the event of a JSON document, which has no line breaks."""
    return b"data: " + data + b"\n\n"

"""The messages of the serving API that both protocols answer with."""

from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2

from keras_attention.export.serving.errors import CODES, ServingError


def status_message(states: dict):
    """Returns the `GetModelStatusResponse` of a `Service.states` answer, newest version first."""
    response = get_model_status_pb2.GetModelStatusResponse()
    for version, (state, note) in sorted(states.items(), reverse=True):
        entry = response.model_version_status.add(version=version)
        entry.state = get_model_status_pb2.ModelVersionStatus.State.Value(state)
        entry.status.SetInParent()
        if isinstance(note, ServingError):
            entry.status.error_code = CODES.index(note.code)
            entry.status.error_message = note.message
        elif note is not None:  # what is done while it loads, and no error
            entry.status.error_message = note
    return response


def signature_message(signatures: dict):
    """Returns the `SignatureDefMap` of signatures by name."""
    message = get_model_metadata_pb2.SignatureDefMap()
    for name, definition in signatures.items():
        message.signature_def[name].CopyFrom(definition)
    return message


def metadata_message(model: str, version: int, signatures: dict):
    """Returns the `GetModelMetadataResponse` with a version's signatures."""
    response = get_model_metadata_pb2.GetModelMetadataResponse()
    response.model_spec.name = model
    response.model_spec.version.value = version
    response.metadata["signature_def"].Pack(signature_message(signatures))
    return response

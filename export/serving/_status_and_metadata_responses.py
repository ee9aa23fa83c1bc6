"""The messages of model status and model metadata, the same for both protocols."""

from tensorflow_serving.apis import get_model_metadata_pb2, get_model_status_pb2

from keras_attention.export.serving.errors import GRPC_CODES, ServingError


def make_status_response(states: dict):
    """Returns the `GetModelStatusResponse` of `ServerCore.states`, latest version first."""
    response = get_model_status_pb2.GetModelStatusResponse()
    for version, (state, note) in sorted(states.items(), reverse=True):
        entry = response.model_version_status.add(version=version)
        entry.state = get_model_status_pb2.ModelVersionStatus.State.Value(state)
        entry.status.SetInParent()
        if isinstance(note, ServingError):
            entry.status.error_code = GRPC_CODES.index(note.code)
            entry.status.error_message = note.message
        elif note is not None:  # the current step of loading, not an error
            entry.status.error_message = note
    return response


def make_signature_map(signatures: dict):
    """Returns the `SignatureDefMap` of signatures by name."""
    message = get_model_metadata_pb2.SignatureDefMap()
    for name, definition in signatures.items():
        message.signature_def[name].CopyFrom(definition)
    return message


def make_metadata_response(model: str, version: int, signatures: dict):
    """Returns the `GetModelMetadataResponse` with a version's signatures."""
    response = get_model_metadata_pb2.GetModelMetadataResponse()
    response.model_spec.name = model
    response.model_spec.version.value = version
    response.metadata["signature_def"].Pack(make_signature_map(signatures))
    return response

"""The manifest of a version: the size and SHA-256 digest of every file, so that damage is found.

assets.extra/manifest.json

    {
      "schema_version": 1,
      "files": {"saved_model.pb": {"bytes": 41234, "sha256": "..."}, ...},
      "sha256": "..."                                          of `files`, as JSON writes it
    }

TensorFlow may abort the whole process when it loads a damaged `saved_model.pb`, so the manifest
is checked before anything is parsed. It is a protection against damage, not against forgery.
"""

import hashlib
import json
import os
import pathlib
import stat

from keras_attention.export.files import remove_dead_parts, sha256, write_bytes

MANIFEST_FILE = pathlib.PurePath("assets.extra", "manifest.json")
SCHEMA_VERSION = 1
REMEDY = (
    "Copy the whole version again; to a version that was written without one, "
    "`python -m keras_attention.export --write-manifest PATH` adds it."
)
MAX_BYTES = 2**24  # of a manifest that is read: 100,000 files have a smaller one


def write_manifest(directory: str | os.PathLike) -> None:
    """Writes the manifest of the files in a version, after all of them.

    Args:
        directory: Of the version.

    Raises:
        OSError: If a file cannot be read, or the manifest cannot be written.
    """
    directory = pathlib.Path(directory)
    path = directory / MANIFEST_FILE
    path.parent.mkdir(exist_ok=True)
    remove_dead_parts(path.parent)
    files = {}
    for name in sorted(_names(directory)):
        size = (directory / name).stat().st_size
        files[name] = {"bytes": size, "sha256": _digest(directory / name)}
    write_bytes(path, _rendered(files))


def check_manifest(directory: str | os.PathLike) -> list[str]:
    """Returns how the files of a version differ from its manifest; nothing if they are all whole.

    Nothing is parsed but the manifest, and no file raises: what cannot be read is a finding.

    Args:
        directory: Of the version.

    Returns:
        List of strings, a line each. A manifest that is missing or damaged is a finding by
        itself, and then the only one.

    Example:

    >>> import pathlib, tempfile
    >>> directory = pathlib.Path(tempfile.mkdtemp())
    >>> size = (directory / "saved_model.pb").write_bytes(b"graph")
    >>> write_manifest(directory)
    >>> check_manifest(directory)
    []
    >>> size = (directory / "saved_model.pb").write_bytes(b"grap")
    >>> check_manifest(directory)
    ['saved_model.pb is damaged: it has 4 bytes, the manifest says 5']
    """
    directory = pathlib.Path(directory)
    try:
        files = _read(directory / MANIFEST_FILE)
    except (FileNotFoundError, NotADirectoryError):
        return [f"{MANIFEST_FILE} is missing. {REMEDY}"]
    except (OSError, ValueError) as error:
        return [f"{MANIFEST_FILE} is damaged: {_reason(error)}"]
    try:
        present = _names(directory)
    except OSError as error:
        return [f"the folders of the version cannot be read: {_reason(error)}"]
    findings = [f"{_printable(name)} is not in the manifest" for name in sorted(present - {*files})]
    for name, expected in files.items():
        problem = _problem(directory / name, expected)
        if problem:
            findings.append(f"{name} is {problem}")
    return findings


def _names(directory):
    """The files below `directory`, links to folders among them, without the manifest."""
    names = set()
    for folder, folders, files in os.walk(directory, onerror=_raise):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in [*files, *links]:
            names.add(pathlib.Path(folder, name).relative_to(directory).as_posix())
    return names - {MANIFEST_FILE.as_posix()}


def _raise(error):
    raise error


def _rendered(files):
    """The content of the manifest of `files`: there is one way to write it."""
    text = json.dumps(files, sort_keys=True)
    manifest = {
        "schema_version": SCHEMA_VERSION,
        "files": files,
        "sha256": sha256(text.encode("ascii")),
    }
    return (json.dumps(manifest, indent=2, sort_keys=True) + "\n").encode("ascii")


def _read(path):
    """The `files` of a manifest that is, byte for byte, what `_rendered` gives for them."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError("it is not a file")
    with open(path, "rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES} bytes")
    try:
        files = json.loads(content)["files"]
        whole = content == _rendered(files) and all(
            set(entry) == {"bytes", "sha256"} for entry in files.values()
        )
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        whole = False
    if not whole:
        raise ValueError("its content is not what its own digest says")
    return files


def _problem(path, expected):
    """What is wrong with a file, as the end of a sentence; None if nothing is."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # a pipe would be waited for
            return "not a file"
        if status.st_size != expected["bytes"]:
            return f"damaged: it has {status.st_size} bytes, the manifest says {expected['bytes']}"
        if _digest(path) != expected["sha256"]:
            return "damaged: its SHA-256 digest differs from the manifest's"
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except OSError as error:
        return f"not readable: {_reason(error)}"
    return None


def _digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _reason(error):
    return getattr(error, "strerror", None) or str(error)


def _printable(name):
    """A name as one line that any terminal can print."""
    shown = name.encode("utf-8", "backslashreplace").decode()
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)

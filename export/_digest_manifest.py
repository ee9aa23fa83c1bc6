"""The manifest of a version: size and SHA-256 digest of every file, to detect damage.

assets.extra/manifest.json

    {
      "schema_version": 1,
      "files": {"saved_model.pb": {"bytes": 41234, "sha256": "..."}, ...},
      "sha256": "..."                                          the digest of `files` as JSON
    }

TensorFlow may abort the process when it loads a damaged `saved_model.pb`, so the manifest is
checked before any file is parsed. It protects against damage, not against forgery.
"""

import hashlib
import json
import os
import pathlib
import stat

from keras_attention.data.atomic_files import remove_abandoned_parts, sha256, write_bytes

MANIFEST_FILE = pathlib.PurePath("assets.extra", "manifest.json")
SCHEMA_VERSION = 1
REMEDY = (
    "Copy the whole version again. If it was exported without a manifest, add one: "
    "`python -m keras_attention.export --write-manifest PATH`."
)
MAX_MANIFEST_BYTES = 2**24  # the manifest of 100,000 files is smaller


def write_manifest(directory: str | os.PathLike[str]) -> None:
    """Writes the manifest of a version; call it after all other files are written.

    Args:
        directory: Directory of the version.

    Raises:
        OSError: If a file cannot be read, or the manifest cannot be written.
    """
    directory = pathlib.Path(directory)
    path = directory / MANIFEST_FILE
    path.parent.mkdir(exist_ok=True)
    remove_abandoned_parts(path.parent)
    files = {}
    for name in sorted(_list_files(directory)):
        size = (directory / name).stat().st_size
        files[name] = {"bytes": size, "sha256": _compute_digest(directory / name)}
    write_bytes(path, _render_manifest(files))


def find_manifest_problems(directory: str | os.PathLike[str]) -> list[str]:
    """Returns the differences between the files of a version and its manifest.

    The function parses the manifest only. It raises nothing: an unreadable file is a problem.

    Args:
        directory: Directory of the version.

    Returns:
        List of strings, one for each problem; empty if there are none. A missing or damaged
        manifest is reported alone.

    Example:

    >>> import pathlib, tempfile
    >>> directory = pathlib.Path(tempfile.mkdtemp())
    >>> size = (directory / "saved_model.pb").write_bytes(b"graph")
    >>> write_manifest(directory)
    >>> find_manifest_problems(directory)
    []
    >>> size = (directory / "saved_model.pb").write_bytes(b"grap")
    >>> find_manifest_problems(directory)
    ['saved_model.pb is damaged: it has 4 bytes, the manifest lists 5']
    """
    directory = pathlib.Path(directory)
    try:
        files = _read_manifest(directory / MANIFEST_FILE)
    except (FileNotFoundError, NotADirectoryError):
        return [f"{MANIFEST_FILE} is missing. {REMEDY}"]
    except (OSError, ValueError) as error:
        return [f"{MANIFEST_FILE} is damaged: {_describe_error(error)}"]
    try:
        present = _list_files(directory)
    except OSError as error:
        return [f"the folders of the version cannot be read: {_describe_error(error)}"]
    problems = [
        f"{_escape_name(name)} is not in the manifest" for name in sorted(present - {*files})
    ]
    for name, expected in files.items():
        problem = _find_problem(directory / name, expected)
        if problem:
            problems.append(f"{name} is {problem}")
    return problems


def _list_files(directory):
    """Returns the files below `directory` and the links to folders, without the manifest."""
    names = set()
    for folder, folders, files in os.walk(directory, onerror=_raise):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in [*files, *links]:
            names.add(pathlib.Path(folder, name).relative_to(directory).as_posix())
    return names - {MANIFEST_FILE.as_posix()}


def _raise(error):
    raise error


def _render_manifest(files):
    """Returns the content of the manifest of `files`; equal files give equal bytes."""
    text = json.dumps(files, sort_keys=True)
    manifest = {
        "schema_version": SCHEMA_VERSION,
        "files": files,
        "sha256": sha256(text.encode("ascii")),
    }
    return (json.dumps(manifest, indent=2, sort_keys=True) + "\n").encode("ascii")


def _read_manifest(path):
    """Returns the `files` of a manifest; raises unless `_render_manifest` gives the same bytes."""
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError("it is not a file")
    with open(path, "rb") as file:
        content = file.read(MAX_MANIFEST_BYTES + 1)
    if len(content) > MAX_MANIFEST_BYTES:
        raise ValueError(f"it has more than {MAX_MANIFEST_BYTES} bytes")
    try:
        files = json.loads(content)["files"]
        is_valid = content == _render_manifest(files) and all(
            set(entry) == {"bytes", "sha256"} for entry in files.values()
        )
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        is_valid = False
    if not is_valid:
        raise ValueError("its content does not match its own digest")
    return files


def _find_problem(path, expected):
    """Returns the problem of a file, as the end of a sentence, or None."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):  # reading a pipe would block
            return "not a file"
        if status.st_size != expected["bytes"]:
            return f"damaged: it has {status.st_size} bytes, the manifest lists {expected['bytes']}"
        if _compute_digest(path) != expected["sha256"]:
            return "damaged: its SHA-256 digest differs from the manifest's"
    except (FileNotFoundError, NotADirectoryError):
        return "missing"
    except OSError as error:
        return f"not readable: {_describe_error(error)}"
    return None


def _compute_digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _describe_error(error):
    return getattr(error, "strerror", None) or str(error)


def _escape_name(name):
    """Returns a name as one printable line."""
    shown = name.encode("utf-8", "backslashreplace").decode()
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in shown)

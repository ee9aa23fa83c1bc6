"""`ServedModel`: watches the directory of a model, loads and unloads its versions."""

import contextlib
import os
import pathlib
import sys
import threading
import time
from collections.abc import Iterable, Iterator

from keras_attention.export import versions as directories
from keras_attention.export.serving._loaded_version import LoadedVersion
from keras_attention.export.serving.errors import (
    ServingError,
    convert_tensorflow_error,
    invalid_argument,
)

STATES = ("START", "LOADING", "AVAILABLE", "UNLOADING", "END")


class ServedModel:
    """The versions of one model, loaded and unloaded as in TensorFlow Serving.

    A version becomes available after it is loaded and warmed up. Then the previous version is
    unloaded, after its last request. A version that fails to load is retried once its files have
    changed and then stayed the same between two polls, as after an incomplete copy. Until then the
    previous version stays available.

    Args:
        name: Name of the model for clients.
        base: Base directory of the model, `<base>/<version>/saved_model.pb`.
        policy: `"latest"`, `"all"`, or the numbers of the versions to serve.
        labels: Dict from labels to versions; a label is valid while its version is loaded.
    """

    name: str
    base: pathlib.Path

    def __init__(
        self,
        name: str,
        base: str | os.PathLike[str],
        policy: str | Iterable[int] = "latest",
        labels: dict[str, int] | None = None,
    ) -> None:
        self.name, self.base = name, pathlib.Path(base)
        self._policy = policy if isinstance(policy, str) else frozenset(policy)
        if isinstance(self._policy, str) and self._policy not in ("latest", "all"):
            raise ValueError(
                'ServedModel expects `policy` to be "latest", "all" or version numbers. '
                f"Received: policy={policy!r}"
            )
        self._labels = dict(labels or {})
        self._loaded: dict[int, LoadedVersion] = {}
        self._num_users: dict[int, int] = {}
        self._failed: dict[int, tuple] = {}
        self._settling: dict[int, tuple] = {}
        self._states: dict[int, tuple[str, ServingError | str | None]] = {}
        self._changed = threading.Condition()
        self._closing = threading.Event()

    @contextlib.contextmanager
    def acquire(
        self, version: int | None = None, label: str | None = None
    ) -> Iterator[tuple[int, LoadedVersion]]:
        """Yields `(number, LoadedVersion)` and keeps the version loaded inside the `with` block.

        Args:
            version: Number of the version, or None for the highest loaded one.
            label: A label instead of a version.

        Raises:
            ServingError: If there is no such label; UNAVAILABLE while the version is loading,
                NOT_FOUND if it will not be loaded.
        """
        with self._changed:
            if label is not None:
                if label not in self._labels:
                    raise invalid_argument(f"Unrecognized servable version label: {label}")
                version = self._labels[label]
            chosen = max(self._loaded, default=None) if version is None else version
            if chosen not in self._loaded:
                self._check_loading(version)
                wanted = (
                    f"Latest({self.name})" if version is None else self._format_version(version)
                )
                raise ServingError("NOT_FOUND", f"Servable not found for request: {wanted}")
            loaded = self._loaded[chosen]
            self._num_users[chosen] = self._num_users.get(chosen, 0) + 1
        try:
            yield chosen, loaded
        finally:
            with self._changed:
                self._num_users[chosen] -= 1
                self._changed.notify_all()

    @property
    def is_serving(self) -> bool:
        """Whether a version is loaded."""
        return bool(self._loaded)

    def list_wanted_versions(self) -> set[int]:
        """Returns the existing versions that the policy selects."""
        return self._select_versions(directories.find_versions(self.base))

    def announce_versions(self) -> None:
        """Sets the state START of the versions that `poll` will load."""
        for version in self.list_wanted_versions():
            with self._changed:
                self._states.setdefault(version, ("START", None))

    def poll(self) -> None:
        """Loads newly selected versions, then unloads versions that are no longer selected."""
        self.announce_versions()
        existing = directories.find_versions(self.base)
        wanted = self._select_versions(existing)
        self._forget_announced_versions(wanted)
        for version in sorted(wanted, reverse=True):
            if version in self._loaded:
                continue
            identity = _fingerprint_files(existing[version])
            if version not in self._failed or self._is_settled(version, identity):
                self._load(version, existing[version], identity)
        if wanted & set(self._loaded):
            for version in set(self._loaded) - wanted:
                self._unload(version)

    def states(self) -> dict[int, tuple[str, ServingError | str | None]]:
        """Returns the state of every version.

        Returns:
            Dict from numbers to pairs: one of `STATES`, and the error, the current step of loading,
            or None.
        """
        with self._changed:
            return {version: self._get_state(version) for version in sorted(self._states)}

    def cancel(self) -> None:
        """Cancels the loading in another thread, at its next step."""
        self._closing.set()

    def close(self) -> None:
        """Unloads all versions, each after its last request."""
        for version in list(self._loaded):
            self._unload(version)

    def _forget_announced_versions(self, wanted):
        """Removes versions that were superseded or deleted before their loading began."""
        with self._changed:
            for version, (state, _) in list(self._states.items()):
                if state == "START" and version not in wanted:
                    del self._states[version]

    def _is_settled(self, version, identity):
        """Returns whether a failed version has changed and then stayed the same for two polls."""
        before, self._settling[version] = self._settling.get(version), identity
        return identity == before != self._failed[version]

    def _select_versions(self, existing):
        if self._policy == "latest":
            return {max(existing)} if existing else set()
        return set(existing) if self._policy == "all" else set(existing) & self._policy

    def _load(self, version, path, identity):
        started_at = time.monotonic()

        def report(step, is_long):
            if self._closing.is_set():
                raise ServingError("CANCELLED", "The server is ending.")
            self._set_state(version, "LOADING", (step, started_at))
            if is_long:
                line = f"{self.name} {version}: {step} ({time.monotonic() - started_at:.1f} s)"
                print(line, file=sys.stderr, flush=True)

        loaded = None
        try:
            loaded = LoadedVersion(path, report)
            count = loaded.warm_up()
        except Exception as error:  # a version that fails must not affect the others
            if loaded is not None:
                loaded.close()
            self._failed[version] = identity
            failed = (
                error if isinstance(error, ServingError) else convert_tensorflow_error(error, path)
            )
            self._set_state(version, "END", failed)
            line = f"{self.name} {version} cannot be served: {failed} ({path})"
            print(line, file=sys.stderr, flush=True)
            return
        with self._changed:
            self._loaded[version] = loaded
            self._num_users[version] = 0
        self._set_state(version, "AVAILABLE")
        took = f"{count} warm-up requests, {time.monotonic() - started_at:.1f} s"
        print(f"{self.name} {version} is served, {took}.", flush=True)

    def _unload(self, version):
        self._set_state(version, "UNLOADING")
        with self._changed:
            loaded = self._loaded.pop(version)
            self._changed.wait_for(lambda: self._num_users[version] == 0)
        loaded.close()
        self._set_state(version, "END")

    def _set_state(self, version, state, error=None):
        with self._changed:
            self._states[version] = state, error

    def _get_state(self, version):
        """Returns a version's state; while it loads, with the current step and the time."""
        state, note = self._states[version]
        if state == "LOADING":
            step, started_at = note
            note = f"{step}, {time.monotonic() - started_at:.0f} s since it began"
        return state, note

    def _check_loading(self, version):
        """Raises UNAVAILABLE if the version, or any if it is None, is loading."""
        for number in sorted(self._states) if version is None else (version,):
            state, note = self._get_state(number) if number in self._states else ("END", None)
            if state in ("START", "LOADING"):
                step = f" ({note})" if note else ""
                message = f"{self.name} {number} is being loaded{step}; try again later."
                raise ServingError("UNAVAILABLE", message)

    def _format_version(self, version):
        return f"Specific({self.name}, {version})"


def _fingerprint_files(path):
    """Returns a value that changes when files are replaced or still being copied."""
    found = []
    for folder, _, names in os.walk(path):
        for name in names:
            file = os.path.join(folder, name)
            with contextlib.suppress(OSError):  # removed meanwhile
                status = os.stat(file)
                found.append((file, status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(sorted(found))

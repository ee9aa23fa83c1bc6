"""A model's version directory, watched: what is loaded, what answers, what is on its way."""

import contextlib
import os
import pathlib
import sys
import threading
import time
from collections.abc import Iterable

from keras_attention.export import versions as directories
from keras_attention.export.serving.errors import ServingError, invalid, of_tensorflow
from keras_attention.export.serving.loaded import LoadedVersion
from keras_attention.export.serving.warm_up import warm_up

STATES = ("START", "LOADING", "AVAILABLE", "UNLOADING", "END")


class ServedModel:
    """The versions of one model, loaded and unloaded as the model server would.

    A version answers once it is loaded and warmed up; only then is the one before unloaded,
    after its last request. A version that fails to load is left alone until its files are others
    and have stayed the same from one look to the next, as when a copy was not complete; what
    answered before goes on answering.

    Args:
        name: What clients call it.
        base: Its base directory, `<base>/<version>/saved_model.pb`.
        policy: `"latest"`, `"all"`, or the ints of the versions to serve.
        labels: Dict from labels to versions; a label answers while its version is loaded.
    """

    def __init__(
        self,
        name: str,
        base: str | os.PathLike,
        policy: str | Iterable[int] = "latest",
        labels: dict[str, int] | None = None,
    ):
        self.name, self.base = name, pathlib.Path(base)
        self._policy = policy if isinstance(policy, str) else frozenset(policy)
        if isinstance(self._policy, str) and self._policy not in ("latest", "all"):
            raise ValueError(
                'ServedModel expects `policy` to be "latest", "all" or version numbers. '
                f"Received: policy={policy!r}"
            )
        self._labels = dict(labels or {})
        self._loaded: dict[int, LoadedVersion] = {}
        self._users: dict[int, int] = {}
        self._failed: dict[int, tuple] = {}
        self._settling: dict[int, tuple] = {}
        self._states: dict[int, tuple[str, ServingError | str | None]] = {}
        self._changed = threading.Condition()
        self._closing = threading.Event()

    @contextlib.contextmanager
    def acquire(self, version: int | None = None, label: str | None = None):
        """Yields `(version, LoadedVersion)`; it is not unloaded meanwhile.

        Args:
            version: The version wanted, None for the highest that is loaded.
            label: A label instead of a version.

        Raises:
            ServingError: If there is no such label; UNAVAILABLE while the version is loaded,
                NOT_FOUND if it will not be.
        """
        with self._changed:
            if label is not None:
                if label not in self._labels:
                    raise invalid(f"Unrecognized servable version label: {label}")
                version = self._labels[label]
            chosen = max(self._loaded, default=None) if version is None else version
            if chosen not in self._loaded:
                self._check_loading(version)
                wanted = f"Latest({self.name})" if version is None else self._specific(version)
                raise ServingError("NOT_FOUND", f"Servable not found for request: {wanted}")
            loaded = self._loaded[chosen]
            self._users[chosen] = self._users.get(chosen, 0) + 1
        try:
            yield chosen, loaded
        finally:
            with self._changed:
                self._users[chosen] -= 1
                self._changed.notify_all()

    @property
    def is_serving(self) -> bool:
        """Whether a version is loaded."""
        return bool(self._loaded)

    def wanted_versions(self) -> set[int]:
        """Returns the versions that the directory and the policy ask for now."""
        return self._wanted(directories.existing_versions(self.base))

    def announce(self) -> None:
        """Gives the versions that `poll` will load their state, START."""
        for version in self.wanted_versions():
            with self._changed:
                self._states.setdefault(version, ("START", None))

    def poll(self) -> None:
        """Loads what the directory newly asks for, then unloads what it no longer does."""
        self.announce()
        existing = directories.existing_versions(self.base)
        wanted = self._wanted(existing)
        for version in sorted(wanted, reverse=True):
            if version in self._loaded:
                continue
            identity = _identity(existing[version])
            if version not in self._failed or self._settled(version, identity):
                self._load(version, existing[version], identity)
        if wanted & set(self._loaded):
            for version in set(self._loaded) - wanted:
                self._unload(version)

    def states(self) -> dict[int, tuple[str, ServingError | str | None]]:
        """Returns what became of every version.

        Returns:
            Dict of pairs: one of `STATES`; and why if it failed, or what is done while it loads.
        """
        with self._changed:
            return {version: self._told(version) for version in sorted(self._states)}

    def cancel(self) -> None:
        """Gives up the version that another thread loads, at its next step."""
        self._closing.set()

    def close(self) -> None:
        """Unloads everything, each version after its last request."""
        for version in list(self._loaded):
            self._unload(version)

    def _settled(self, version, identity):
        """Whether what failed is another one now, and no longer changes from poll to poll."""
        before, self._settling[version] = self._settling.get(version), identity
        return identity == before != self._failed[version]

    def _wanted(self, existing):
        if self._policy == "latest":
            return {max(existing)} if existing else set()
        return set(existing) if self._policy == "all" else set(existing) & self._policy

    def _load(self, version, path, identity):
        begun = time.monotonic()

        def report(step, is_shown=True):
            if self._closing.is_set():
                raise ServingError("CANCELLED", "The server is ending.")
            self._set_state(version, "LOADING", (step, begun))
            if is_shown:
                line = f"{self.name} {version}: {step} ({time.monotonic() - begun:.1f} s)"
                print(line, file=sys.stderr, flush=True)

        loaded = None
        try:
            loaded = LoadedVersion(path, report)
            count = warm_up(loaded, path, report)
        except Exception as error:  # whatever is wrong with a version, the others go on
            if loaded is not None:
                loaded.close()
            self._failed[version] = identity
            failed = error if isinstance(error, ServingError) else of_tensorflow(error, path)
            self._set_state(version, "END", failed)
            line = f"{self.name} {version} cannot be served: {failed} ({path})"
            print(line, file=sys.stderr, flush=True)
            return
        with self._changed:
            self._loaded[version] = loaded
            self._users[version] = 0
        self._set_state(version, "AVAILABLE")
        took = f"{count} warm-up requests, {time.monotonic() - begun:.1f} s"
        print(f"{self.name} {version} is served, {took}.", flush=True)

    def _unload(self, version):
        self._set_state(version, "UNLOADING")
        with self._changed:
            loaded = self._loaded.pop(version)
            self._changed.wait_for(lambda: self._users[version] == 0)
        loaded.close()
        self._set_state(version, "END")

    def _set_state(self, version, state, error=None):
        with self._changed:
            self._states[version] = state, error

    def _told(self, version):
        """A version's state, with what is done for how long while it loads."""
        state, note = self._states[version]
        if state == "LOADING":
            step, begun = note
            note = f"{step}, {time.monotonic() - begun:.0f} s since it began"
        return state, note

    def _check_loading(self, version):
        """Raises UNAVAILABLE where the version wanted, or any, is on its way."""
        for number in sorted(self._states) if version is None else (version,):
            state, note = self._told(number) if number in self._states else ("END", None)
            if state in ("START", "LOADING"):
                step = f" ({note})" if note else ""
                message = f"{self.name} {number} is being loaded{step}; try again later."
                raise ServingError("UNAVAILABLE", message)

    def _specific(self, version):
        return f"Specific({self.name}, {version})"


def _identity(path):
    """What changes when a directory is replaced, or when a copy into it goes on."""
    found = []
    for folder, _, names in os.walk(path):
        for name in names:
            file = os.path.join(folder, name)
            with contextlib.suppress(OSError):  # gone meanwhile
                status = os.stat(file)
                found.append((file, status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(sorted(found))

"""Files on their way from a browser: announced, sent in slices, kept on disk until they are read."""

from __future__ import annotations

import re
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import IO, Final, final
from uuid import uuid4

import flask

from zerosim.errors import InputError
from zerosim.units import format_bytes

MAX_FILES: Final = 4_096
"""As many as an archive may have."""
MAX_UPLOADS: Final = 32
"""So many drops may be on their way at once."""
IDLE_S: Final = 900.0
"""An upload of which nothing came for so long is given up, and what came of it deleted."""
_CONFIG_KEY: Final = "ZEROSIM_UPLOADS"
_PIECE: Final = 2**16
_MAX_NAME: Final = 200
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class Announced:
    """A file that shall be sent: what its user calls it, its folder first if it lay in one; its bytes."""

    name: str
    nbytes: int


@final
@dataclass(slots=True)
class Upload:
    """The files of one drop, where they are kept, and how many bytes of each have come."""

    files: tuple[Announced, ...]
    folder: Path
    paths: tuple[Path, ...]
    received: list[int]
    idle_since_s: float
    lock: threading.Lock = field(default_factory=threading.Lock)
    timer: threading.Timer | None = None

    @property
    def missing(self) -> int:
        """How many bytes are still to come."""
        return sum(file.nbytes for file in self.files) - sum(self.received)


@final
@dataclass(slots=True, weakref_slot=True)
class Uploads:
    """The uploads of one app. `max_bytes` is for a file, `max_all` for those of one drop together.

    They lie in a folder of their own, which goes when the process ends.
    """

    max_bytes: int
    max_all: int
    idle_s: float = IDLE_S
    _known: dict[str, Upload] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _root: Path | None = None

    def begin(self, files: Sequence[Announced]) -> str:
        """Make room for `files`; returns the upload's id. Raises InputError if they are too much."""
        self._refuse(files)
        with self._lock:
            if len(self._known) >= MAX_UPLOADS:
                raise InputError(
                    f"{MAX_UPLOADS} drops are being sent already: wait for one of them"
                )
            root = self._folder()
            wanted = sum(file.nbytes for file in files)
            free = shutil.disk_usage(root).free
            if wanted + sum(upload.missing for upload in self._known.values()) > free:
                raise InputError(
                    f"'{files[0].name}' and the files with it have {format_bytes(wanted)}, and"
                    f" '{root.parent}' has no room for them: make room, or name another place by TMPDIR"
                )
            upload_id = uuid4().hex
            folder = root / upload_id
            paths = tuple(folder / path for path in placed([file.name for file in files]))
            for path in paths:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
            received = [0] * len(files)
            upload = Upload(tuple(files), folder, paths, received, time.monotonic())
            self._known[upload_id] = upload
        self._watch(upload_id, upload, self.idle_s)
        return upload_id

    def append(self, upload_id: str, index: int, start: int, body: IO[bytes], nbytes: int) -> int:
        """Put `nbytes` of `body` behind the `start` bytes of a file that came; returns how many came.

        What is not in order is not taken, nor what came before. Raises KeyError for an upload or file
        that nobody announced, InputError for more than was announced and for a slice that breaks off.
        """
        upload = self._known[upload_id]
        if not 0 <= index < len(upload.files):
            raise KeyError(index)
        with upload.lock:
            upload.idle_since_s = time.monotonic()
            file, came = upload.files[index], upload.received[index]
            if start != came:
                return came
            if came + nbytes > file.nbytes:
                raise InputError(
                    f"'{file.name}' is longer than the {file.nbytes:,} bytes that were announced:"
                    " is it still being written? Drop it again when it is done"
                )
            upload.received[index] = _appended(upload.paths[index], file, came, body, nbytes)
            return upload.received[index]

    @contextmanager
    def taken(self, upload_id: str) -> Iterator[Upload]:
        """An upload that has come whole, to be read; it is deleted afterwards. Raises InputError."""
        with self._lock:
            upload = self._known.pop(upload_id, None)
        if upload is None:
            raise InputError("the server no longer knows these files: drop them again")
        try:
            for file, came in zip(upload.files, upload.received, strict=True):
                if came != file.nbytes:
                    raise InputError(
                        f"of '{file.name}' {came:,} of {file.nbytes:,} bytes came: drop it again"
                    )
            yield upload
        finally:
            _remove(upload)

    def drop(self, upload_id: str) -> None:
        """Give an upload up: what came of it is deleted. One that is not there stays so."""
        with self._lock:
            upload = self._known.pop(upload_id, None)
        if upload:
            _remove(upload)

    def _refuse(self, files: Sequence[Announced]) -> None:
        if not files:
            raise InputError("nothing was dropped: choose at least one file")
        if len(files) > MAX_FILES:
            raise InputError(f"{len(files):,} files are over {MAX_FILES:,}: drop those of one run")
        for file in files:
            if file.nbytes > self.max_bytes:
                raise InputError(
                    f"'{file.name}' has {format_bytes(file.nbytes)}, over"
                    f" {format_bytes(self.max_bytes)}: record fewer steps, or fewer ranks a file"
                )
        if (total := sum(file.nbytes for file in files)) > self.max_all:
            raise InputError(
                f"the files have {format_bytes(total)}, over {format_bytes(self.max_all)}:"
                " use `zerosim import` in the shell"
            )

    def _folder(self) -> Path:
        if self._root is None or not self._root.is_dir():
            self._root = Path(tempfile.mkdtemp(prefix="zerosim-uploads-"))
            weakref.finalize(self, shutil.rmtree, self._root, ignore_errors=True)
        return self._root

    def _watch(self, upload_id: str, upload: Upload, in_s: float) -> None:
        upload.timer = threading.Timer(in_s, self._expire, (upload_id,))
        upload.timer.daemon = True
        upload.timer.start()

    def _expire(self, upload_id: str) -> None:
        upload = self._known.get(upload_id)
        if upload is None:
            return
        idle_s = time.monotonic() - upload.idle_since_s
        if idle_s < self.idle_s:
            self._watch(upload_id, upload, self.idle_s - idle_s)
        else:
            self.drop(upload_id)


def placed(names: Sequence[str]) -> tuple[Path, ...]:
    """Where files with these names are kept, each in a place of its own below an upload's folder.

    Of a name only its last word and that of its folder are used, cleaned: nothing in it leads
    anywhere. What lay in one folder lies in one folder, since some formats look beside a file.
    """
    folders: dict[str, int] = {}
    taken: set[str] = set()
    found: list[Path] = []
    for name in names:
        whole = PurePosixPath(name.replace("\\", "/"))
        number = folders.setdefault(str(whole.parent), len(folders))
        inner = _cleaned(whole.parent.name)
        last = _cleaned(whole.name) or "file"
        path = Path(f"{number:04d}", inner, last)
        copies = (Path(f"{number:04d}-{copy}", inner, last) for copy in range(2, len(names) + 2))
        # Some disks take two names that differ in case for one.
        path = next(p for p in chain((path,), copies) if str(p).casefold() not in taken)
        taken.add(str(path).casefold())
        found.append(path)
    return tuple(found)


def _cleaned(word: str) -> str:
    return _UNSAFE.sub("-", word)[-_MAX_NAME:].lstrip(".")


def _appended(path: Path, file: Announced, came: int, body: IO[bytes], nbytes: int) -> int:
    """How many bytes there are then; those of a slice that broke off before are cut away."""
    try:
        with path.open("r+b") as kept:
            kept.truncate(came)
            kept.seek(came)
            left = nbytes
            while left and (piece := body.read(min(_PIECE, left))):
                kept.write(piece)
                left -= len(piece)
    except OSError as error:
        reason = error.strerror or error
        raise InputError(
            f"'{file.name}' cannot be kept in '{tempfile.gettempdir()}' ({reason}): make room there,"
            " or name another place by TMPDIR"
        ) from None
    if left:
        raise InputError(f"a slice of '{file.name}' broke off: drop it again")
    return came + nbytes


def _remove(upload: Upload) -> None:
    if upload.timer:
        upload.timer.cancel()
    with upload.lock:
        shutil.rmtree(upload.folder, ignore_errors=True)


def put_uploads(server: flask.Flask, uploads: Uploads) -> None:
    """Give a server its uploads."""
    server.config[_CONFIG_KEY] = uploads


def uploads() -> Uploads:
    """The uploads of the app that answers the current request."""
    found: Uploads = flask.current_app.config[_CONFIG_KEY]
    return found

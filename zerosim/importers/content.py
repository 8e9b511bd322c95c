"""Files as bytes: within a limit, unzipped by what they hold, never by their suffix."""

from __future__ import annotations

import io
import tarfile
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Final

from zerosim.errors import TraceFileError
from zerosim.importers.stored import Source, Stored
from zerosim.units import format_bytes

MAX_BYTES: Final = 4 * 2**30
"""The most bytes one file may unfold to; more is a mistake or an attack."""

HELD_BYTES: Final = 2**27
"""A bigger file is not held in memory."""
_HEAD: Final = 2**24
"""So much of a bigger one tells its format."""

MAX_UNFOLDING: Final = 250
"""How many bytes one zipped byte of a trace may be; real ones give 10 to 40, a bomb 1,000."""
SMALL: Final = 2**26
"""So many bytes anything may unfold to, however small it is zipped."""
_CHUNK: Final = 2**16
_ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06")
_GZIP: Final = b"\x1f\x8b"
COMPANION: Final = "comm_group.json"
"""A file that other files of a folder cannot be read without."""
SQLITE: Final = b"SQLite format 3\x00"


@dataclass(frozen=True, slots=True)
class Content:
    """What a file holds, unzipped, and what was odd about it.

    Of a database or an archive `raw` is the beginning alone: it is read where it lies, at `file`. That
    is None for what lies nowhere by itself: a member of an archive, a zipped file. Of a big file `raw`
    is the beginning, too, and `stored` the whole.

    Of what is put together of pieces of a file, `origin` is that file, and `cuts` say from which byte
    of `raw` on how many more of its bytes lie before: (at, more), ascending.

    `beside`: what COMPANION in the same folder holds, if both are members of an archive.
    """

    path: Path
    raw: bytes
    warnings: tuple[str, ...] = ()
    file: Path | None = None
    stored: Stored | None = None
    cuts: tuple[tuple[int, int], ...] = ()
    origin: Source = b""
    beside: bytes = b""

    def byte(self, at: int) -> int:
        """The byte of the file at which byte `at` of `raw` lies."""
        return at + next((more for begin, more in reversed(self.cuts) if begin <= at), 0)

    @property
    def whole(self) -> Source:
        """All of its bytes."""
        return self.raw if self.stored is None else self.stored


def held(content: Content, limit: int) -> Content:
    """`content` with all of its bytes in memory; raises TraceFileError if they are over `limit`."""
    if content.stored is None:
        return content
    if len(content.stored) > limit:
        raise TraceFileError(
            f"'{content.path}' has {format_bytes(len(content.stored))}, and of its format no more than"
            f" {format_bytes(limit)} can be read: record fewer steps"
        )
    return replace(content, raw=content.stored[:], stored=None)


def read_content(path: Path, limit: int = MAX_BYTES, *, salvage: bool = False) -> Content:
    """The bytes of `path`, gunzipped if they are gzip (several members are one file).

    `salvage`: of a gzip that ends early, what there is.

    Raises TraceFileError if it cannot be read, is a damaged or cut gzip, or is over `limit` bytes.
    """
    try:
        if path.exists() and not path.is_file():  # a pipe or a device may never end
            raise TraceFileError(f"'{path}' is not a file: give trace files, folders or archives")
        with path.open("rb") as file:
            head = file.read(_CHUNK)
            file.seek(0)
            if is_gzip(head):
                inside = _beginning(head)
                if is_archive(inside):
                    return Content(path, inside, file=path)
                limit = unfolding_limit(path.stat().st_size, limit)
                return _unzipped(path, file, limit, salvage=salvage)
            if head.startswith(SQLITE) or is_archive(head):
                return Content(path, head, file=path)
            if (size := path.stat().st_size) > limit:
                raise _over(path, limit, "holds")
            if size > HELD_BYTES:
                return _stored(path, path.open("rb"), size, at=path)
            return replace(_bounded(path, _chunks(file), limit, "holds"), file=path)
    except OSError as error:
        reason = error.strerror or error
        raise TraceFileError(f"cannot read '{path}': {reason}; check the path") from None


def read_member(path: Path, file: IO[bytes], limit: int) -> Content:
    """The bytes of a member of an archive, gunzipped if they are gzip; raises as `read_content`."""
    content = _bounded(path, _chunks(file), limit, "holds")
    if is_gzip(content.raw):
        zipped = content.stored.file if content.stored else io.BytesIO(content.raw)
        zipped.seek(0)
        return _unzipped(path, zipped, unfolding_limit(len(content.whole), limit))
    return content


def unfolding_limit(zipped: int, limit: int = MAX_BYTES) -> int:
    """The most bytes that `zipped` bytes may unfold to."""
    return min(limit, max(SMALL, MAX_UNFOLDING * zipped))


def is_gzip(raw: bytes) -> bool:
    """Whether `raw` begins a gzip file."""
    return raw.startswith(_GZIP)


def is_archive(raw: bytes) -> bool:
    """Whether `raw` begins a zip or tar archive."""
    return raw.startswith(_ZIP) or _is_tar(raw[: tarfile.BLOCKSIZE])


def _is_tar(block: bytes) -> bool:
    try:
        tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def _beginning(head: bytes) -> bytes:
    try:
        return _member().decompress(head, tarfile.BLOCKSIZE)
    except zlib.error:
        return b""


def first_byte(raw: bytes) -> bytes:
    """The first byte of a text that is neither a byte order mark of UTF-8 nor blank."""
    return raw.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]


def _bounded(path: Path, chunks: Iterable[bytes], limit: int, what: str) -> Content:
    """What `chunks` come to: in memory, or in a file without a name if that is much."""
    raw, rest, size = bytearray(), None, 0
    for chunk in chunks:
        size += len(chunk)
        if size > limit:
            raise _over(path, limit, what)
        if rest is None and size > HELD_BYTES:
            rest = scratch_file(path)
            write_scratch(path, rest, raw)
            raw.clear()
        if rest is None:
            raw += chunk
        else:
            write_scratch(path, rest, chunk)
    return Content(path, bytes(raw)) if rest is None else _stored(path, rest, size)


def _over(path: Path, limit: int, what: str) -> TraceFileError:
    return TraceFileError(f"'{path}' {what} more than {limit} bytes: record fewer steps, or cut it")


def scratch_file(path: Path) -> IO[bytes]:
    """A file without a name for what `path` unfolds to. Raises TraceFileError if there is no place."""
    try:
        return tempfile.TemporaryFile()
    except OSError as error:
        raise no_room(path, error) from None


def write_scratch(path: Path, file: IO[bytes], chunk: bytes | bytearray) -> None:
    """Add `chunk` of `path` to `file`. Raises TraceFileError, `file` closed, where it does not fit."""
    try:
        file.write(chunk)
        file.flush()
    except OSError as error:
        with suppress(OSError):  # closing tries once more to write
            file.close()
        raise no_room(path, error) from None


def no_room(path: Path, error: OSError) -> TraceFileError:
    """Why `path` cannot be unfolded into a temporary file."""
    return TraceFileError(
        f"'{path}' cannot be unfolded into a temporary file ({error.strerror or error}):"
        " make room, or name another place by TMPDIR"
    )


def _stored(path: Path, file: IO[bytes], size: int, at: Path | None = None) -> Content:
    stored = Stored(path, file, size)
    return Content(path, stored[:_HEAD], file=at, stored=stored)


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    while chunk := file.read(_CHUNK):
        yield chunk


def _unzipped(path: Path, file: IO[bytes], limit: int, *, salvage: bool = False) -> Content:
    notes: list[str] = []
    content = _bounded(path, _unzipping(path, file, notes, salvage=salvage), limit, "unfolds to")
    return replace(content, warnings=tuple(notes))


def _unzipping(path: Path, file: IO[bytes], notes: list[str], *, salvage: bool) -> Iterator[bytes]:
    member, rest = _member(), b""
    try:
        while chunk := rest or file.read(_CHUNK):
            if member.eof:
                rest, chunk = b"", chunk.lstrip(b"\0")
                if not chunk:
                    continue
                if chunk[:1] != _GZIP[:1]:
                    notes.append(f"'{path.name}' has bytes after its gzip end: ignored")
                    return
                member = _member()
            yield member.decompress(chunk)
            rest = member.unused_data
    except zlib.error as error:
        raise TraceFileError(f"'{path}' is a damaged gzip file ({error}): copy it again") from None
    if not member.eof and not salvage:
        raise TraceFileError(f"'{path}' is a truncated gzip file: copy or export it again")
    if not member.eof:
        notes.append(f"'{path.name}' is a truncated gzip file: read to its end")


def _member() -> zlib._Decompress:
    return zlib.decompressobj(zlib.MAX_WBITS | 16)

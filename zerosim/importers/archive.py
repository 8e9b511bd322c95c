"""Archives of traces: the members of a zip or tar, one at a time and in memory; nothing is unpacked."""

from __future__ import annotations

import io
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from gzip import BadGzipFile, GzipFile
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final, final

from zerosim.errors import TraceFileError
from zerosim.importers.content import (
    COMPANION,
    MAX_BYTES,
    Content,
    is_archive,
    is_gzip,
    read_member,
    scratch_file,
    unfolding_limit,
    write_scratch,
)

MAX_MEMBERS: Final = 4096
MAX_DEPTH: Final = 2
"""An archive may hold archives, but no deeper."""

MAX_UNPACKED: Final = 2**36
"""The most bytes all members of an archive may come to."""

MAX_COMPANIONS: Final = 2**26
"""The most bytes of files that are kept for those beside them."""

_MAX_HEADERS: Final = 2**22
"""Bytes that a member's header, or the whole list of a zip, may take."""

_CHUNK: Final = 2**20
_ZIP: Final = b"PK"
_ENCRYPTED: Final = 1
_UNZIPPED_HERE: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_FAULTS: Final = (
    *(zipfile.BadZipFile, tarfile.TarError, BadGzipFile, zlib.error, struct.error),
    *(EOFError, ValueError, OverflowError, NotImplementedError, RuntimeError, OSError, IndexError),
)
"""What the readers of archives raise for damaged ones."""


@dataclass(slots=True)
class Allowance:
    """What an archive, with those in it, may still come to, of `most` bytes; what was left out, and why."""

    most: int
    nbytes: int
    members: int
    notes: list[str]


def unfold(content: Content, notes: list[str]) -> Iterator[Content]:
    """`content` itself, or the members of the archive that it is, archives in it included.

    Links, encrypted members and names that lead out of the archive are left out, which `notes` then
    says. Raises TraceFileError for a damaged archive and one with too many, too big, too deep members.
    """
    if not is_archive(content.raw):
        yield content
        return
    size = content.file.stat().st_size if content.file else len(content.whole)
    most = unfolding_limit(size, MAX_UNPACKED)
    allowance = Allowance(most, most, MAX_MEMBERS, notes)
    yield from _members(content, allowance, 1)


def _members(content: Content, allowance: Allowance, depth: int) -> Iterator[Content]:
    if depth > MAX_DEPTH:
        raise TraceFileError(f"'{content.path}' lies {depth} archives deep: unpack the outer ones")
    try:
        with _opened(content, allowance) as file:
            read = _zipped if content.raw.startswith(_ZIP) else _tarred
            # They may stand behind the files that need them, so the archive is gone through twice.
            before = replace(allowance, notes=[])
            companions = _kept(read(content.path, file, before, COMPANION))
            file.seek(0)
            file.headers = _MAX_HEADERS
            for member in read(content.path, file, allowance):
                if is_archive(member.raw):
                    yield from _members(member, allowance, depth + 1)
                else:
                    yield replace(member, beside=companions.get(member.path.parent, b""))
    except _FAULTS as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise TraceFileError(
            f"'{content.path}' is a damaged archive ({reason}): make or copy it again"
        ) from None


def _kept(companions: Iterator[Content]) -> dict[Path, bytes]:
    """What `companions` hold, by folder, as far as they come to MAX_COMPANIONS in all."""
    kept: dict[Path, bytes] = {}
    room = MAX_COMPANIONS
    for member in companions:
        if len(member.whole) <= room:
            kept[member.path.parent] = member.raw
            room -= len(member.raw)
    return kept


@final
class _Careful(io.BufferedReader):
    """Reads an archive, but never more at a time for a header than headers need."""

    headers: int = _MAX_HEADERS

    def read(self, size: int | None = -1) -> bytes:
        """At most `size` bytes; raises ValueError beyond what is left for headers."""
        wanted = self.headers + 1 if size is None or size < 0 else size
        if wanted > self.headers + 1:
            raise ValueError("a header of unbelievable size")
        found = super().read(wanted)
        self.headers -= len(found)
        if self.headers < 0:
            raise ValueError("headers of unbelievable size")
        return found


@contextmanager
def _opened(content: Content, allowance: Allowance) -> Iterator[_Careful]:
    if content.file is None:
        yield _Careful(_bytes_of(content))
        return
    with content.file.open("rb", buffering=0) as file:
        zipped = is_gzip(file.read(2))
        file.seek(0)
        if not zipped:
            yield _Careful(file)
            return
        with scratch_file(content.path) as unzipped:
            _unzip(content.path, file, unzipped, allowance.most)
            yield _Careful(_raw(unzipped))


def _raw(file: IO[bytes]) -> Any:  # noqa: ANN401 - BufferedReader asks for no more than a file
    return file


def _bytes_of(content: Content) -> Any:  # noqa: ANN401 - same
    if content.stored is None:
        return io.BytesIO(content.raw)
    content.stored.file.seek(0)
    return content.stored.file


def _unzip(path: Path, zipped: IO[bytes], to: IO[bytes], limit: int) -> None:
    written = 0
    with GzipFile(fileobj=zipped) as file:
        while chunk := file.read(_CHUNK):
            written += len(chunk)
            if written > limit:
                raise _too_big(path, limit)
            write_scratch(path, to, chunk)
    to.seek(0)


def _zipped(
    path: Path, file: _Careful, allowance: Allowance, only: str | None = None
) -> Iterator[Content]:
    with zipfile.ZipFile(file) as archive:
        listed = archive.infolist()
        for member in listed:
            if member.is_dir() or _is_hidden(member.filename):
                continue
            if not _is_wanted(path, member.filename, _unreadable(member), allowance, only):
                continue
            file.headers = MAX_UNPACKED
            with archive.open(member) as opened:
                yield _counted(path, member.filename, opened, allowance)


def _tarred(
    path: Path, file: _Careful, allowance: Allowance, only: str | None = None
) -> Iterator[Content]:
    with tarfile.open(fileobj=file, mode="r:") as archive:
        while True:
            file.headers = _MAX_HEADERS
            member = archive.next()
            if member is None:
                break
            if member.isdir() or _is_hidden(member.name):
                continue
            if not _is_wanted(path, member.name, _irregular(member), allowance, only):
                continue
            file.headers = MAX_UNPACKED
            opened = archive.extractfile(member)
            if opened:
                yield _counted(path, member.name, opened, allowance)
        _check_end(path, file, archive.offset, allowance)


def _is_wanted(path: Path, name: str, fault: str, allowance: Allowance, only: str | None) -> bool:
    """Whether a member is to be read; if not, it is counted, and what is wrong with it noted."""
    if why := _outside(name) or fault:
        _leave_out(path, name, why, allowance)
        return False
    if only and _last(name) != only:
        _count(path, allowance)
        return False
    return True


def _unreadable(member: zipfile.ZipInfo) -> str:
    if stat.S_ISLNK(member.external_attr >> 16):
        return "it is a link"
    if member.flag_bits & _ENCRYPTED:
        return "it is encrypted"
    packed_here = member.compress_type in _UNZIPPED_HERE
    return "" if packed_here else "it is packed in an unusual way: pack it by deflate"


def _irregular(member: tarfile.TarInfo) -> str:
    if member.issym() or member.islnk():
        return "it is a link"
    return "" if member.isreg() and not member.issparse() else "it is no plain file"


def _check_end(path: Path, file: _Careful, offset: int, allowance: Allowance) -> None:
    # A tar ends in zeros; tarfile takes anything else for the end too.
    file.seek(offset)
    block = file.read(tarfile.BLOCKSIZE)
    if block.strip(b"\0"):
        raise ValueError(f"no header at byte {offset}")
    if not block:
        allowance.notes.append(f"'{path.name}' has no end mark: members may be missing")


def _counted(path: Path, name: str, file: IO[bytes], allowance: Allowance) -> Content:
    _count(path, allowance)
    limit = min(MAX_BYTES, allowance.nbytes)
    content = read_member(path / PurePosixPath(name.replace("\\", "/")), file, limit)
    allowance.nbytes -= len(content.whole)
    return content


def _leave_out(path: Path, name: str, why: str, allowance: Allowance) -> None:
    _count(path, allowance)
    allowance.notes.append(f"'{name}' in '{path.name}' left out: {why}")


def _count(path: Path, allowance: Allowance) -> None:
    allowance.members -= 1
    if allowance.members < 0:
        raise TraceFileError(f"'{path}' has over {MAX_MEMBERS} members: give those of one run")
    if allowance.nbytes <= 0:
        raise _too_big(path, allowance.most)


def _is_hidden(name: str) -> bool:
    return _last(name).startswith(".") or name.startswith("__MACOSX/")


def _last(name: str) -> str:
    return PurePosixPath(name.replace("\\", "/")).name


def _outside(name: str) -> str:
    pure = PurePosixPath(name.replace("\\", "/"))
    inside = pure.parts and not pure.is_absolute() and ".." not in pure.parts and "\0" not in name
    return "" if inside else "its name leads out of the archive"


def _too_big(path: Path, limit: int) -> TraceFileError:
    return TraceFileError(f"'{path}' unfolds to more than {limit} bytes: give the ranks one by one")

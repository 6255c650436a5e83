"""Files on disk: atomic writes, and reads of regular files only.

A file is written under another name in the same folder, synced, and renamed to its path. Renaming is atomic, so that a reader
finds either the old or the new file, even if writing is interrupted.
"""

import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from probreg.errors import DataError

_O_BINARY = getattr(os, "O_BINARY", 0)  # Windows would write \r\n otherwise
_AT_ONCE = getattr(os, "O_NONBLOCK", 0)  # opening a pipe without a writer would block


def destination(path: Any) -> Path:
    """Return the path of a file to write, with links resolved. DataError if it cannot be written, before any work is done.

    >>> destination(".")
    Traceback (most recent call last):
    probreg.errors.DataError: cannot write to .: it is a folder; name a file in it
    """
    target = _path(path)
    with _translate_errors(f"cannot write to {target}"):
        place = Path(os.path.realpath(target))
        status = _status(place)
        if status is not None:
            _refuse_special(f"cannot write to {target}", status)
        if not place.parent.is_dir():
            raise DataError(
                f"cannot write to {target}: there is no folder {place.parent}; make it first"
            )
        if status is not None and not os.access(place, os.W_OK):
            raise DataError(
                f"cannot write to {target}: the file is read-only; choose another name"
            )
    return place


def write_whole(
    path: Any, content: bytes | memoryview | Iterable[bytes | memoryview]
) -> Path:
    """Write a file atomically and return its path as given.

    An existing file is kept until the new file is synced, and its permissions are kept. DataError gives the reason if it
    cannot be written; an interrupt is passed on. Neither leaves temporary files.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(f"{folder}/a.txt", b"all of it").read_bytes()
    b'all of it'
    """
    place = destination(path)
    temporary = place.with_name(f".probreg-{secrets.token_hex(8)}.part")
    parts = [content] if isinstance(content, bytes | memoryview) else content
    with _translate_errors(f"cannot write to {path}"):
        try:
            _write_synced(temporary, parts, _status(place))
            os.replace(temporary, place)
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(place.parent)
    return Path(path)


def _write_synced(
    temporary: Path, parts: Iterable[bytes | memoryview], before: os.stat_result | None
) -> None:
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _O_BINARY, 0o666)
    with open(handle, "wb") as file:
        if before is not None and hasattr(os, "fchmod"):
            os.fchmod(handle, stat.S_IMODE(before.st_mode))
        for part in parts:
            file.write(part)
        file.flush()
        os.fsync(handle)


def _sync_folder(folder: Path) -> None:
    """Sync the folder, so that the new name survives a power failure; not available on Windows and some file systems."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(handle)


def read_plain(path: Any) -> bytes:
    """Return the bytes of a regular file, with links resolved. DataError if it is missing, a folder, a device or a pipe.

    Regular files have an end, while a pipe may block and a link to /dev/zero is infinite.
    """
    source = _path(path)
    with _translate_errors(f"cannot read {source}"):
        require_plain(source)
        with open(source, "rb", opener=_opened_at_once) as file:
            status = os.fstat(file.fileno())
            # check again, because the file may have been replaced meanwhile
            _refuse_special(f"cannot read {source}", status)
            return file.read(status.st_size)


def _opened_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | _AT_ONCE)


def require_plain(path: Any) -> Path:
    """Return the path of an existing regular file, with links resolved; DataError as in `read_plain`."""
    source = _path(path)
    with _translate_errors(f"cannot read {source}"):
        try:
            _refuse_special(f"cannot read {source}", os.stat(source))
        except FileNotFoundError:
            raise DataError(f"there is no file {source}") from None
    return source


def _refuse_special(action: str, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise DataError(f"{action}: it is a folder; name a file in it")
    if not stat.S_ISREG(status.st_mode):
        raise DataError(
            f"{action}: it is a device, a pipe or a socket; name a plain file"
        )


class Stamp(NamedTuple):
    """An identification of a file's version: size, time of the last change, and place on the disk."""

    size: int
    written: int
    inode: int
    device: int

    @classmethod
    def of(cls, path: Path) -> "Stamp":
        """Return the stamp of a regular file as it is now. DataError if it does not exist."""
        status = os.stat(require_plain(path))
        return cls(status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev)


def _path(path: Any) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise DataError(
            f"a path is a text or a pathlib.Path, got {type(path).__name__}"
        )
    text = os.fspath(path)
    if not isinstance(text, str) or "\0" in text or not text:
        raise DataError(
            f"{text!r} names no file: a path is a text, not empty, without a null character"
        )
    return Path(text)


def _status(path: Path) -> os.stat_result | None:
    """Return the status of the path, or None if it does not exist."""
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


@contextmanager
def _translate_errors(action: str) -> Iterator[None]:
    """Convert errors of the operating system to DataError."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{action}: {error.strerror or error}") from None
    except UnicodeEncodeError:
        raise DataError(f"{action}: this system cannot write that name") from None

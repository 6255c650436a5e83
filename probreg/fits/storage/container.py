"""The file of a fit: a netCDF image, and behind its last byte a digest of it, which readers of HDF5 do not look at.

The image is made and read in memory, so that HDF5 never meets a full disk or damaged bytes: the digest is checked first.
It tells damage, not forgery. Of a forged image only plain arrays are read, each as large as the bytes that are there.
"""

import hashlib
import io
from types import TracebackType
from typing import Any, Self

import numpy as np

from probreg.errors import DataError

MAGIC = b"probreg sha256 1"
_LENGTH, _DIGEST = 8, 32
TRAILER = len(MAGIC) + _DIGEST + _LENGTH


def image_of(tree: Any) -> bytes:
    """A DataTree as the bytes of a netCDF file."""
    made = io.BytesIO()
    _refuse_nul(tree)
    tree.to_netcdf(made, engine="h5netcdf")
    return made.getvalue()


def _refuse_nul(tree: Any) -> None:
    """DataError for text with a NUL character, which a netCDF file cannot hold."""
    for group in tree.subtree:
        for name, array in group.variables.items():
            if array.dtype.kind not in "OUT":
                continue
            odd = [
                v
                for v in np.asarray(array).ravel().tolist()
                if isinstance(v, str) and "\0" in v
            ]
            if odd:
                raise DataError(
                    f"{odd[0]!r} ({name}) has a NUL character, which a file cannot hold: rename it in the data and fit again"
                )


def seal(image: bytes | memoryview) -> bytes:
    """What stands behind the image in a file: a mark, its SHA-256, and its length, little-endian.

    >>> len(seal(b"any bytes"))
    56
    """
    return (
        MAGIC + hashlib.sha256(image).digest() + len(image).to_bytes(_LENGTH, "little")
    )


def read_verified(data: bytes, name: str) -> memoryview:
    """The image in a file. DataError where its end is missing, and where it is not what was written."""
    end = len(data) - TRAILER
    if end < 0 or data[end : end + len(MAGIC)] != MAGIC:
        raise DataError(
            f"{name} is not a saved fit, or not all of one: the digest that save writes at its end is missing. "
            "It was cut short, changed by another program, not written by Fit.save, or written in format 1, before 0.1.0: fit and save again"
        )
    image = memoryview(data)[:end]
    if data[end:] != seal(image):
        raise DataError(
            f"{name} is damaged or was changed since it was saved: its digest is another. Fit and save again"
        )
    return image


class Container:
    """The texts and plain arrays of a netCDF image: no link is followed out of it, and nothing is larger than it.

    Groups stand at the root and hold arrays only, so that no group can hold itself. An array whose bytes are not all in
    the image, one that is compressed or elsewhere, and one that is not of numbers are refused before they are read.
    """

    def __init__(self, image: memoryview) -> None:
        import h5py

        self._file = h5py.File(io.BytesIO(image), "r")
        self._size = len(image)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def text(self, name: str) -> str:
        """A text in the attributes of the root. DataError where there is none."""
        if name not in self._file.attrs:
            raise DataError(f"it has no attribute {name!r}")
        found = self._file.attrs[name]
        if not isinstance(found, str):
            raise DataError(f"its attribute {name!r} is no text")
        return found

    def __contains__(self, group: str) -> bool:
        return group in self._file

    def names(self, group: str) -> list[str]:
        """What a group holds. DataError where it is missing, or is no group of this file."""
        return list(self._linked_member(self._file, group, "group"))

    def array(self, group: str, name: str) -> np.ndarray:
        """An array of numbers. DataError where it is missing, is of another kind, or is not all there."""
        import h5py

        found = self._linked_member(
            self._linked_member(self._file, group, "group"), name, "array"
        )
        where = f"{group}/{name}"
        plan = found.id.get_create_plist()
        if (
            not isinstance(found.dtype, np.dtype)
            or found.dtype.kind not in "fiub"
            or found.shape is None
        ):
            raise DataError(f"{where} holds {found.dtype}, and numbers belong there")
        if (
            plan.get_layout() != h5py.h5d.CONTIGUOUS
            or plan.get_external_count()
            or plan.get_nfilters()
        ):
            raise DataError(
                f"{where} is stored in pieces, compressed or in another file, which no saved fit is"
            )
        if found.nbytes > self._size or found.nbytes != found.id.get_storage_size():
            raise DataError(
                f"{where} is declared as {found.shape}, and its values are not all in the file"
            )
        values = np.asarray(found[()])
        return (
            values.astype(float) if values.dtype.kind == "f" else values
        )  # also of half the digits, which no solver takes

    def _linked_member(self, group: Any, name: str, kind: str) -> Any:
        """A member of a group by a plain link."""
        import h5py

        if kind == "group":
            wanted = h5py.Group
        else:
            wanted = h5py.Dataset
        link = group.get(name, getlink=True)
        if link is None:
            raise DataError(f"it has no {kind} {name!r}")
        if (
            not isinstance(link, h5py.HardLink)
            or group.get(name, getclass=True) is not wanted
        ):
            raise DataError(
                f"{name!r} is no {kind} of this file, but a link or something else"
            )
        return group[name]

"""The file of a saved fit: a netCDF image followed by its SHA-256, which HDF5 readers ignore.

The image is written and read in memory, and the digest is checked before HDF5 parses the image. The digest detects damage but not
forgery. From a forged image, only plain arrays are read, and none larger than the file.
"""

import hashlib
import io
from typing import Any

import numpy as np

from probreg.errors import DataError

MAGIC = b"probreg sha256 1"
_LENGTH_BYTES = 8
TRAILER = len(MAGIC) + hashlib.sha256().digest_size + _LENGTH_BYTES


def netcdf_image(tree: Any) -> bytes:
    """Return a DataTree as the bytes of a netCDF file. DataError for text with a NUL character, which netCDF does not support."""
    for group in tree.subtree:
        for name, array in group.variables.items():
            if array.dtype.kind not in "OUT":
                continue
            for value in np.asarray(array).ravel().tolist():
                if isinstance(value, str) and "\0" in value:
                    raise DataError(
                        f"{value!r} in {name} has a NUL character, which a file cannot hold: rename it and fit again"
                    )
    buffer = io.BytesIO()
    tree.to_netcdf(buffer, engine="h5netcdf")
    return buffer.getvalue()


def seal(image: bytes | memoryview) -> bytes:
    """Return the bytes that follow the image in a file: a marker, its SHA-256, and its length, little-endian.

    >>> len(seal(b"any bytes"))
    56
    """
    length = len(image).to_bytes(_LENGTH_BYTES, "little")
    return MAGIC + hashlib.sha256(image).digest() + length


def read_verified(data: bytes, name: str) -> memoryview:
    """Return the image in a file. DataError if its digest is missing or differs."""
    end = len(data) - TRAILER
    if end < 0 or data[end : end + len(MAGIC)] != MAGIC:
        raise DataError(
            f"{name} is not a complete saved fit: the digest at its end is missing. It was cut short, changed by another program, "
            "or not written by Fit.save"
        )
    image = memoryview(data)[:end]
    if data[end:] != seal(image):
        raise DataError(
            f"{name} is damaged or was changed since it was saved: its digest differs. Fit and save again"
        )
    return image


class Container:
    """The text attributes and plain arrays of a netCDF image; it follows no link and reads no array larger than the image."""

    def __init__(self, image: memoryview) -> None:
        import h5py

        self._file = h5py.File(io.BytesIO(image), "r")
        self._size = len(image)

    def close(self) -> None:
        """Close the image."""
        self._file.close()

    def __contains__(self, group: str) -> bool:
        return group in self._file

    def text(self, name: str) -> str:
        """Return a text attribute of the root. DataError if there is none."""
        value = self._file.attrs.get(name)
        if not isinstance(value, str):
            raise DataError(f"it has no text attribute {name!r}")
        return value

    def names(self, group: str) -> list[str]:
        """Return the names of the arrays in a group. DataError if it is missing or not a group of this file."""
        return list(self._member(self._file, group, "group"))

    def array(self, group: str, name: str) -> np.ndarray:
        """Return an array of numbers. DataError if it is missing, of another type, or not completely in the file."""
        import h5py

        parent = self._member(self._file, group, "group")
        array = self._member(parent, name, "array")
        where = f"{group}/{name}"
        dtype = array.dtype
        numeric = isinstance(dtype, np.dtype) and dtype.kind in "fiub"
        if not numeric or array.shape is None:
            raise DataError(f"{where} has type {dtype}: expected numbers")
        plan = array.id.get_create_plist()
        contiguous = plan.get_layout() == h5py.h5d.CONTIGUOUS or not array.size
        if not contiguous or plan.get_external_count() or plan.get_nfilters():
            raise DataError(
                f"{where} is stored in pieces, compressed or in another file; a saved fit has plain arrays"
            )
        if array.nbytes > self._size or array.nbytes != array.id.get_storage_size():
            raise DataError(
                f"{where} has shape {array.shape}, and its values are not all in the file"
            )
        values = np.asarray(array[()])
        if dtype.kind == "f":
            return values.astype(float)
        return values

    def _member(self, group: Any, name: str, kind: str) -> Any:
        """Return a member of a group. DataError if it is missing, a link, or of another kind."""
        import h5py

        classes = {"group": h5py.Group, "array": h5py.Dataset}
        link = group.get(name, getlink=True)
        if link is None:
            raise DataError(f"it has no {kind} {name!r}")
        plain = isinstance(link, h5py.HardLink)
        if not plain or group.get(name, getclass=True) is not classes[kind]:
            raise DataError(f"{name!r} is not one of its plain {kind}s")
        return group[name]

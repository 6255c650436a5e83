"""The memory of this machine, and sizes as text."""

import math
import os


def physical_memory() -> int | None:
    """Return the bytes of memory of the machine; None if the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # no sysconf, or none of these names
        return None


def in_bytes(size: float) -> str:
    """Format a number of bytes.

    >>> in_bytes(2_400_000), in_bytes(8e11)
    ('2.4 MB', '800 GB')
    """
    units = ("bytes", "kB", "MB", "GB", "TB")
    step = min(int(math.log10(max(size, 1))) // 3, len(units) - 1)
    return f"{size / 1000**step:.3g} {units[step]}"

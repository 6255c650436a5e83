"""The figure that every picture is drawn on. This module imports matplotlib and is itself imported on use only."""

from io import BytesIO

from matplotlib.figure import Figure


class Picture(Figure):
    """A matplotlib Figure outside pyplot: nothing to close, and a notebook shows it once, as the value of its cell."""

    def _repr_png_(self) -> bytes:
        buffer = BytesIO()
        self.savefig(buffer, format="png", dpi=150)
        return buffer.getvalue()

"""The style of all pictures: light, sparse, with series that differ by marker and line as well as by colour."""

from textwrap import fill
from typing import Any

import numpy as np

from probreg.arguments.scalars import Figure, PositivePair
from probreg.fits.fit import Fit

Size = PositivePair  # inches, width and height

INK, GREY, LIGHT = "#222222", "#6e6e6e", "#d4d4d4"
SMALL, NORMAL = 8.5, 9.5  # points
MANY_MARKS = 400  # marks; more are drawn as one image, so that a file stays small
DASHED = (0, (4, 2))
# of zero and of the diagonal
REFERENCE: dict[str, Any] = {
    "color": GREY,
    "linewidth": 0.9,
    "linestyle": DASHED,
    "zorder": 0,
}


# dark and light alternate, so that neighbours differ in greyscale; colours are safe for the colour-blind
_COLORS = ("#173f6e", "#d9691e", "#0f6b57", "#d9a400", "#7b3f79", "#8d97a0")
_MARKERS = ("o", "s", "^", "D", "v", "P")
_LINES = (
    "-",
    (0, (6, 2)),
    (0, (1.5, 1.5)),
    (0, (7, 2, 1.5, 2)),
    (0, (3, 1.5)),
    (0, (1, 3)),
)


def mark(i: int) -> dict[str, Any]:
    """Return the colour, marker and line of series number i, as settings of `Axes.plot`."""
    j = i % len(_COLORS)
    return {
        "color": _COLORS[j],
        "marker": _MARKERS[j],
        "markerfacecolor": _COLORS[j] if i % 2 == 0 else "white",
        "linestyle": _LINES[j],
    }


def fitted_name(fit: Fit) -> str:
    """Name the fitted quantity: a mean, a probability, a quantile."""
    response = fit.model.design.response
    name = fit.model.likelihood.mean_name(response)
    if name == response:
        return f"fitted mean of {shorten(name)}"
    return f"fitted {shorten(name.removeprefix('the '))}"


def plain_text(text: object) -> str:
    """Return a name for matplotlib: dollar signs escaped, line breaks as spaces."""
    return " ".join(str(text).split()).replace("$", r"\$")


def shorten(text: object, limit: int = 48) -> str:
    """Shorten a name by leaving out its middle, because names differ at their ends.

    >>> shorten("measurement of site 12", 14)
    'measurem…te 12'
    """
    name = plain_text(text)
    tail = limit // 3 + 1
    if len(name) <= limit:
        return name
    return f"{name[: limit - 1 - tail]}…{name[-tail:]}"


def paper(
    rows: int = 1,
    cols: int = 1,
    *,
    size: Size,
    figsize: Size | None,
    **shared: Any,
) -> tuple[Figure, Any]:
    """Return an empty figure of `figsize` inches, by default of `size`, and its axes (rows, cols)."""
    from probreg.show.plot.picture import Picture

    fig = Picture(figsize=figsize or size, layout="constrained", facecolor="white")
    axes = fig.subplots(rows, cols, squeeze=False, **shared)
    for ax in axes.flat:
        plain_axes(ax)
    return fig, axes


def panels(
    count: int,
    across: int,
    *,
    width: float,
    height: float,
    figsize: Size | None,
    **shared: Any,
) -> tuple[Figure, list[Any]]:
    """Return a figure with `count` axes, at most `across` in a row of this height, and the axes."""
    cols = min(count, across)
    rows = -(-count // cols)
    size = (width, 0.8 + height * rows)
    fig, axes = paper(rows, cols, size=size, figsize=figsize, **shared)
    for i, ax in enumerate(axes.flat):
        if i >= count:
            ax.remove()
        elif "sharex" in shared:
            ax.tick_params(labelbottom=i + cols >= count)
    return fig, list(axes.flat[:count])


def plain_axes(ax: Any) -> None:
    """Remove the box of axes and shorten their ticks."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(GREY)
        ax.spines[side].set_linewidth(0.8)
    ax.tick_params(labelsize=SMALL, labelcolor=INK, color=GREY, length=3, width=0.8)


def axes_size(ax: Any) -> tuple[float, float]:
    """Return the approximate width and height of axes in inches, before the layout."""
    box = ax.get_position()
    fig = ax.get_figure(root=True)
    return box.width * fig.get_figwidth(), box.height * fig.get_figheight()


def few_ticks(ax: Any) -> None:
    """Limit the ticks of the x axis to as many numbers as fit, at least two."""
    from matplotlib.ticker import MaxNLocator

    # widths of a letter that a number under an axis takes up, with a gap
    tick_width = 5.5
    number = int(axes_size(ax)[0] * 72.0 / (SMALL * 0.6 * tick_width))
    ax.xaxis.set_major_locator(
        MaxNLocator(nbins=max(2, min(number, 6)), steps=[1, 2, 5, 10])
    )


def _wrap_text(text: str, letters: float) -> str:
    """Wrap a text into lines of this number of letters, and keep its line breaks."""
    return "\n".join(fill(line, max(int(letters), 12)) for line in text.splitlines())


def label(
    ax: Any, x: str | None = None, y: str | None = None, title: str | None = None
) -> None:
    """Write the names of the axes in lines that fit, and a title at the left."""
    # letters per inch, in the name of an axis and in a bold title
    axis_letters = 14.0
    title_letters = 13.5
    wide, high = axes_size(ax)
    if x is not None:
        ax.set_xlabel(_wrap_text(x, wide * axis_letters), fontsize=NORMAL, color=INK)
    if y is not None:
        ax.set_ylabel(_wrap_text(y, high * axis_letters), fontsize=NORMAL, color=INK)
    if title is not None:
        limit = max(int(wide * title_letters), 12)
        ax.set_title(
            shorten(title.replace(r"\$", "$"), limit),
            fontsize=NORMAL,
            color=INK,
            loc="left",
            fontweight="bold",
        )


def points(ax: Any, x: Any, y: Any, **settings: Any) -> None:
    """Draw the rows of the data as grey rings, small if there are many."""
    n = len(x)
    rings = {"facecolors": "none", "edgecolors": GREY, "linewidths": 0.8}
    ax.scatter(
        x, y, 16 if n < 300 else 7, rasterized=n > MANY_MARKS, **rings | settings
    )


def top_legend(fig: Figure, source: Any) -> None:
    """Draw one legend for all panels above them; `source` is the axes with the labels, each label once."""
    handles: dict[str, Any] = {}
    for ax in np.ravel(np.array(source, dtype=object)):
        for handle, name in zip(*ax.get_legend_handles_labels()):
            handles.setdefault(name, handle)
    if not handles:
        return
    width = fig.get_figwidth() * fig.dpi
    for columns in range(min(4, len(handles)), 0, -1):
        legend = fig.legend(
            list(handles.values()),
            list(handles),
            ncols=columns,
            frameon=False,
            fontsize=SMALL,
            labelcolor=INK,
            borderaxespad=0.2,
            loc="outside upper left",
        )
        if columns == 1 or legend.get_window_extent().width <= 0.96 * width:
            return
        legend.remove()


def footnote(fig: Figure, *notes: str, between: str = ". ") -> None:
    """Write a few small words under the picture: the notes that are not empty."""
    letters_per_inch = 14.5
    text = between.join(filter(None, notes))
    if text:
        lines = _wrap_text(text, fig.get_figwidth() * letters_per_inch)
        fig.supxlabel(lines, fontsize=SMALL, color=GREY, x=0.01, ha="left")


def message(ax: Any, text: str) -> None:
    """Write a sentence in the middle of axes that have nothing to draw."""
    where = {"transform": ax.transAxes, "ha": "center", "va": "center"}
    ax.text(0.5, 0.5, text, fontsize=SMALL, color=GREY, wrap=True, **where)

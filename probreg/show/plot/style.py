"""The look of all pictures: light, sparse, told apart by marker and line as well as by colour."""

from collections.abc import Mapping
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probreg.arguments.scalars import shown_value
from probreg.comparison.same_question import by_method, named_as_text
from probreg.errors import DataError
from probreg.fits.fit import Fit
from probreg.fits.goodness import tested_at_found_scales

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Size = tuple[float, float]  # inches, width and height

INK, GREY, LIGHT = "#222222", "#6e6e6e", "#d4d4d4"
SMALL, NORMAL = 8.5, 9.5  # points
MANY = 400  # marks; more are drawn as one image, so that a file stays small
DASHED = (0, (4, 2))
# letters in an inch of a line, by what is written
_FOOT, _LABEL, _TITLE = 14.5, 14.0, 13.5
_TICK = 5.5  # widths of a letter that a number under an axis takes up, with a gap


class Mark(NamedTuple):
    """How one series is drawn."""

    color: str
    marker: str
    fill: str
    line: Any


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


def mark(i: int) -> Mark:
    """The look of series number i."""
    j = i % len(_COLORS)
    return Mark(
        _COLORS[j], _MARKERS[j], _COLORS[j] if i % 2 == 0 else "white", _LINES[j]
    )


def named_fits(fits: "Fit | Mapping[str, Fit]") -> dict[str, Fit]:
    """Fits by name; a single one is named by its method."""
    if isinstance(fits, Fit):
        return by_method([fits])
    return {named_as_text(n): fit for n, fit in dict(fits).items()}


def estimate_word(fit: Fit) -> str:
    """What the number of a fit is called."""
    if fit.target == "posterior":
        return "posterior mean"
    if fit.solution.found is not None and tested_at_found_scales(fit):
        return f"{fit.solution.found.criterion} estimate"
    if fit.model.flat:
        return "ML estimate"
    return "posterior mode"


def fitted_name(fit: Fit) -> str:
    """What a likelihood fits to the rows: a mean, a probability, a quantile."""
    response = fit.model.design.response
    name = fit.model.likelihood.mean_name(response)
    if name == response:
        return f"fitted mean of {shorten(name)}"
    return f"fitted {shorten(name.removeprefix('the '))}"


def say(text: object) -> str:
    """A name as it stands: a dollar sign starts no formula, a line break is a space."""
    return " ".join(str(text).split()).replace("$", r"\$")


def shorten(text: object, most: int = 48) -> str:
    """A name that fits beside a picture: the middle is left out, since names differ at their ends.

    >>> shorten("measurement of site 12", 14)
    'measurem…te 12'
    """
    words = say(text)
    tail = most // 3 + 1
    if len(words) <= most:
        return words
    return f"{words[: most - 1 - tail]}…{words[-tail:]}"


def paper(
    rows: int = 1,
    cols: int = 1,
    *,
    size: Size,
    figsize: Size | None = None,
    ax: "Axes | None" = None,
    **shared: Any,
) -> tuple["Figure", Any]:
    """An empty figure of `figsize` inches, or else of `size`, and its axes (rows, cols); the caller's `ax` is taken as it is."""
    from matplotlib.axes import Axes

    from probreg.show.plot.picture import Picture

    if ax is not None:
        if not isinstance(ax, Axes):
            raise DataError(
                f"ax is the matplotlib Axes to draw on, got {type(ax).__name__}; plt.subplots() makes one"
            )
        plain_axes(ax)
        return ax.get_figure(root=True), np.array([[ax]])  # type: ignore[return-value]
    if figsize is not None:
        size = _inches(figsize)
    fig = Picture(figsize=size, layout="constrained", facecolor="white")
    axes = fig.subplots(rows, cols, squeeze=False, **shared)
    for one in axes.flat:
        plain_axes(one)
    return fig, axes


def _inches(figsize: Any) -> Size:
    try:
        wide, high = (float(v) for v in figsize)
    except (TypeError, ValueError):
        wide = high = np.nan
    if not (0.5 <= wide <= 100.0 and 0.5 <= high <= 100.0):
        raise DataError(
            f"figsize is (width, height) in inches, each from 0.5 to 100, got {shown_value(figsize)}"
        )
    return wide, high


def plain_axes(ax: Any) -> None:
    """Axes without a box, with short grey ticks."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(GREY)
        ax.spines[side].set_linewidth(0.8)
    ax.tick_params(labelsize=SMALL, labelcolor=INK, color=GREY, length=3, width=0.8)


def room(ax: Any) -> tuple[float, float]:
    """About how wide and high axes are, in inches, before the layout is made."""
    box = ax.get_position()
    fig = ax.get_figure(root=True)
    return float(box.width * fig.get_figwidth()), float(
        box.height * fig.get_figheight()
    )


def few_ticks(ax: Any) -> None:
    """As many numbers under the axis as stand beside one another, two at least."""
    from matplotlib.ticker import MaxNLocator

    fit = int(room(ax)[0] * 72.0 / (SMALL * 0.6 * _TICK))
    ax.xaxis.set_major_locator(
        MaxNLocator(nbins=max(2, min(fit, 6)), steps=[1, 2, 5, 10])
    )


def _wrap_text(text: str, letters: float) -> str:
    """The text in lines of so many letters, its own line breaks kept."""
    return "\n".join(fill(line, max(int(letters), 12)) for line in text.splitlines())


def label(
    ax: Any, x: str | None = None, y: str | None = None, title: str | None = None
) -> None:
    """Names of the axes, broken into lines that fit, and a heading at the left."""
    wide, high = room(ax)
    if x is not None:
        ax.set_xlabel(_wrap_text(x, wide * _LABEL), fontsize=NORMAL, color=INK)
    if y is not None:
        ax.set_ylabel(_wrap_text(y, high * _LABEL), fontsize=NORMAL, color=INK)
    if title is not None:
        most = max(int(wide * _TITLE), 12)
        ax.set_title(
            shorten(title.replace(r"\$", "$"), most),
            fontsize=NORMAL,
            color=INK,
            loc="left",
            fontweight="bold",
        )


def points(ax: Any, x: Any, y: Any, **look: Any) -> None:
    """The rows of the data: grey rings, small where they are many."""
    n = len(x)
    style = {
        "s": 16 if n < 300 else 7,
        "facecolors": "none",
        "edgecolors": GREY,
        "linewidths": 0.8,
    }
    ax.scatter(x, y, **style | {"rasterized": n > MANY} | look)


def top_legend(fig: "Figure", source: Any, ax: "Axes | None" = None) -> None:
    """One legend for all panels, above them, where it hides nothing; above the caller's `ax` where the picture is drawn on it.

    `source` is the axes whose labels it says, or several: a word that stands twice is said once.
    """
    found: dict[str, Any] = {}
    for one in np.ravel(np.array(source, dtype=object)):
        for handle, word in zip(*one.get_legend_handles_labels()):
            found.setdefault(word, handle)
    if not found:
        return
    look: dict[str, Any] = {
        "frameon": False,
        "fontsize": SMALL,
        "labelcolor": INK,
        "borderaxespad": 0.2,
    }
    place: dict[str, Any] = {"loc": "outside upper left"}
    wide = fig.get_figwidth() * fig.dpi
    if ax is not None:
        # above a second axis that stands on top
        if ax.child_axes:
            top = 1.2
        else:
            top = 1.0
        place = {"loc": "lower left", "bbox_to_anchor": (0.0, top)}
        wide = room(ax)[0] * fig.dpi
    for columns in range(min(4, len(found)), 0, -1):
        made = (fig if ax is None else ax).legend(
            list(found.values()), list(found), ncols=columns, **place, **look
        )
        if columns == 1 or made.get_window_extent().width <= 0.96 * wide:
            return
        made.remove()


def footnote(fig: "Figure", text: str, ax: "Axes | None" = None) -> None:
    """A few small words under the picture, or under the caller's `ax` where it is drawn on it."""
    if not text:
        return
    if ax is None:
        wide = fig.get_figwidth() * _FOOT
        fig.supxlabel(
            _wrap_text(text, wide), fontsize=SMALL, color=GREY, x=0.01, ha="left"
        )
        return
    ax.annotate(
        _wrap_text(text, room(ax)[0] * _FOOT), (0.0, -0.2), xycoords=(ax.transAxes, ax.xaxis.label),
        fontsize=SMALL, color=GREY, ha="left", va="top", annotation_clip=False,
    )  # fmt: skip


def message(ax: Any, text: str) -> None:
    """A sentence in place of a picture that cannot be drawn."""
    ax.text(0.5, 0.5, _wrap_text(text, room(ax)[0] * _FOOT), transform=ax.transAxes, ha="center", va="center",
            fontsize=SMALL, color=GREY)  # fmt: skip

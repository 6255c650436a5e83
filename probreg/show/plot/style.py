"""The look of all pictures: light, sparse, told apart by marker and line as well as by colour."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from probreg.fits.fit import Fit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, GREY, LIGHT = "#222222", "#6e6e6e", "#d4d4d4"
SMALL, NORMAL = 8.5, 9.5  # points
MANY = 400  # marks; more are drawn as one image, so that a file stays small


class Mark(NamedTuple):
    """How one series is drawn."""

    color: str
    marker: str
    fill: str
    line: Any


# dark and light alternate, so that neighbours differ in greyscale; colours are safe for the colour-blind
_COLORS = ("#173f6e", "#d9691e", "#0f6b57", "#d9a400", "#7b3f79", "#8d97a0")
_MARKERS = ("o", "s", "^", "D", "v", "P")
_LINES = ("-", (0, (6, 2)), (0, (1.5, 1.5)), (0, (7, 2, 1.5, 2)), (0, (3, 1.5)), (0, (1, 3)))


def mark(i: int) -> Mark:
    """The look of series number i."""
    j = i % len(_COLORS)
    return Mark(_COLORS[j], _MARKERS[j], _COLORS[j] if i % 2 == 0 else "white", _LINES[j])


def named_fits(fits: "Fit | Mapping[str, Fit]") -> dict[str, Fit]:
    """Fits by name; a single one is named by its method."""
    return {fits.method.name: fits} if isinstance(fits, Fit) else dict(fits)


def estimate_word(fit: Fit) -> str:
    """What the number of a fit is called."""
    if fit.target == "posterior":
        return "posterior mean"
    return "ML estimate" if fit.model.flat else "posterior mode"


def say(text: object) -> str:
    """A name as it stands: a dollar sign starts no formula, a line break is a space."""
    return " ".join(str(text).split()).replace("$", r"\$")


def shorten(text: object, most: int = 48) -> str:
    """A name that fits beside a picture."""
    words = say(text)
    return words if len(words) <= most else words[: most - 1] + "…"


def paper(rows: int = 1, cols: int = 1, *, size: tuple[float, float], **shared: Any) -> tuple["Figure", Any]:
    """An empty figure of `size` inches and its axes (rows, cols)."""
    from probreg.show.plot.picture import Picture

    fig = Picture(figsize=size, layout="constrained", facecolor="white")
    axes = fig.subplots(rows, cols, squeeze=False, **shared)
    for ax in axes.flat:
        plain_axes(ax)
    return fig, axes


def plain_axes(ax: Any) -> None:
    """Axes without a box, with short grey ticks."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(GREY)
        ax.spines[side].set_linewidth(0.8)
    ax.tick_params(labelsize=SMALL, labelcolor=INK, color=GREY, length=3, width=0.8)


def label(ax: Any, x: str | None = None, y: str | None = None, title: str | None = None) -> None:
    """Names of the axes and a heading at the left."""
    if x is not None:
        ax.set_xlabel(x, fontsize=NORMAL, color=INK)
    if y is not None:
        ax.set_ylabel(y, fontsize=NORMAL, color=INK)
    if title is not None:
        ax.set_title(title, fontsize=NORMAL, color=INK, loc="left", fontweight="bold")


def legend(ax: Any, **where: Any) -> None:
    """A legend without a frame."""
    ax.legend(frameon=False, fontsize=SMALL, labelcolor=INK, **where)


def top_legend(fig: "Figure", ax: Any) -> None:
    """One legend for all panels, above them, where it hides nothing."""
    handles, words = ax.get_legend_handles_labels()
    if handles:
        fig.legend(handles, words, loc="outside upper left", ncols=4, frameon=False, fontsize=SMALL, labelcolor=INK)


def footnote(fig: "Figure", text: str) -> None:
    """One small line under the picture."""
    if text:
        fig.supxlabel(text, fontsize=SMALL, color=GREY, x=0.01, ha="left")


def message(ax: Any, text: str) -> None:
    """A sentence in place of a picture that cannot be drawn."""
    ax.text(
        0.5,
        0.5,
        text,
        transform=ax.transAxes,
        ha="center",
        va="center",
        fontsize=SMALL,
        color=GREY,
        wrap=True,
    )

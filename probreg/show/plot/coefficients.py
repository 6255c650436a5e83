"""Estimates and intervals of several fits side by side."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probreg.arguments.scalars import Probability, checked
from probreg.fits.fit import Fit
from probreg.show.plot.style import GREY, LIGHT, SMALL, estimate_word, footnote, label, mark, named_fits, paper, shorten

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST = 40  # parameters in one picture
_NEAR = 2.0  # zero belongs to the axis when it is within so many widths of the intervals


class _Row(NamedTuple):
    estimate: float
    lower: float
    upper: float


@checked
def coefficients(fits: "Fit | Mapping[str, Fit]", prob: Probability = 0.95) -> "Figure":
    """Estimates with intervals of probability `prob`, one panel per coefficient with an axis of its own.

    Units of coefficients differ, so no two share an axis; within a panel the fits stand under one another in their
    order. A line marks zero where it is near. At most 40 parameters are drawn.

    Parameters
    ----------
    fits : Fit or mapping from str to Fit
        One fit, or several by name.
    prob : float
        Probability of every interval or band, between 0 and 1.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.

    Raises
    ------
    DataError
        Unless 0 < prob < 1.

    Examples
    --------
    >>> import probreg as pr
    >>> model = pr.Model.from_arrays([[2.0], [3.0], [4.0], [6.0]], [5.0, 7.0, 9.0, 13.5], columns=["dose"])
    >>> [ax.get_title(loc="left") for ax in coefficients(pr.fit(model)).axes]
    ['Intercept', 'dose', 'sigma']
    """
    several = named_fits(fits)
    rows = {name: _rows(fit, prob) for name, fit in several.items()}
    parameters = list(dict.fromkeys(k for table in rows.values() for k in table))
    shown = parameters[:MOST]
    cols = 1 if len(shown) <= 4 else 2 if len(shown) <= 16 else 3
    deep = -(-len(shown) // cols)
    height = deep * (0.46 + 0.2 * len(several)) + 0.5
    fig, axes = paper(deep, cols, size=(7.2, max(height, 1.4)))
    words = [shorten(f"{name} ({estimate_word(fit)})", 34) for name, fit in several.items()]
    for ax, parameter in zip(axes.flat, shown):
        _panel(ax, [table.get(parameter) for table in rows.values()], 6 if cols == 1 else 4)
        label(ax, title=shorten(parameter))
    for i, ax in enumerate(axes.flat):
        ax.set_visible(i < len(shown))
        first = i % cols == 0
        ax.set_yticks(range(len(words)), words if first else [""] * len(words))
    left_out = f"; the first {MOST} of {len(parameters)} parameters" if len(parameters) > MOST else ""
    footnote(fig, f"estimates and {100 * prob:g} % intervals, each in the units of its coefficient{left_out}")
    return fig


def _rows(fit: Fit, prob: float) -> dict[str, _Row]:
    """Estimate and interval of each parameter by name."""
    table = fit.summary(prob)
    names = [
        ": ".join(str(part) for part in reversed(k) if part) if isinstance(k, tuple) else str(k) for k in table.index
    ]
    values = table[[table.columns[0], "lower", "upper"]].to_numpy(dtype=float)
    return {name: _Row(*map(float, row)) for name, row in zip(names, values)}


def _panel(ax: Any, rows: list[_Row | None], bins: int) -> None:
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.locator_params(axis="x", nbins=bins)
    ends = np.array([v for r in rows if r is not None for v in r if np.isfinite(v)])
    for i, row in enumerate(rows):
        look = mark(i)
        ax.axhline(i, color=LIGHT, linewidth=0.5, zorder=0)
        if row is None or not np.isfinite(row.estimate):
            said = "not in this model" if row is None else "no estimate exists"
            ax.text(
                0.5,
                i,
                said,
                transform=ax.get_yaxis_transform(),
                fontsize=SMALL,
                color=GREY,
                va="center",
                ha="center",
            )
            continue
        ax.plot([row.lower, row.upper], [i, i], color=look.color, linewidth=1.8, solid_capstyle="butt")
        ax.plot([row.estimate], [i], look.marker, color=look.color, markerfacecolor=look.fill, markersize=6)
    _zero(ax, ends)


def _zero(ax: Any, ends: np.ndarray) -> None:
    """A line at zero where it is near, an arrow towards it where it is not."""
    if not len(ends):
        ax.set_xticks([])
        return
    low, high = ends.min(), ends.max()
    width = (high - low) or abs(high) or 1.0
    if low - _NEAR * width <= 0 <= high + _NEAR * width:
        low, high = min(low, 0.0), max(high, 0.0)
        ax.axvline(0.0, color=GREY, linewidth=0.9, linestyle=(0, (4, 2)), zorder=0)
    else:
        ax.set_title("← 0" if low > 0 else "0 →", fontsize=SMALL, color=GREY, loc="right")
    pad = 0.06 * ((high - low) or abs(high) or 1.0)
    ax.set_xlim(low - pad, high + pad)

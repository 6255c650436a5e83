"""What a drawn picture must not have: words outside the canvas, words over words, words or legends over one another."""

from itertools import combinations
from typing import Any

import numpy as np
from matplotlib.axis import Axis
from matplotlib.text import Text

_TOUCH = 1.5  # pixels by which boxes may meet: letters without tails do not fill theirs


def words(fig: Any) -> list[tuple[Text, Any]]:
    """Every text that is seen, with its box in pixels; numbers beyond the ends of their axis are not drawn."""
    fig.draw_without_rendering()
    unseen: set[Text] = set()
    for axis in fig.findobj(Axis):
        low, high = np.sort(axis.get_view_interval())
        slack = 1e-9 * (high - low)
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
            if (
                not (low - slack <= tick.get_loc() <= high + slack)
                or not axis.get_visible()
            ):
                unseen |= {tick.label1, tick.label2}
        unseen |= {
            t for tick in axis.get_major_ticks() for t, on in _labels(tick) if not on
        }
    hidden = {t for ax in fig.axes if not ax.get_visible() for t in ax.findobj(Text)}
    seen = [
        t
        for t in fig.findobj(Text)
        if t.get_visible() and t.get_text().strip() and t not in unseen | hidden
    ]
    return [(t, t.get_window_extent()) for t in seen]


def _labels(tick: Any) -> list[tuple[Text, bool]]:
    return [
        (tick.label1, tick.label1.get_visible()),
        (tick.label2, tick.label2.get_visible()),
    ]


def _meet(a: Any, b: Any) -> bool:
    wide = min(a.x1, b.x1) - max(a.x0, b.x0)
    high = min(a.y1, b.y1) - max(a.y0, b.y0)
    return wide > _TOUCH and high > _TOUCH


def faults(fig: Any) -> list[str]:
    """Each fault in words; none for a picture that reads."""
    found, texts, edge = [], words(fig), fig.bbox
    for t, box in texts:
        if (
            box.x0 < edge.x0 - 1
            or box.x1 > edge.x1 + 1
            or box.y0 < edge.y0 - 1
            or box.y1 > edge.y1 + 1
        ):
            found.append(f"outside the canvas: {t.get_text()!r}")
    found += [
        f"{a.get_text()!r} over {b.get_text()!r}"
        for (a, p), (b, q) in combinations(texts, 2)
        if a is not b and _meet(p, q)
    ]
    axes = [ax for ax in fig.axes if ax.get_visible()]
    legends = [
        *fig.legends,
        *(ax.get_legend() for ax in axes if ax.get_legend() is not None),
    ]
    for one in legends:
        own, inside = one.get_window_extent(), set(one.findobj(Text))
        found += [
            f"legend over {t.get_text()!r}"
            for t, box in texts
            if t not in inside and _meet(own, box)
        ]
        found += [
            f"legend over the frame of {ax.get_xlabel()!r}"
            for ax in axes
            if _meet(own, ax.patch.get_window_extent())
        ]
    return found

"""Partial residuals: what each variable says of the response beside the others, and whether it says it in a straight line."""

from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from probreg.arguments.scalars import check_arguments
from probreg.assess.after.residuals import columns_by_term, residuals
from probreg.comparison.same_question import method_name
from probreg.data.formula.variables import categories, variables
from probreg.errors import DataError
from probreg.fits.fit import Fit
from probreg.show.plot.observations import smooth
from probreg.show.plot.parameters import Rename, names_to_show
from probreg.show.plot.style import (
    Size,
    footnote,
    label,
    mark,
    paper,
    points,
    shorten,
    top_legend,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray
_MOST, _ACROSS = 12, 3
_FAR = 20.0  # interquartile ranges from the median: residuals beyond are counted, not drawn
_ABREAST = 5  # names of levels that stand beside one another; more stand upright
_LEVELS = 3  # values of a column up to which it is drawn as levels
_SPREAD = 0.18  # how far points of a level stand from its middle


@check_arguments
def partial(
    fit: Fit, *columns: str, rename: Rename | None = None, figsize: Size | None = None
) -> "Figure":
    """Component-plus-residual plots: working residual + b_j (x_j - mean) against x_j.

    The line is b_j (x_j - mean); beside it stands a local-line smooth. A factor, and a column of up to three values, has
    its levels side by side, each with its fitted effect and the mean of its partial residuals. There is one panel for
    each term, and of a softmax for each of its predictors. What lies more than 20 interquartile ranges from the median is
    counted under the panel.

    Parameters
    ----------
    fit : Fit
        A fit.
    *columns : str
        Names of columns or factors; by default each term that is one numeric column or a factor.
    rename : mapping from str to str, optional
        New names of terms.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.

    Raises
    ------
    DataError
        For a name that is no such term.

    References
    ----------
    Ezekiel 1924; Larsen & McCleary 1972.

    Examples
    --------
    >>> import probreg as pr
    >>> fit = pr.fit(pr.Model.from_formula("stack_loss ~ .", pr.load_dataset("stackloss")))
    >>> [ax.get_xlabel() for ax in partial(fit, "air_flow").axes]
    ['air_flow']
    """
    every = residuals(fit, "partial")
    drawable = _terms(fit)
    missing = [c for c in columns if c not in drawable]
    if missing:
        known = ", ".join(drawable) or "none"
        raise DataError(
            f"{missing[0]!r} is no term that is one numeric column or a factor; these are: {known}"
        )
    chosen = list(columns) or list(drawable)[:_MOST]
    if not chosen:
        raise DataError(
            "no term is one numeric column or a factor, so that there are no partial residuals to draw"
        )
    words = names_to_show(chosen, rename)
    outcomes = fit.model.likelihood.outcomes or (None,)
    panels = [(name, k) for name in chosen for k in range(len(outcomes))]
    across = (
        len(outcomes) if 1 < len(outcomes) <= _ACROSS else min(len(panels), _ACROSS)
    )  # a row for each term
    down = -(-len(panels) // across)
    fig, axes = paper(
        down, across, size=(2.6 * across + 0.8, 2.5 * down + 0.7), figsize=figsize
    )
    weights = fit.model.design.weights
    X = fit.model.design.X
    if weights is None:
        used = np.full(len(X), True)
    else:
        used = weights > 0
    coef = fit.solution.beta @ fit.model.likelihood.contrast_matrix.T
    for ax, (name, k) in zip(axes.flat, panels, strict=False):
        at, levels = drawable[name]
        # The effect of the term, X_T b_T, less its mean where an intercept takes it up.
        effect = X[:, at] @ coef[list(at), k]
        if fit.model.design.intercept is not None:
            middle = float(np.average(effect, weights=weights))
        else:
            middle = 0.0
        residual = every.sel(term=name).values.reshape(-1, len(outcomes))[
            fit.model.design.places, k
        ]
        shown = used & _nearby_residuals(residual, used)
        x = X[:, at[0]] if levels is None else levels
        (_draw_line if levels is None else _level_means)(
            ax, x[used], residual[used], effect[used] - middle, shown[used]
        )
        hidden = int((used & ~shown).sum())
        if outcomes[k] is None:
            word = words[name]
        else:
            word = f"{words[name]}, {outcomes[k]}"
        label(ax, x=shorten(word, 32) + (f" ({hidden} rows beyond)" if hidden else ""))
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    for ax in axes[:, 0]:
        label(ax, y=f"effect on {_scale_label(fit)}")
    top_legend(fig, axes.flat[: len(panels)])
    if not columns and len(drawable) > _MOST:
        rest = f". {len(drawable) - len(chosen)} more can be named"
    else:
        rest = ""
    factors = any(drawable[name][1] is not None for name in chosen)
    if factors:
        spread = ". Points of a level are spread sideways"
    else:
        spread = ""
    if not columns:
        others = [
            shorten(name, 24) for name in columns_by_term(fit) if name not in drawable
        ]
    else:
        others = []
    if others:
        left = f". Not drawn: {', '.join(others[:3])}{' and more' * (len(others) > 3)}"
    else:
        left = ""
    footnote(fig, f"{method_name(fit)}: partial residuals{spread}{rest}{left}")
    return fig


def _terms(fit: Fit) -> dict[str, tuple[tuple[int, ...], Array | None]]:
    """The columns of each term that can be drawn, with the levels of its rows where it is a factor."""
    design = fit.model.design
    factors = categories(design)
    try:
        table: Any = variables(design) if factors else {}
    except (
        DataError
    ):  # a transformed variable cannot be read back: numbers can be drawn all the same
        table = {}
    found: dict[str, tuple[tuple[int, ...], Array | None]] = {}
    for name, at in columns_by_term(fit).items():
        if name in factors and name in table:
            found[name] = (at, np.asarray(table[name]).astype(str))
        elif len(at) == 1 and name not in factors:
            values = np.unique(design.X[:10_000, at[0]])
            few = len(values) <= _LEVELS
            found[name] = (
                at,
                np.array([f"{v:g}" for v in design.X[:, at[0]]]) if few else None,
            )
    return found


def _nearby_residuals(residual: Array, used: Array) -> Array:
    seen = residual[used]
    return (
        np.abs(residual - np.median(seen))
        <= _FAR * np.subtract(*np.quantile(seen, [0.75, 0.25])) + 1e-300
    )


def _scale_label(fit: Fit) -> str:
    response = shorten(fit.model.design.response, 24)
    link = fit.model.likelihood.link.name
    if fit.model.likelihood.outcomes:
        return f"log odds of a class of {response}"
    if link == "identity":
        return f"mean of {response}"
    return f"{link} of the mean of {response}"


def _draw_line(ax: Any, x: Array, y: Array, effect: Array, shown: Array) -> None:
    """A number: the fitted line and a smooth of all rows."""
    points(ax, x[shown], y[shown])
    order = np.argsort(x, kind="stable")[[0, -1]]
    ax.plot(x[order], effect[order], color=mark(0).color, linewidth=1.4, label="fitted")
    at = np.linspace(x.min(), x.max(), 60)
    ax.plot(
        at,
        smooth(x, y, at),
        color=mark(1).color,
        linewidth=1.8,
        linestyle=(0, (5, 1.5)),
        label="smooth",
    )


def _level_means(ax: Any, level: Array, y: Array, effect: Array, shown: Array) -> None:
    """A factor: its levels side by side, a bar at each fitted effect, a mark at the mean of the partial residuals."""
    names = list(dict.fromkeys(level.tolist()))
    names = sorted(
        names,
        key=lambda v: (
            (0, float(v), v)
            if v.replace(".", "").lstrip("-").isdigit()
            else (1, 0.0, v)
        ),
    )
    rng, (fitted, mean) = np.random.default_rng(0), (mark(0), mark(1))
    for i, name in enumerate(names):
        mine = level == name
        x = i + rng.uniform(-_SPREAD, _SPREAD, len(y))
        points(ax, x[mine & shown], y[mine & shown])
        ends = [i - 0.32, i + 0.32]
        ax.plot(
            ends,
            [effect[mine].mean()] * 2,
            color=fitted.color,
            linewidth=1.8,
            label="fitted",
        )
        ax.plot(
            [i],
            [y[mine].mean()],
            "D",
            color=mean.color,
            markersize=5,
            label="mean of a level",
        )
    ax.set_xlim(-0.5, len(names) - 0.5)
    many = len(names) > _ABREAST
    wide = 20 if many else max(4, int(26 / len(names)))
    ax.set_xticks(
        range(len(names)),
        [
            "\n".join(
                shorten(w, wide)
                for w in (
                    fill(v, wide, break_long_words=False) if not many else v
                ).splitlines()
            )
            for v in names
        ],
    )
    ax.tick_params(axis="x", labelrotation=90 if many else 0)

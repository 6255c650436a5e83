"""Partial residuals of each term, to see whether its effect is a straight line."""

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
from probreg.show.plot.style import (
    DASHED,
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
_ABREAST = 5  # names of levels written horizontally; more are written vertically
_LEVELS = 3  # values of a column up to which it is drawn as levels
_SPREAD = 0.18  # largest distance of points from the middle of their level


@check_arguments
def partial(fit: Fit, *columns: str, figsize: Size | None = None) -> "Figure":
    """Draw partial residuals (component plus residual): working residual + b_j (x_j - mean) against x_j.

    The straight line is b_j (x_j - mean), the other one a local-line smooth. A factor, and a column of up to three values, has
    its levels side by side, each with its fitted effect and the mean of its partial residuals. There is one panel for
    each term, and for each predictor of a softmax. The panel states the number of residuals that are more than 20
    interquartile ranges from the median and not drawn.

    Parameters
    ----------
    fit : Fit
        A fit.
    *columns : str
        Names of columns or factors; by default every term with one numeric column or a factor.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.

    Raises
    ------
    DataError
        For a name of another term.

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
    partial_residuals = residuals(fit, "partial")
    drawable = _terms(fit)
    missing = [c for c in columns if c not in drawable]
    if missing:
        term_names = ", ".join(drawable) or "none"
        raise DataError(
            f"{missing[0]!r} is not a term with one numeric column or a factor; there are: {term_names}"
        )
    chosen = list(columns) or list(drawable)[:_MOST]
    if not chosen:
        raise DataError(
            "no partial residuals to draw: no term is one numeric column or a factor"
        )
    outcomes = fit.model.likelihood.outcomes or (None,)
    panels = [(name, k) for name in chosen for k in range(len(outcomes))]
    across = (
        len(outcomes) if 1 < len(outcomes) <= _ACROSS else min(len(panels), _ACROSS)
    )  # a row for each term
    down = -(-len(panels) // across)
    fig, axes = paper(
        down, across, size=(2.6 * across + 0.8, 2.5 * down + 0.7), figsize=figsize
    )
    for ax, (name, k) in zip(axes.flat, panels, strict=False):
        residual = partial_residuals.sel(term=name).values.reshape(-1, len(outcomes))
        _draw_term(ax, fit, drawable[name], residual[fit.model.design.places, k], k)
        title = name if outcomes[k] is None else f"{name}, {outcomes[k]}"
        label(ax, x=shorten(title, 32) + ax.get_xlabel())
    for ax in axes.flat[len(panels) :]:
        ax.set_visible(False)
    for ax in axes[:, 0]:
        label(ax, y=f"effect on {_scale_label(fit)}")
    top_legend(fig, axes.flat[: len(panels)])
    notes = [f"{method_name(fit)}: partial residuals"]
    if any(drawable[name][1] is not None for name in chosen):
        notes.append("Points of a level are spread sideways")
    if not columns and len(drawable) > _MOST:
        notes.append(f"{len(drawable) - len(chosen)} more terms can be named")
    undrawn = [shorten(t, 24) for t in columns_by_term(fit) if t not in drawable]
    if undrawn and not columns:
        suffix = " and more" * (len(undrawn) > 3)
        notes.append(f"Not drawn: {', '.join(undrawn[:3])}{suffix}")
    footnote(fig, ". ".join(notes))
    return fig


def _draw_term(
    ax: Any,
    fit: Fit,
    term: tuple[tuple[int, ...], Array | None],
    residual: Array,
    outcome: int,
) -> None:
    """Draw the partial residuals of one term, and count those too far to draw in the label of the x axis."""
    columns, levels = term
    design = fit.model.design
    coef = fit.solution.beta @ fit.model.likelihood.contrast_matrix.T
    # the effect of the term, X_T b_T, minus its mean if there is an intercept
    effect = design.X[:, columns] @ coef[list(columns), outcome]
    if design.intercept is not None:
        effect = effect - float(np.average(effect, weights=design.weights))
    used = np.full(design.n, True)
    if design.weights is not None:
        used = design.weights > 0
    in_view = _nearby_residuals(residual, used)[used]
    x = design.X[:, columns[0]] if levels is None else levels
    draw = _draw_line if levels is None else _level_means
    draw(ax, x[used], residual[used], effect[used], in_view)
    if not in_view.all():
        ax.set_xlabel(f" ({int((~in_view).sum())} rows beyond)")


def _terms(fit: Fit) -> dict[str, tuple[tuple[int, ...], Array | None]]:
    """Return the columns of each term that can be drawn, with the levels of its rows if it is a factor."""
    design = fit.model.design
    factors = categories(design)
    try:
        table: Any = variables(design) if factors else {}
    except (
        DataError
    ):  # a transformed variable cannot be read back: numbers can be drawn all the same
        table = {}
    terms_by_name: dict[str, tuple[tuple[int, ...], Array | None]] = {}
    for name, positions in columns_by_term(fit).items():
        if name in factors and name in table:
            terms_by_name[name] = (positions, np.asarray(table[name]).astype(str))
        elif len(positions) == 1 and name not in factors:
            values = np.unique(design.X[:10_000, positions[0]])
            few = len(values) <= _LEVELS
            terms_by_name[name] = (
                positions,
                np.array([f"{v:g}" for v in design.X[:, positions[0]]])
                if few
                else None,
            )
    return terms_by_name


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
    """Draw the fitted line of a numeric column, and a smooth of all rows."""
    points(ax, x[shown], y[shown])
    ends = np.argsort(x, kind="stable")[[0, -1]]
    ax.plot(x[ends], effect[ends], color=mark(0).color, linewidth=1.4, label="fitted")
    grid = np.linspace(x.min(), x.max(), 60)
    style = {"color": mark(1).color, "linewidth": 1.8, "linestyle": DASHED}
    ax.plot(grid, smooth(x, y, grid), label="smooth", **style)


def _level_means(ax: Any, level: Array, y: Array, effect: Array, shown: Array) -> None:
    """Draw the levels of a factor side by side: a bar at each fitted effect, a mark at the mean of the partial residuals."""
    names = sorted(dict.fromkeys(level.tolist()), key=_level_order)
    rng = np.random.default_rng(0)
    for i, name in enumerate(names):
        in_level = level == name
        x = i + rng.uniform(-_SPREAD, _SPREAD, len(y))
        points(ax, x[in_level & shown], y[in_level & shown])
        bar = {"color": mark(0).color, "linewidth": 1.8, "label": "fitted"}
        ax.plot([i - 0.32, i + 0.32], [effect[in_level].mean()] * 2, **bar)
        dot = {"color": mark(1).color, "markersize": 5, "label": "mean of a level"}
        ax.plot([i], [y[in_level].mean()], "D", **dot)
    ax.set_xlim(-0.5, len(names) - 0.5)
    if len(names) > _ABREAST:
        ax.set_xticks(range(len(names)), [shorten(name, 20) for name in names])
        ax.tick_params(axis="x", labelrotation=90)
        return
    width = max(4, int(26 / len(names)))
    lines = [fill(name, width, break_long_words=False).splitlines() for name in names]
    labels = ["\n".join(shorten(line, width) for line in text) for text in lines]
    ax.set_xticks(range(len(names)), labels)


def _level_order(name: str) -> tuple[int, float, str]:
    """Order numbers by value, then text by letters."""
    if name.replace(".", "").lstrip("-").isdigit():
        return 0, float(name), name
    return 1, 0.0, name

"""Coefficients along the scale of a prior, and the criterion that chooses the scale."""

from typing import Any

import numpy as np

from probreg.arguments.scalars import Figure, Positive, check_arguments
from probreg.comparison.tuning import RegularisationPath, TuningResult
from probreg.errors import DataError
from probreg.show.plot.style import (
    DASHED,
    GREY,
    INK,
    LIGHT,
    Size,
    footnote,
    label,
    mark,
    paper,
    plain_axes,
    plain_text,
    shorten,
    top_legend,
)

Array = np.ndarray
ALL = 8  # up to this number of columns all are named
FEW_NAMES = 6  # number of names for more columns, with the largest coefficients


@check_arguments
def path(
    found: RegularisationPath,
    chosen: TuningResult | Positive | None = None,
    *,
    figsize: Size | None = None,
) -> Figure:
    """Draw coefficients along the scales of a prior, on a log axis, with the effective degrees of freedom at the top.

    The left end is the prior's centre, and the right end is maximum likelihood (marks, if it exists). A vertical line marks the chosen
    scale. Coefficients are per standard deviation of their column. Columns without a prior are not drawn. If there are more than eight
    columns, the six with the largest coefficients at the chosen scale (or anywhere) are named, and the others are grey. A softmax
    has one panel for each outcome.

    Parameters
    ----------
    found : RegularisationPath
        Result of `pr.path`.
    chosen : TuningResult or float, optional
        The scale to mark, within the scales of the path.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.

    Raises
    ------
    DataError
        For a chosen scale beyond the path.

    Examples
    --------
    >>> import probreg as pr
    >>> from probreg.comparison.tuning import path as scale_path
    >>> model = pr.Model.from_formula("stack_loss ~ .", pr.load_dataset("stackloss"), prior=pr.Normal(1.0, scaled=True))
    >>> path(scale_path(model, n=20)).axes[0].get_xlabel().startswith("factor on the scales of the prior")
    True
    """
    max_panels = 6  # outcomes
    model = found.model
    columns = np.flatnonzero(model.joint.informative)
    columns = columns[columns != model.design.intercept]
    names = [shorten(model.design.columns[j], 26) for j in columns]
    outcomes = [str(v) for v in model.likelihood.outcomes] or [""]
    sd = np.asarray(model.design.moments.scale, dtype=float)[columns]
    unit = np.where(sd > 0, sd, 1.0)[:, None]
    shape = (len(model.design.columns), len(outcomes))
    curves = found.coef.values.reshape(-1, *shape)[:, columns] * unit
    ends = np.full(curves.shape[1:], np.nan)
    if found.ml is not None:
        ends = found.ml.coef.values.reshape(shape)[columns] * unit
    scale = chosen.scale if isinstance(chosen, TuningResult) else chosen
    low, high = found.scales[[0, -1]]
    # the ends have been through logarithms
    if scale is not None and not low * (1 - 1e-9) <= scale <= high * (1 + 1e-9):
        raise DataError(
            f"chosen={scale:g}: the path has scales from {low:.4g} to {high:.4g}; take a path with scales= that contain it"
        )
    shown = outcomes[:max_panels]
    height = (4.1 if len(shown) == 1 else 2.9) * len(shown)
    fig, axes = paper(len(shown), 1, size=(7.6, height), figsize=figsize, sharex=True)
    for k, ax in enumerate(axes[:, 0]):
        labelled = _columns_to_name(found.scales, curves[:, :, k], scale)
        _draw_curves(ax, found.scales, curves[:, :, k], ends[:, k], labelled, names)
        if scale is not None:
            ax.axvline(scale, color=INK, linewidth=1.0, linestyle=DASHED, zorder=1)
        y = "change of the linear predictor\nper sd of the column"
        label(ax, y=y, title=shorten(shown[k]) if len(outcomes) > 1 else None)
    x = "factor on the scales of the prior: left its centre, right maximum likelihood"
    label(axes[-1, 0], x=x)
    df = found.data["df"].values
    _draw_degrees(axes[0, 0], found.scales, df)
    top_legend(fig, axes[0, 0])
    notes = ["marks at the right: maximum likelihood"]
    if found.ml is None:
        notes = ["no maximum likelihood estimate exists"]
    if scale is not None:
        degrees = np.interp(np.log(scale), np.log(found.scales), df)
        notes.append(
            f"dashed: the chosen scale {scale:.3g}, {degrees:.1f} degrees of freedom"
        )
    if len(columns) > ALL:
        notes.append(
            f"{FEW_NAMES} of {len(columns)} columns are named, grey curves may leave the frame"
        )
    if len(outcomes) > max_panels:
        notes.append(f"the first {max_panels} of {len(outcomes)} outcomes")
    footnote(fig, *notes, between="; ")
    return fig


def _columns_to_name(scales: Array, curves: Array, scale: float | None) -> Array:
    """Return the columns with names; the column with the largest last value is first."""
    size = np.nanmax(np.abs(curves), axis=0)
    if scale is not None:
        size = np.abs(curves[int(np.argmin(np.abs(np.log(scales / scale))))])
    labelled = np.arange(curves.shape[1])
    if len(labelled) > ALL:
        labelled = np.argsort(-np.nan_to_num(size), kind="stable")[:FEW_NAMES]
    return labelled[np.argsort(-curves[-1, labelled], kind="stable")]


def _draw_curves(
    ax: Any,
    scales: Array,
    curves: Array,
    ends: Array,
    labelled: Array,
    names: list[str],
) -> None:
    """Draw grey curves first, then those with names, each with a mark at its maximum likelihood estimate."""
    ax.set_xscale("log")
    ax.axhline(0.0, color=GREY, linewidth=0.9, zorder=0)
    ax.plot(
        scales, np.delete(curves, labelled, 1), color=LIGHT, linewidth=0.7, zorder=1
    )
    right = scales[-1] * (scales[-1] / scales[0]) ** 0.025
    for number, j in enumerate(labelled):
        look = mark(number)
        line = look | {"marker": None, "linewidth": 1.6, "zorder": 3}
        ax.plot(scales, curves[:, j], label=names[j], **line)
        if np.isfinite(ends[j]):
            ax.plot([right], [ends[j]], markersize=4.5, clip_on=False, **look)
    ax.set_xlim(scales[0], right)
    # the frame contains the named curves and their ends; grey ones may leave it
    values = np.r_[curves[:, labelled].ravel(), ends[labelled], 0.0]
    low = np.nanmin(values)
    high = np.nanmax(values)
    pad = 0.06 * ((high - low) or 1.0)
    ax.set_ylim(low - pad, high + pad)


def _draw_degrees(ax: Any, scales: Array, df: Array) -> None:
    """Write the effective degrees of freedom above the axis."""
    top = ax.secondary_xaxis("top")
    plain_axes(top)
    ticks = np.geomspace(scales[0], scales[-1], 9)[:-1] if len(scales) > 1 else scales
    is_finite = np.isfinite(df)
    values = np.interp(np.log(ticks), np.log(scales[is_finite]), df[is_finite])
    top.set_xticks(ticks, [f"{v:.1f}" for v in values])
    top.minorticks_off()
    top.spines["top"].set_visible(False)
    label(top, x="effective degrees of freedom")


@check_arguments
def tune(found: TuningResult, *, figsize: Size | None = None) -> Figure:
    """Draw the score of every scale with one standard error each way, and lines at the smallest score and the chosen scale.

    A dotted line is one standard error above the smallest score; effective degrees of freedom are at the top.

    Parameters
    ----------
    found : TuningResult
        Result of `pr.tune`.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.

    Examples
    --------
    >>> import probreg as pr
    >>> from probreg.comparison.tuning import tune as tuned
    >>> model = pr.Model.from_formula("stack_loss ~ .", pr.load_dataset("stackloss"), prior=pr.Normal(1.0, scaled=True))
    >>> tune(tuned(model, "aic")).axes[0].get_ylabel()
    'score: aic'
    """
    table = found.table.astype({"score": float, "se": float, "df": float})
    scales = np.asarray(table.index, dtype=float)
    score = table["score"].to_numpy()
    se = table["se"].to_numpy()
    fig, axes = paper(size=(6.6, 4.3), figsize=figsize)
    ax = axes[0, 0]
    ax.set_xscale("log")
    spread = 0.0
    if np.isfinite(se).any():
        spread = np.nanmax(se)
        band = {"color": LIGHT, "linewidth": 0}
        ax.fill_between(scales, score - se, score + se, label="score ± 1 SE", **band)
        limit = table.loc[found.best, ["score", "se"]].sum()
        ax.axhline(limit, color=GREY, linestyle=":", label="least + 1 SE")
    ax.plot(scales, score, label="score", markersize=2.6, linewidth=1.2, **mark(0))
    line = {"color": INK, "linewidth": 1.1, "linestyle": DASHED}
    ax.axvline(found.scale, label=f"chosen: {found.scale:.3g}", **line)
    if found.best != found.scale:
        line = {"color": GREY, "linewidth": 1.1}
        ax.axvline(found.best, label=f"least: {found.best:.3g}", **line)
    # cut off scores that are very high at one end
    finite = score[np.isfinite(score)]
    low = finite.min()
    reach = 6.0 * max(np.median(finite) - low, spread)
    high = min(finite.max() + spread, low + reach)
    if high > low:
        pad = 0.08 * (high - low)
        ax.set_ylim(low - spread - pad, high + pad)
    _draw_degrees(ax, scales, table["df"].to_numpy())
    x = "factor on the scales of the prior (small: strong prior)"
    label(ax, x=x, y=f"score: {found.criterion.name}")
    top_legend(fig, axes)
    footnote(fig, plain_text(found.description))
    return fig

"""Coefficients against the scale of their prior: its centre at one end, maximum likelihood at the other."""

from typing import TYPE_CHECKING, Any

import numpy as np

from probreg.arguments.scalars import check_arguments
from probreg.comparison.tuning import RegularisationPath, TuningResult
from probreg.show.plot.parameters import Rename, Scale, names_to_show
from probreg.show.plot.style import (
    GREY,
    INK,
    LIGHT,
    SMALL,
    Size,
    footnote,
    label,
    mark,
    paper,
    plain_axes,
    shorten,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray
ALL = 8  # columns that are all told apart
FEW = 6  # of more columns: those with the largest coefficients
_PANELS = 6  # outcomes
_LINE = 0.155  # inches from one name to the next


@check_arguments
def path(
    found: RegularisationPath,
    chosen: "TuningResult | float | None" = None,
    *,
    scale: Scale = "sd",
    rename: Rename | None = None,
    figsize: Size | None = None,
) -> "Figure":
    """Coefficients along the scales of a prior, on a log axis, with the effective degrees of freedom on top.

    On the left stands the prior's centre, on the right, as marks, maximum likelihood where it exists; a vertical line
    is the chosen scale. Columns that the prior leaves free are not drawn. Of more than eight columns the six largest at
    the chosen scale (or anywhere) are named, the others grey. One panel per outcome of a softmax.

    Parameters
    ----------
    found : RegularisationPath
        What `pr.path` returned.
    chosen : TuningResult or float, optional
        The scale to mark.
    scale : {"sd", "raw"}
        Coefficients per standard deviation of the column, or per unit of it.
    rename : mapping from str to str, optional
        New names of columns or parameters.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.

    Examples
    --------
    >>> import probreg as pr
    >>> from probreg.comparison.tuning import path as scale_path
    >>> model = pr.Model.from_formula("stack_loss ~ .", pr.load_dataset("stackloss"), prior=pr.Normal(1.0, scaled=True))
    >>> path(scale_path(model, n=20)).axes[0].get_xlabel().startswith("factor on the scales of the prior")
    True
    """
    curves, ends, names, panels = _curves(found, scale)
    words = names_to_show(names, rename)
    at = chosen.scale if isinstance(chosen, TuningResult) else chosen
    shown = panels[:_PANELS]
    height = 4.1 if len(shown) == 1 else 2.9
    fig, axes = paper(
        len(shown), 1, size=(7.6, height * len(shown)), figsize=figsize, sharex=True
    )
    for k, ax in enumerate(axes[:, 0]):
        named = _columns_to_label(found.scales, curves[:, :, k], at)
        _draw_curves(
            ax,
            found.scales,
            curves[:, :, k],
            None if ends is None else ends[:, k],
            named,
        )
        _draw_names(
            ax,
            curves[-1, named, k],
            [words[names[j]] for j in named],
            _LINE / (0.77 * fig.get_figheight() / len(shown)),
        )
        if at is not None:
            ax.axvline(at, color=INK, linewidth=1.0, linestyle=(0, (5, 3)), zorder=1)
        label(
            ax,
            y=_scale_unit(scale),
            title=shorten(shown[k]) if len(panels) > 1 else None,
        )
    label(
        axes[-1, 0],
        x="factor on the scales of the prior: left its centre, right maximum likelihood",
    )
    _on_top(axes[0, 0], found)
    footnote(fig, _foot(found, curves.shape[1], at, len(panels), ends is None))
    return fig


def _curves(
    found: RegularisationPath, scale: Scale
) -> tuple[Array, Array | None, list[str], list[str]]:
    """Coefficients (S, q, outcomes or 1) and those of maximum likelihood (q, outcomes or 1), names of columns, panels."""
    model = found.model
    touched = np.flatnonzero(
        model.joint.informative
        & (np.arange(model.shape[0]) != _parse_number(model.design.intercept))
    )
    if scale == "raw":
        unit = np.ones(len(touched))
    else:
        unit = _column_sds(model, touched)
    panels = [str(v) for v in model.likelihood.outcomes] or [""]
    shape = (len(found.scales), model.shape[0], len(panels))
    curves = found.coef.values.reshape(shape)[:, touched] * unit[:, None]
    if found.ml is None:
        ml = None
    else:
        ml = found.ml.coef.values.reshape(shape[1:])[touched] * unit[:, None]
    return curves, ml, [model.design.columns[j] for j in touched], panels


def _parse_number(j: int | None) -> int:
    return -1 if j is None else j


def _column_sds(model: Any, touched: Array) -> Array:
    """Standard deviations of the columns, 1 for one that does not vary."""
    sd = np.asarray(model.design.moments.scale, dtype=float)[touched]
    return np.where(sd > 0, sd, 1.0)


def _scale_unit(scale: Scale) -> str:
    if scale == "raw":
        return "coefficient, in units of its column"
    return "change of the linear predictor\nper sd of the column"


def _columns_to_label(scales: Array, curves: Array, scale: float | None) -> Array:
    """The columns that are told apart, largest last value first."""
    if scale is None:
        at = -1
    else:
        at = int(np.argmin(np.abs(np.log(scales / scale))))
    size = (
        np.abs(np.nan_to_num(curves[at] if scale is not None else curves))
        .reshape(-1, curves.shape[1])
        .max(0)
    )
    if curves.shape[1] > ALL:
        few = np.argsort(-size, kind="stable")[:FEW]
    else:
        few = np.arange(curves.shape[1])
    return few[np.argsort(-curves[-1, few], kind="stable")]


def _draw_curves(
    ax: Any, scales: Array, curves: Array, ends: Array | None, named: Array
) -> None:
    """Grey curves first, then those with names, each joined to its estimate of maximum likelihood."""
    ax.set_xscale("log")
    ax.axhline(0.0, color=GREY, linewidth=0.9, zorder=0)
    for j in sorted(set(range(curves.shape[1])) - set(named.tolist())):
        ax.plot(scales, curves[:, j], color=LIGHT, linewidth=0.7, zorder=1)
    wide = scales[-1] * (scales[-1] / scales[0]) ** 0.025
    for number, j in enumerate(named):
        look = mark(number)
        ax.plot(
            scales,
            curves[:, j],
            color=look.color,
            linestyle=look.line,
            linewidth=1.6 if number < 6 else 1.0,
            zorder=3,
        )
        if ends is not None:
            ax.plot(
                [scales[-1], wide],
                [curves[-1, j], ends[j]],
                color=look.color,
                linewidth=0.6,
                zorder=2,
            )
            ax.plot(
                [wide], [ends[j]], look.marker, color=look.color, markerfacecolor=look.fill, markersize=4.5,
                clip_on=False, zorder=4,
            )  # fmt: skip
    ax.set_xlim(scales[0], wide)
    # The frame holds the named curves and their ends; grey ones may leave it.
    values = np.concatenate(
        [
            curves[:, named].ravel(),
            (np.zeros(0) if ends is None else ends[named]),
            [0.0],
        ]
    )
    values = values[np.isfinite(values)]
    low = float(values.min())
    high = float(values.max())
    pad = 0.06 * ((high - low) or 1.0)
    ax.set_ylim(low - pad, high + pad)


def _draw_names(ax: Any, values: Array, names: list[str], gap: float) -> None:
    """Names at the right, at the ends of their curves, pushed apart."""
    low, high = ax.get_ylim()
    place = _spread_positions(
        np.clip((np.nan_to_num(values) - low) / (high - low), 0.0, 1.0), gap
    )
    for number, (y, name) in enumerate(zip(place, names)):
        pale = number % 6 in (3, 5)  # too light to be read
        ax.annotate(
            shorten(name, 26), (1.0, y), xycoords="axes fraction", xytext=(9, 0), textcoords="offset points",
            fontsize=SMALL, color=INK if pale else mark(number).color, va="center", annotation_clip=False,
        )  # fmt: skip


def _spread_positions(y: Array, gap: float) -> Array:
    """Positions, decreasing, at least `gap` apart and as near to y as a pass each way leaves them."""
    out = np.array(y, dtype=float)
    for i in range(1, len(out)):
        out[i] = min(out[i], out[i - 1] - gap)
    if len(out) and out[-1] < 0.0:
        out[-1] = 0.0
        for i in range(len(out) - 2, -1, -1):
            out[i] = max(out[i], out[i + 1] + gap)
    return out


def _on_top(ax: Any, found: RegularisationPath) -> None:
    """Effective degrees of freedom above the axis."""
    top = ax.secondary_xaxis("top")
    plain_axes(top)
    df = found.data["df"].values
    scales = found.scales
    if len(scales) > 1:
        at = np.geomspace(scales[0], scales[-1], 9)[:-1]
    else:
        at = scales
    known = np.isfinite(df)
    values = np.interp(np.log(at), np.log(scales[known]), df[known])
    top.set_xticks(at, [f"{v:.1f}" for v in values])
    top.minorticks_off()
    top.spines["top"].set_visible(False)
    label(top, x="effective degrees of freedom")


def _foot(
    found: RegularisationPath,
    columns: int,
    scale: float | None,
    panels: int,
    endless: bool,
) -> str:
    said = [
        "marks at the right: maximum likelihood"
        if not endless
        else "no maximum likelihood estimate exists"
    ]
    if scale is not None:
        df = float(
            np.interp(np.log(scale), np.log(found.scales), found.data["df"].values)
        )
        said.append(
            f"dashed: the chosen scale {scale:.3g}, {df:.1f} degrees of freedom"
        )
    if columns > ALL:
        said.append(
            f"{FEW} of {columns} columns are named, grey curves may leave the frame"
        )
    if panels > _PANELS:
        said.append(f"the first {_PANELS} of {panels} outcomes")
    return "; ".join(said)

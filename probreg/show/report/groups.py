"""The section on groups: how far their effects vary, in sentences, as a table and as pictures."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from probreg.comparison import Comparison
from probreg.errors import ProbregError
from probreg.fits.fit import Fit
from probreg.fits.variance_shares import effective_of_terms, variance_shares
from probreg.inference.base import has_effects
from probreg.inference.varying import effects_of_groups, groups_said, natural_names
from probreg.priors import LatentPrior
from probreg.show.plot.effects import effects
from probreg.show.report.pictures import Shown, judged_fit, picture_of
from probreg.show.report.tables import WideTable, estimates_table, kinds_said, minus
from probreg.system.terminal import percent
from probreg.tables.formats import decimals, format_rounded


class GroupsSection(NamedTuple):
    """What is said of groups, by which fit, the table of all fits and the pictures of this one."""

    by: str
    sentences: list[str]
    table: WideTable
    kinds: str
    pictures: list[Shown]


class _Between(NamedTuple):
    """A standard deviation or a correlation between groups: its name in tables and what it is of."""

    name: str
    group: str
    of: tuple[str, ...]  # one effect of a standard deviation, two of a correlation


def fits_of_groups(fits: Mapping[str, Fit]) -> dict[str, Fit]:
    """Those with effects that vary by a group."""
    return {name: fit for name, fit in fits.items() if has_effects(fit.model)}


def groups_section(of: Comparison) -> GroupsSection:
    """Of the fit that answers among those with effects of groups; the table has all fits."""
    name, fit = judged_fit(fits_of_groups(of.fits))
    every = [b for one in fits_of_groups(of.fits).values() for b in _group_scales(one)]
    names = list(dict.fromkeys(b.name for b in every))
    said = [f"The fit has {groups_said(fit.model)}."]
    said += [_describe_variation(of, name, b) for b in _group_scales(fit)]
    said += [*_intraclass_correlations(fit), *_spent(fit)]
    pictures = [
        _picture(name, fit, group, of.prob) for group in effects_of_groups(fit.model)
    ]
    by = name if len(of.fits) > 1 else ""
    return GroupsSection(
        by, said, estimates_table(of, names), kinds_said(of, names), pictures
    )


def _group_scales(fit: Fit) -> list[_Between]:
    """The standard deviations and correlations that are unknown, term by term."""
    stated = fit.stated_model
    out = []
    for i, b in enumerate(stated.joint.blocks):
        term = stated.design.grouped_of(b.columns)
        prior = b.prior
        if term is not None and isinstance(prior, LatentPrior):
            names = natural_names(stated, i, prior)
        else:
            names = None
        if term is None or not names:
            continue
        this: Any = prior
        of: dict[str, tuple[str, ...]] = {f"sd[{e}]": (e,) for e in this.effects}
        of |= {
            f"cor[{this.effects[j]}, {this.effects[k]}]": (
                this.effects[j],
                this.effects[k],
            )
            for k, j in this.pairs
        }
        out += [_Between(called, term.group, of[own]) for own, called in names.items()]
    return out


def _describe_variation(of: Comparison, name: str, about: _Between) -> str:
    """How far one effect varies, or how two go together."""
    one = of.data.sel(param=about.name, fit=name)
    value, lower, upper = (float(one[k]) for k in ("estimate", "lower", "upper"))
    whom = f"groups of {about.group}"
    if len(about.of) == 1:
        if about.of[0] == "Intercept":
            what = "The intercept"
        else:
            what = f"The coefficient of {about.of[0]}"
        if value == 0.0:
            return f"{what} does not vary between {whom} in this fit: its standard deviation is 0{_up_to(of, name, about)}."
        said = f"{what} varies between {whom} with standard deviation"
    else:
        said = f"Over {whom} the effects of {about.of[0]} and {about.of[1]} have correlation"
    places = decimals(
        np.array(
            [(upper - lower) / 4.0 if np.isfinite(upper - lower) else abs(value) / 10.0]
        )
    )
    ends = f" ({100 * of.prob:g}\u00a0% interval {minus(format_rounded(lower, places))} to {minus(format_rounded(upper, places))})"
    return f"{said} {minus(format_rounded(value, places))}{ends if np.isfinite(upper - lower) else ', without an interval'}."


def _up_to(of: Comparison, name: str, about: _Between) -> str:
    """The end of the interval of a standard deviation of zero, where there is one."""
    try:
        upper = float(of.fits[name].aux_interval(about.name, of.prob)[1])
    except ProbregError:
        return ""
    if np.isfinite(upper):
        return f" ({100 * of.prob:g}\u00a0% interval up to {upper:.3g})"
    return ""


def _intraclass_correlations(fit: Fit) -> list[str]:
    """The intraclass correlation, or why there is none."""
    try:
        icc = variance_shares(fit).icc
    except ProbregError as error:
        return [f"No intraclass correlation: {error}."]
    if fit.model.likelihood.link.name == "identity":
        scale = ""
    else:
        scale = ", on the scale of the linear predictor"
    return [
        f"Of the variance that the columns do not explain, {percent(icc)} lies between groups (intraclass correlation){scale}."
    ]


def _spent(fit: Fit) -> list[str]:
    """Effective degrees of freedom by term, of fits at known scales."""
    words = [
        f"{key} uses {used:.3g} of {most}"
        for key, (used, most) in effective_of_terms(fit).items()
    ]
    if words:
        return [
            f"Effective degrees of freedom: {', '.join(words)}; 0 is complete pooling."
        ]
    return []


def _picture(name: str, fit: Fit, group: str, prob: float) -> Shown:
    share = f"{100 * prob:g} %"
    caption = f"{name}: the effect of each group, as a deviation from the coefficient that all groups share, with {share} intervals."
    alt = f"Effects of {group} with {share} intervals, a panel for each effect"
    return picture_of(
        f"Effects of {group}", caption, alt, lambda: effects(fit, group, prob)
    )

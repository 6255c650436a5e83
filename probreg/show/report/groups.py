"""The section on groups: standard deviations and correlations of their effects, intraclass correlation, pictures."""

from collections.abc import Mapping
from typing import NamedTuple

from probreg.comparison import Comparison
from probreg.comparison.printed_table import parameter_table
from probreg.errors import ProbregError
from probreg.fits.fit import Fit
from probreg.fits.variance_shares import effective_of_terms, variance_shares
from probreg.inference.base import has_effects
from probreg.inference.varying import OF_EFFECTS, describe_groups, effects_of_groups
from probreg.show.plot.effects import effects
from probreg.show.report.pictures import Shown, judged_fit, picture_of
from probreg.system.terminal import percent
from probreg.tables import Table


class GroupsSection(NamedTuple):
    """The name of the fit, sentences about it, the table of all fits, and pictures of this fit."""

    by: str
    sentences: list[str]
    table: Table
    pictures: list[Shown]


def fits_of_groups(fits: Mapping[str, Fit]) -> dict[str, Fit]:
    """Return the fits with effects that vary by a group."""
    return {name: fit for name, fit in fits.items() if has_effects(fit.model)}


def groups_section(comparison: Comparison) -> GroupsSection:
    """Return the section on the main fit among the fits with effects by group; the table has all of these fits."""
    name, fit = judged_fit(fits_of_groups(comparison.fits))
    names = [str(param) for param in comparison.data["param"].values]
    scales = [j for j, param in enumerate(names) if param.startswith(OF_EFFECTS)]
    table = parameter_table(
        comparison, scales, without=("prior", "diff / SE", "SE ratio")
    )
    sentences = [f"The fit has {describe_groups(fit.model)}."]
    sentences += [_intraclass_correlation(fit), *_effective_degrees(fit)]
    pictures = [
        _picture(name, fit, group, comparison.prob)
        for group in effects_of_groups(fit.model)
    ]
    return GroupsSection(
        name if len(comparison.fits) > 1 else "", sentences, table, pictures
    )


def _intraclass_correlation(fit: Fit) -> str:
    """The intraclass correlation, or the reason why there is none."""
    try:
        icc = variance_shares(fit).icc
    except ProbregError as error:
        return f"No intraclass correlation: {error}."
    scale = ", on the scale of the linear predictor"
    if fit.model.likelihood.link.name == "identity":
        scale = ""
    return f"Intraclass correlation{scale}: {percent(icc)} of the variance that the columns do not explain lies between groups."


def _effective_degrees(fit: Fit) -> list[str]:
    """Effective degrees of freedom by term, for fits at known scales."""
    parts = [
        f"{key} uses {used:.3g} of {maximum}"
        for key, (used, maximum) in effective_of_terms(fit).items()
    ]
    if parts:
        return [
            f"Effective degrees of freedom: {', '.join(parts)}; 0 is complete pooling."
        ]
    return []


def _picture(name: str, fit: Fit, group: str, prob: float) -> Shown:
    share = f"{100 * prob:g} %"
    caption = f"{name}: the effect of each group, as a deviation from the coefficient that all groups share, with {share} intervals."
    alt = f"Effects of {group} with {share} intervals, a panel for each effect"
    return picture_of(
        f"Effects of {group}", caption, alt, lambda: effects(fit, group, prob)
    )

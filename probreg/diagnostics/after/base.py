"""The base class of diagnostics of a fit, their registry, and the conditions and remedies that several of them share."""

from typing import ClassVar

import numpy as np

from probreg.diagnostics.before import CHECKS
from probreg.diagnostics.findings import Finder, NotApplicable, stop_if
from probreg.fits.fit import Fit
from probreg.fits.residuals import noiseless_obstacle, rounding_error
from probreg.inference import Status
from probreg.inference.modes.newton_method import Newton
from probreg.likelihoods import OfClasses, OfTrials
from probreg.registry import Registry
from probreg.system.terminal import format_number

Array = np.ndarray
DIAGNOSTICS: Registry["Diagnostic"] = Registry("diagnostic")
_MOST = 1_000_000


class Diagnostic(Finder[Fit]):
    """A diagnostic of a fit: its conditions and its findings.

    `target` is "mode", "posterior" or "any", `when` describes the fits in the catalogue, `rows` is False if the rows are not
    needed.
    """

    target: ClassVar[str] = "any"
    when: ClassVar[str] = ""
    rows: ClassVar[bool] = True

    def require(self, fit: Fit) -> None:
        """Raise NotApplicable for a fit of another target, without an estimate or without rows."""
        if self.target not in ("any", fit.target):
            raise NotApplicable(
                f"it needs a {self.target}, and {fit.method.name} gives a {fit.target}"
            )
        if not fit.method.probabilities:
            raise NotApplicable(f"{fit.method.name} has no probabilities")
        if fit.solution.status is Status.NO_MAXIMUM:
            raise NotApplicable("no estimate, because the likelihood has no maximum")
        if self.rows:
            stop_if(None if fit.model.design.n else fit.model.design.rows_absent)
            stop_if(noiseless_obstacle(fit))


def countable_obstacle(fit: Fit, minimum: int = 8) -> str | None:
    """Return why the observations of a fit cannot be counted one by one, or are too few for a test; otherwise None."""
    design = fit.model.design
    if design.weights is not None and (design.weights % 1 != 0).any():
        return "weights are not whole numbers, so that observations cannot be counted"
    if design.total > _MOST:
        return f"there are more than {_MOST:,} observations, and a test would find differences of no importance"
    free = design.total - design.moments.rank.rank if minimum else 0
    if free < minimum:
        return f"only {free:g} observations remain after the coefficients, and {minimum} are needed"
    return None


def constant_obstacle(fit: Fit, values: Array) -> str | None:
    """Return that a test does not apply because all residuals, or all their squares, are equal; otherwise None."""
    if np.ptp(values) > rounding_error(fit):
        return None
    return f"the residuals or their squares are constant ({format_number(values[0], 3)}), and the test compares them"


def heavier_tails(fit: Fit) -> str:
    """Return the remedy for extreme responses: a likelihood with heavier tails, if there is one."""
    likelihood = fit.model.likelihood
    if likelihood.wider:
        return likelihood.wider
    if isinstance(likelihood, OfTrials):
        return "the trials of a row may be dependent, or the mean may lack a term: see dispersion"
    if isinstance(likelihood, OfClasses):
        return "look for a wrong label, or a missing predictor"
    return "look for a missing predictor; there is no likelihood with heavier tails for such responses"


def robust_errors(fit: Fit, name: str) -> str:
    """Return the last part of a remedy: robust standard errors of this name, if this fit has them."""
    if Newton().obstacle(fit.model) is not None:  # a sandwich needs two derivatives
        return f"{name} need a mode under flat or normal priors"
    if fit.target == "posterior":
        return f"{name} are available for a mode, not for a posterior"
    return f"or use {name}"


def other_spread(fit: Fit, *, overdispersed: bool = True) -> str:
    """Return the remedy for counts or trials with more or less variance than the likelihood implies."""
    kind = "trials" if isinstance(fit.model.likelihood, OfTrials) else "counts"
    wider = f"no likelihood has {'over' if overdispersed else 'under'}dispersed {kind}"
    if overdispersed and fit.model.likelihood.wider:
        wider = fit.model.likelihood.wider
    robust = robust_errors(
        fit, "robust standard errors (covariance('HC1'), or 'cluster' by group)"
    )
    return f"look for a missing predictor; {wider}; {robust}"


def other_likelihood(fit: Fit) -> str:
    """Return the remedy for a response whose distribution is not that of the likelihood."""
    if not fit.model.likelihood.is_discrete:
        return heavier_tails(fit)
    return other_spread(fit)


def catalogue_markdown() -> str:
    """Return the checks before a fit and the diagnostics after it as a Markdown table.

    >>> print(catalogue_markdown().splitlines()[0])
    | name | title | when | picture |
    """
    targets = {"mode": "a point estimate", "posterior": "a posterior", "any": "any fit"}
    lines = ["| name | title | when | picture |", "| --- | --- | --- | --- |"]
    for name, check in sorted(CHECKS.items()):
        lines.append(f"| `{name}` | {check.title} | before the fit |  |")
    for name, diagnostic in sorted(DIAGNOSTICS.items()):
        when = ": ".join(filter(None, (targets[diagnostic.target], diagnostic.when)))
        picture = f"`{diagnostic.picture}`" if diagnostic.picture else ""
        lines.append(f"| `{name}` | {diagnostic.title} | {when} | {picture} |")
    return "\n".join(lines)

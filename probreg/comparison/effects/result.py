"""What effects come as: a table with intervals, the covariance or the draws behind it, and what was averaged, in words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from probreg.comparison.effects.averages import RowGroup, Target, average, averages_of_draws
from probreg.comparison.effects.off_span import EffectSums, EtaTarget, effect_sums
from probreg.errors import Incompatible
from probreg.fits.fit import Fit
from probreg.fits.goodness import exact_fit, has_tests
from probreg.inference.uncertainty.asymptotic import ASYMPTOTIC_DRAWS, asymptotic
from probreg.inference.uncertainty.found_scales import satterthwaite, why_no_satterthwaite
from probreg.inference.uncertainty.intervals.arithmetic import equal_tail, quantile
from probreg.inference.uncertainty.multiplicity import NO_TESTS, Adjusted, adjusted, require_tests
from probreg.likelihoods.links import IDENTITY, LOG, Link
from probreg.model.off_span import JointDraws
from probreg.numerics.frame import covariance_through, map_of_columns
from probreg.system.notebook import notebook_html
from probreg.system.terminal import printed, table_folded

Array = np.ndarray
_KEEPS = 1e-7  # of |gradient| |null|: an effect that moves this little along a direction without an estimate has one


@dataclass(frozen=True, eq=False)
class Effects:
    """Averages over rows with their intervals.

    `table` is a pandas DataFrame, one row per effect: what it is of (variable, contrast, by, at, level), estimate,
    std_error (of a point estimate) or sd (of a posterior), lower, upper; unrounded, `attrs` say prob, kind, method and what.
    `covariance` (R, R) is that of the estimates on the scale `scale` on which they are nearly normal ("identity", "log",
    "logit"), `draws` (S, R) the posterior draws of the estimates, or None.
    """

    table: Any
    what: str
    prob: float
    kind: str
    method: str
    scale: str
    covariance: Array
    draws: Array | None

    def __repr__(self) -> str:
        body = table_folded(self.table, ".table", 35, index=False, float_format=lambda v: f"{v:.5g}")
        return printed(self.what, f"{self.method}, {100 * self.prob:g} % intervals: {self.kind}", *body)

    def _repr_html_(self) -> str:
        how = f"{self.method}, {100 * self.prob:g} % intervals: {self.kind}"
        return notebook_html([self.what, how], [self.table], index=False)


class Family(NamedTuple):
    """Contrasts that are judged together: how, and of how many levels they are all pairs, if they are."""

    adjust: str
    pairs_of: int | None


@dataclass(frozen=True, eq=False)
class AveragedEffect:
    """One set of effects over groups: `labels` say what it is; two targets are contrasted, the second minus the first."""

    labels: Mapping[str, Any]
    targets: tuple[Target, ...]
    groups: list[RowGroup]
    names: list[dict[str, Any]]

    @property
    def terms(self) -> list[EtaTarget]:
        """Its targets with their signs."""
        signs = (1.0,) if len(self.targets) == 1 else (-1.0, 1.0)
        return [EtaTarget(sign, target, self.groups) for sign, target in zip(signs, self.targets)]


@dataclass(frozen=True)
class Scale:
    """Where effects are averaged, contrasted and shown: the average goes through `link`, a contrast back through `back`."""

    link: Link
    back: Link
    said: str


def evaluate_effects(
    fit: Fit, quantities: list[AveragedEffect], scale: Scale, *, prob: float, covariance: Any, what: str,
    family: Family | None = None,
) -> Effects:  # fmt: skip
    """The table of these quantities, by the delta method for a mode, from the draws for a posterior; with a family p-values and
    intervals that hold for all of them together."""
    import pandas as pd

    labels = [row for q in quantities for row in _labels(fit, q)]
    posterior = fit.solution.draws
    if posterior is not None and covariance is not None:
        raise Incompatible("covariance= is for point estimates: the intervals of a posterior come from its draws")
    if family is not None and posterior is not None:
        raise Incompatible(NO_TESTS)
    by_draws = posterior is not None and not (posterior.elliptical and _linear(fit, scale))
    left = effect_sums(fit, [t for q in quantities for t in q.targets], closed=not by_draws)
    if by_draws:
        columns, kind, cov, draws = _of_draws(fit, quantities, scale, prob, left)
    elif left is None or _linear(fit, scale):
        columns, kind, cov, draws = _of_delta(fit, quantities, scale, prob, covariance, left, family)
    else:
        columns, kind, cov, draws = _of_asymptotic(fit, quantities, scale, prob, covariance, left, family)
    if left is not None:
        kind += left.words
    table = pd.DataFrame(labels).assign(**columns)
    table.attrs = {"prob": prob, "kind": kind, "method": fit.described["method"], "what": what}
    return Effects(table, what, prob, kind, fit.described["method"], scale.link.name, cov, draws)


def _labels(fit: Fit, q: AveragedEffect) -> list[dict[str, Any]]:
    levels = fit.model.likelihood.levels if fit.model.likelihood.outcomes else ()
    each = [{"level": str(v)} for v in levels] or [{}]
    return [{**q.labels, **name, **level} for name in q.names for level in each]


def _linear(fit: Fit, scale: Scale) -> bool:
    """Effects are linear in the coefficients."""
    return fit.model.likelihood.least_squares and scale.back is IDENTITY


def _of_delta(
    fit: Fit,
    quantities: list[AveragedEffect],
    scale: Scale,
    prob: float,
    covariance: Any,
    left: EffectSums | None,
    family: Family | None = None,
) -> tuple[dict[str, Array], str, Array, Array | None]:
    found = [_linearised(fit, q, scale) for q in quantities]
    z = np.concatenate([value for value, _ in found])
    G = np.concatenate([gradient for _, gradient in found])
    _estimable(fit, G)
    V, df, words = fit.spread(covariance)
    cov, which = covariance_through(G, V), f"{words.get('kind', 'given')} covariance"
    if left is not None:
        cov = cov + left.covariance(fit, [q.terms for q in quantities], scale.link)
    se = np.sqrt(np.diagonal(cov))
    if exact_fit(fit):  # what stands there is rounding
        se = np.full_like(se, np.nan)
    posterior = fit.solution.draws is not None
    each = None
    if covariance is None and left is None and _linear(fit, scale):
        each = _satterthwaite(fit, G)
    together = None if family is None else _together(fit, family, z, cov, df if each is None else each, prob)
    half = (quantile(prob, df if each is None else each) if together is None else together.critical) * se
    error = se * np.abs(scale.back.slope(z))
    if posterior:
        error = error * (np.sqrt(df / (df - 2.0)) if df is not None and df > 2 else 1.0 if df is None else np.inf)
    law = "normal" if df is None else f"Student-t ({df:g} degrees of freedom)"
    if each is not None:
        few = f"{each.min():.4g}" if np.ptp(each) < 0.01 * each.max() else f"{each.min():.4g} to {each.max():.4g}"
        law = f"Student-t (Satterthwaite's {few} degrees of freedom)"
    where = "" if scale.back is IDENTITY else f" on the {scale.link.name} scale"
    kind = f"{law}, exact" if posterior else f"{law} Wald{where}, delta method, {which}"
    if np.isnan(se).all():
        carries = f"{fit.method.name} carries no standard errors here"
        kind = "none: the fit is exact, its residuals are rounding" if exact_fit(fit) else f"none: {carries}"
    name = "sd" if posterior else "std_error"
    back = scale.back.inverse
    columns = {"estimate": back(z), name: error, "lower": back(z - half), "upper": back(z + half)}
    if together is not None:
        columns, kind = (
            columns | {"p_unadjusted": together.alone, "p_value": together.p},
            f"simultaneous, {together.words}; {kind}",
        )
    return columns, kind, cov, None


def _satterthwaite(fit: Fit, G: Array) -> Array | None:
    """Degrees of freedom of combinations G (R, p) of the flat coefficients of REML; None for others, and with effects of groups."""
    found, head = fit.solution.found, fit.model.design.head
    if found is None or why_no_satterthwaite(fit.solution) or np.delete(G, head, axis=1).any():
        return None
    each = satterthwaite(found).df(G[:, head])
    return each if (each > 0).all() and np.isfinite(each).all() else None


def _together(fit: Fit, family: Family, z: Array, cov: Array, df: float | Array | None, prob: float) -> Adjusted:
    """The adjustment of the tests z = 0. Incompatible where there are no tests."""
    se = np.sqrt(np.diagonal(cov))
    require_tests(has_tests(fit), se)
    return adjusted(z / se, cov, df, prob=prob, adjust=family.adjust, pairs_of=family.pairs_of)


def _linearised(fit: Fit, q: AveragedEffect, scale: Scale) -> tuple[Array, Array]:
    """Values (R,) on the link scale and gradients (R, p m)."""
    known = {k: np.asarray(v) for k, v in fit.aux.items()}
    value, gradient = np.zeros(()), np.zeros(())
    for term in q.terms:
        a, g = average(fit.model, term.target, q.groups, fit.solution.beta, known)
        z = scale.link.forward(a)
        value, gradient = value + term.sign * z, gradient + term.sign * g / scale.link.slope(z)[..., None]
    return value.ravel(), gradient.reshape(value.size, -1)


def _of_draws(
    fit: Fit, quantities: list[AveragedEffect], scale: Scale, prob: float, left: EffectSums | None
) -> tuple[dict[str, Array], str, Array, Array | None]:
    posterior = atoms(fit)
    rng, size = np.random.default_rng([fit.seed, 7]), len(posterior["beta"])
    linear = left is not None and _linear(fit, scale)
    joint = None if left is None or linear else (left, left.joint(fit, size, rng))
    z = np.concatenate(_drawn(fit, quantities, scale, posterior, joint), 1)
    if left is not None and linear:
        z = z + left.draws_of_linear(fit, [q.terms for q in quantities], scale.link, size, rng)
    shown = scale.back.inverse(z)
    lower, upper = equal_tail(shown, prob)
    columns = {"estimate": shown.mean(0), "sd": shown.std(0, ddof=1), "lower": lower, "upper": upper}
    return columns, f"equal-tailed, from {len(z)} draws", np.atleast_2d(np.cov(z.T)), shown


def _of_asymptotic(
    fit: Fit,
    quantities: list[AveragedEffect],
    scale: Scale,
    prob: float,
    covariance: Any,
    left: EffectSums,
    family: Family | None = None,
) -> tuple[dict[str, Array], str, Array, Array | None]:
    """A point estimate whose effects bend in a process off its columns: the mean over the process at the estimate, and intervals
    from draws of the estimate's normal distribution and of the process together. By the delta method where nothing is off."""
    S, rng = ASYMPTOTIC_DRAWS, np.random.default_rng([fit.seed, 7])
    drawn = left.joint(fit, S, rng)
    if drawn.empty:
        return _of_delta(fit, quantities, scale, prob, covariance, None, family)
    _estimable(fit, np.concatenate([_linearised(fit, q, scale)[1] for q in quantities]))
    V, _, words = fit.spread(covariance)
    beta, aux = asymptotic(replace(fit.solution, scale=V), rng)
    held = {a: np.full((S, 1), v) for a, v in fit.model.fixed.items()}
    here = {"beta": np.broadcast_to(fit.solution.beta, (S, *fit.solution.beta.shape))}
    here |= {a: np.full((S, 1), v) for a, v in fit.aux.items()}
    joint = (left, drawn)
    z = np.concatenate(_drawn(fit, quantities, scale, {"beta": beta, **held, **aux}, joint), 1)
    # the average of the mean over the process, then its contrast: link(E b) - link(E a)
    middle = [
        _contrast([scale.link.forward(a.mean(0)) for a in each]).ravel()
        for each in _averages(fit, quantities, here, joint)
    ]
    shown, back = scale.back.inverse(z), scale.back.inverse
    lower, upper = equal_tail(shown, prob)
    error, which = shown.std(0, ddof=1), f"{words.get('kind', 'given')} covariance"
    kind = f"equal-tailed, from {S} draws of the normal distribution of the estimate, {which}"
    if np.isnan(np.asarray(V.diagonal())).all():
        error = lower = upper = np.full(len(error), np.nan)
        kind = f"none: {fit.method.name} carries no standard errors here"
    center, cov = np.concatenate(middle), np.atleast_2d(np.cov(z.T))
    columns = {"estimate": back(center), "std_error": error, "lower": lower, "upper": upper}
    if family is not None:
        together = _together(fit, family, center, cov, None, prob)
        half = together.critical * np.sqrt(np.diagonal(cov))
        columns |= {"lower": back(center - half), "upper": back(center + half)}
        columns |= {"p_unadjusted": together.alone, "p_value": together.p}
        kind = f"simultaneous, {together.words}; normal with the covariance of {S} draws of the estimate, {which}"
    return columns, kind, cov, None


Joint = tuple[EffectSums, JointDraws]


def _averages(
    fit: Fit, quantities: Sequence[AveragedEffect], draws: Mapping[str, Array], joint: Joint | None
) -> list[list[Array]]:
    """(S, G, K) of each target of each effect."""

    def added(target: Target, atoms: slice) -> Sequence[Array]:
        if joint is None:
            return ()
        left, drawn = joint
        return [np.asarray(drawn.at(place, atoms)) for place in left.places[id(target)]]

    found = iter(averages_of_draws(fit.model, [(t, q.groups) for q in quantities for t in q.targets], draws, added))
    return [[next(found) for _ in q.targets] for q in quantities]


def _contrast(each: list[Array]) -> Array:
    """The average, or the second less the first."""
    return each[0] if len(each) == 1 else each[1] - each[0]


def _drawn(
    fit: Fit, quantities: Sequence[AveragedEffect], scale: Scale, draws: Mapping[str, Array], joint: Joint | None
) -> list[Array]:
    """The draws (S, R) of each effect on the scale of the link."""
    each = [
        _contrast([scale.link.forward(a) for a in averages]) for averages in _averages(fit, quantities, draws, joint)
    ]
    return [z.reshape(len(z), -1) for z in each]


def atoms(fit: Fit) -> dict[str, Array]:
    """Posterior draws as beta (S, p, m) and each auxiliary parameter (S, 1)."""
    draws = fit.solution.posterior.flat
    held = {a: np.full((len(draws["beta"]), 1), v) for a, v in fit.model.fixed.items()}
    return {"beta": draws["beta"], **held, **{a: draws[a][:, None] for a in fit.model.unknown}}


def _estimable(fit: Fit, G: Array) -> None:
    """Incompatible for an effect that moves along a direction of the coefficients that the rows do not tell."""
    if fit.solution.null_space is None:
        return
    N = map_of_columns(fit.solution.null_space, fit.model.shape[1])
    if len(bad := np.flatnonzero((np.abs(G @ N) > _KEEPS * (np.abs(G) @ np.abs(N)) + 1e-300).any(1))):
        raise Incompatible(
            f"{len(bad)} of {len(G)} effects have no estimate, because columns are not identified ({fit.solution.detail}). "
            "Ask for effects that keep the relations of the training rows, drop a column, or give a prior."
        )


# A contrast of averages a and b: b - a, b / a, or the ratio of their odds, shown as it is or through exp.
PLAIN = Scale(IDENTITY, IDENTITY, "difference")
RATIO = Scale(LOG, LOG, "ratio")

"""What the prior did to a fit, coefficient by coefficient: its weight, its pull, and whether prior and data conflict.

Everything is set against the same likelihood under flat priors. With P and J the curvatures of the log prior and of the
log likelihood at the estimate and H = P + J, the prior weight is (P H^-1)_jj, for independent normal priors the posterior
variance in units of the prior's. The sum of 1 minus it is the effective number of parameters. The pull
H^-1 grad log p(beta) is the first-order bias of a mode, and by how much a little more of the prior would move it.
"""

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from probreg.arguments.scalars import Flag, check_arguments
from probreg.assess.after.power_scaling import has_prior, power_scaling
from probreg.comparison.prior_terms import (
    information_of_fit,
    prior_curvature_of_fit,
    prior_weights,
)
from probreg.comparison.tipping import REACH, Tipping, tipping_scales
from probreg.data.weights import refuse_sampling
from probreg.errors import Incompatible, NotConverged, ProbregError, ProbregWarning
from probreg.fits.fit import Fit, fit as fit_model
from probreg.fits.inference_data import reported_coefficients
from probreg.inference import Status
from probreg.inference.base import has_effects, outcomes_of
from probreg.priors import Flat, ProximalPrior, SmoothPrior
from probreg.system.terminal import format_p, percent
from probreg.tables import PrintsTable, Table
from probreg.tables.formats import format_digits

Array = np.ndarray
CONFLICT = 0.05  # p-value of the maximum likelihood estimate under what the prior expects of it
MUCH = 0.5  # prior weight from which a coefficient is the prior's more than the data's
_FEW = 4  # names in a sentence
_TIPS = 8  # coefficients that are named with their tipping scale
_TERMS = {
    Status.NO_MAXIMUM.value: "separation",
    Status.NOT_IDENTIFIED.value: "identification",
}
_DRAWS = 20_000  # of the prior, for the p-value: its Monte Carlo error at 0.05 is at most 0.0015


@dataclass(frozen=True, eq=False, repr=False)
class PriorWeight(PrintsTable):
    """`table` has one row per coefficient that is of no smooth function or process: estimate and sd, the estimate and standard error of maximum likelihood, the
    difference between them in standard errors, the prior weight (P H^-1)_jj, the pull in raw units, the p-value of a conflict, the tipping
    scale, and for draws the sensitivities to the powers of prior and likelihood.
    `effective` is the number of coefficients that the data settle, of `free` that can vary (a symmetric softmax reports
    one more for each column, but they sum to zero)."""

    table: Any
    effective: float
    free: int
    sentences: tuple[str, ...]
    ml_status: str

    @property
    def _printed(self) -> Table:
        return Table.from_pandas(
            self.table,
            number=format_digits(3),
            notes=(self._describe_effective_number, *self.sentences),
        )

    @property
    def _describe_effective_number(self) -> str:
        if np.isfinite(self.effective):
            known = f"{self.effective:.3g} of {self.free}"
        else:
            known = "not defined"
        return f"effective number of coefficients: {known}"


@check_arguments
def prior_weight(fit: Fit, *, tipping: Flag = True) -> PriorWeight:
    """What the prior of a fit did: prior weight, difference from maximum likelihood, pull, conflict, sensitivity.

    The prior weight of coefficient j is (P H^-1)_jj; sensitivity is that to power scaling. `tipping_scale` is the scale of the
    prior, all stated scales being multiplied by one factor, at which the mode changes its sign or its 95 % interval the side
    of zero: the nearest of those from 1/1024 to 1024 times the stated; of a posterior too it is that of the mode. Numbers that do not exist are nan: no maximum likelihood
    estimate under separation, no curvature at a kink.

    Parameters
    ----------
    fit : Fit
        A fit.
    tipping : bool
        Whether tipping scales are looked for, which takes some dozens of fits.

    Returns
    -------
    PriorWeight
        `sentences` in words.

    Raises
    ------
    Incompatible
        For a model whose priors are all flat, but for those of smooth functions.

    References
    ----------
    MacKay 1992 (effective numbers); Box 1980 and Evans & Moshonov 2006 (conflict); Kallioinen et al. 2024 (power
    scaling).

    Examples
    --------
    >>> import probreg as pr
    >>> model = pr.Model.from_arrays([1.0, 2.0, 3.0, 4.0], [1.1, 1.9, 3.2, 3.9], columns=["x"], aux={"sigma": 0.2})
    >>> prior_weight(pr.fit(model.with_prior(pr.Normal(0.05, location=0.9)))).sentences[0]
    'prior weight of x: 76.2 %; -0.596 SE from maximum likelihood'
    """
    import pandas as pd

    refuse_sampling(fit.model.design.weight_kind, "the influence of a prior")
    if not fit.model.joint.informative.any():
        raise Incompatible(
            "every prior of coefficients in this model is flat: it has no influence to measure"
        )
    if has_effects(fit.model):
        raise Incompatible(
            "the effects of groups have their prior in common: fit.effects says how far each is pooled. For the prior of another "
            "column fit it without groups"
        )
    if fit.model.design.of_terms.all():
        raise Incompatible(
            "every coefficient is of a smooth function, whose columns say nothing one by one: see `smooths`"
        )
    ml, se, status = maximum_likelihood(fit)
    estimate = fit.coef.values.ravel()
    sd = fit.std_error.values.ravel()
    weights, _ = prior_weights(fit)
    with np.errstate(invalid="ignore", divide="ignore"):
        # In standard errors of maximum likelihood.
        difference = (estimate - ml) / se
    tips = tipping_scales(fit) if tipping else None
    table = pd.DataFrame(
        {
            "estimate": estimate, "sd": sd, "ml": ml, "ml_se": se, "difference": difference,
            "prior_weight": weights.ravel(), "pull": _prior_pull(fit), "conflict": _conflict(fit, ml, se),
        } | ({"tipping_scale": tips.scale} if tips is not None else {}),
        index=pd.Index(fit.parameter_names, name="coef"),
    )  # fmt: skip
    # the K directions that a symmetric softmax reports of K - 1 predictors have K / (K - 1) times their trace
    count = fit.solution.beta.size
    # gamma = k - tr P H^-1, the number of parameters that the data settle (MacKay 1992).
    effective = count * (1.0 - float(table["prior_weight"].mean(skipna=False)))
    outcomes = len(table) // len(fit.model.joint.informative)
    alone = np.repeat(~fit.model.design.of_terms, outcomes)
    table = table[alone]
    if fit.solution.draws is not None and has_prior(fit):
        power = power_scaling(fit)
        table["prior_power"] = power["prior"].reindex(table.index)
        table["likelihood_power"] = power["likelihood"].reindex(table.index)
    informative = np.repeat(fit.model.joint.informative, outcomes)[alone]
    said = [*_sentences(table, informative, status), *_left_out(fit)]
    if tips is not None:
        said += _tipping_said(
            tips,
            fit.parameter_names,
            np.repeat(fit.model.joint.informative, outcomes) & alone,
        )
    return PriorWeight(table, effective, count, tuple(said), status)


def maximum_likelihood(fit: Fit) -> tuple[Array, Array, str]:
    """Estimates and standard errors of the reported coefficients under flat priors, nan where there are none, and the
    status of that fit in words."""
    plain = replace(fit.model, prior=Flat(), aux=dict(fit.model.fixed))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ProbregWarning)
        try:
            found = fit_model(plain, seed=fit.seed)
        except (NotConverged, Incompatible) as error:
            nothing = np.full(fit.coef.size, np.nan)
            return nothing, nothing, str(error)
    s = found.solution
    return (
        found.coef.values.ravel(),
        found.std_error.values.ravel(),
        s.status.value if s.status is not Status.EXACT else "exact",
    )


def _prior_pull(fit: Fit) -> Array:
    """Return H^-1 times the slope of the log prior at the estimate, for the reported coefficients; nan at a kink."""
    model = fit.model
    s = fit.solution
    slope = np.zeros(s.beta.shape)
    sigma = fit.model.noise(fit.aux)
    for b in model.joint.blocks:
        unit = sigma if b.prior.sigma_units else 1.0
        if not isinstance(b.prior, Flat):
            # d log p(beta) / d beta, block by block; priors of blocks are independent.
            b.put(slope, _slope_of(b.prior, b.take(s.beta), unit))
    H = prior_curvature_of_fit(fit) + information_of_fit(fit)[0]
    if not (np.isfinite(H).all() and np.isfinite(slope).all()):
        return np.full(fit.coef.size, np.nan)
    try:
        # One Newton step: H^-1 d log p(beta) / d beta is where the prior pulls the estimate from that of the data.
        moved = np.linalg.solve(H, slope.ravel()).reshape(s.beta.shape)
    except np.linalg.LinAlgError:
        return np.full(fit.coef.size, np.nan)
    return reported_coefficients(model, moved).ravel()


def _slope_of(prior: Any, beta: Array, unit: float) -> Array:
    if isinstance(prior, SmoothPrior):
        return prior.derivatives(beta, unit)[0].reshape(beta.shape)
    if isinstance(prior, ProximalPrior):
        low, high = prior.subgradient(beta, unit)
        return np.where(low == high, -low, np.nan)
    return np.full(beta.shape, np.nan)


def _conflict(fit: Fit, ml: Array, se: Array) -> Array:
    """P(|b - centre| >= |ml - centre|) for b drawn from the prior and then estimated with this standard error, centred at
    the prior's median; nan where the prior is flat or has no draws, or there is no estimate."""
    model = fit.model
    p = model.shape[0]
    k = fit.coef.size // model.shape[0]
    out = np.full((p, k), np.nan)
    rng = np.random.default_rng([fit.seed, 3])
    sigma = fit.model.noise(fit.aux)
    ml = ml.reshape(p, k)
    se = se.reshape(p, k)
    for b in model.joint.blocks:
        where = list(b.columns)
        if isinstance(b.prior, Flat) or model.design.of_terms[where].all():
            continue
        if model.joint.contrast is not None and isinstance(b.prior, ProximalPrior):
            continue  # a penalty of all classes, which has no draws
        try:
            unit = sigma if b.prior.sigma_units else 1.0
            draws = b.prior.sample(
                rng, (_DRAWS, len(where), b.width(model.shape[1])), unit
            )
        except ProbregError:
            continue  # a prior known up to a constant only
        if b.predictor is not None:  # predictors are outcomes then
            own = b.predictor
            expected = draws[..., 0] + se[where, own] * rng.standard_normal(
                draws.shape[:-1]
            )
            far = np.abs(ml[where, own] - np.median(draws[..., 0], axis=0))
            beyond = (np.abs(expected - np.median(draws[..., 0], axis=0)) >= far).mean(
                0
            )
            out[where, own] = np.where(
                np.isfinite(ml[where, own]) & np.isfinite(se[where, own]),
                beyond,
                np.nan,
            )
            continue
        reported = outcomes_of(model, draws).reshape(len(draws), len(where), k)
        centre = np.median(reported, axis=0)
        # The prior predictive of the estimate: beta ~ prior, b | beta ~ N(beta, se^2) (Box 1980; Evans & Moshonov
        # 2006).
        expected = reported + se[where] * rng.standard_normal(reported.shape)
        beyond = (np.abs(expected - centre) >= np.abs(ml[where] - centre)).mean(0)
        out[where] = np.where(
            np.isfinite(ml[where]) & np.isfinite(se[where]), beyond, np.nan
        )
    return out.ravel()


def _sentences(table: Any, informative: Array, status: str) -> list[str]:
    """Where the prior weighs more than the data, and where both disagree, worst first; then what cannot be said."""
    said: list[tuple[float, str]] = []
    for name, row in table.iterrows():
        if row["prior_weight"] >= MUCH:
            if np.isfinite(row["difference"]):
                moved = f"; {row['difference']:+.3g} SE from maximum likelihood"
            else:
                moved = ""
            said.append(
                (
                    row["prior_weight"],
                    f"prior weight of {name}: {percent(row['prior_weight'])}{moved}",
                )
            )
        if row["conflict"] < CONFLICT:
            if row["conflict"] > 0:
                odds = f"{format_p(row['conflict'])}"
            else:
                odds = f"p < {1 / _DRAWS:.0e}"
            where = f"maximum likelihood is {row['ml']:.3g}, which its prior hardly expects ({odds})"
            said.append(
                (2.0 - row["conflict"], f"prior-data conflict on {name}: {where}")
            )
    found = [s for _, s in sorted(said, key=lambda pair: -pair[0])]
    return [
        *(found or _nothing_found(table, informative)),
        *_missing_notes(table, informative, status),
    ]


def _nothing_found(table: Any, informative: Array) -> list[str]:
    """That nothing was found, of the numbers that there are."""
    weights, odds = (
        table[name][informative].dropna() for name in ("prior_weight", "conflict")
    )
    if len(weights) < informative.sum():
        each = f"each coefficient with one ({_first_names(weights.index)})"
    else:
        each = "each coefficient"
    if len(weights):
        out = [f"prior weight: below {100 * MUCH:g} % for {each}"]
    else:
        out = []
    return out + (
        [f"prior-data conflict: none found (least {format_p(odds.min())})"]
        if len(odds)
        else []
    )


def _missing_notes(table: Any, informative: Array, status: str) -> list[str]:
    """List the missing numbers and the reasons."""
    lost = table.index[table["ml"].isna()]
    undefined = table.index[informative & table["prior_weight"].isna()]
    unjudged = table.index[
        informative
        & table["conflict"].isna()
        & table["ml"].notna()
        & table["ml_se"].notna()
    ]
    term = next(
        (word for start, word in _TERMS.items() if status.startswith(start)),
        "maximum likelihood",
    )
    if len(lost):
        out = [
            f"{term}: there is no maximum likelihood estimate of {_first_names(lost)}; the prior alone gives one"
        ]
    else:
        out = []
    if len(undefined):
        out.append(
            f"prior weight: not defined for {_first_names(undefined)}, by a kink, a log prior that is not concave, or a singular H"
        )
    if len(unjudged):
        out.append(
            f"prior-data conflict: not judged for {_first_names(unjudged)}, whose prior has no draws"
        )
    return out


def _tipping_said(tips: Tipping, names: list[str], with_prior: Array) -> list[str]:
    """A line for each coefficient that tips, the nearest first, and one for those that do not."""
    if tips.unsaid:
        return [f"tipping scale: not looked for, {tips.unsaid}"]
    order = [int(j) for j in np.argsort(np.abs(np.log(tips.factor))) if tips.what[j]]
    said = [
        f"tipping scale of {names[j]}: {tips.scale[j]:.3g}, {tips.factor[j]:.3g} times the stated; "
        f"{'below' if tips.factor[j] < 1 else 'above'} it {tips.what[j]}"
        for j in order[:_TIPS]
    ]
    if len(order) > _TIPS:
        said.append(f"tipping scale: {len(order) - _TIPS} more in .table")
    never = [name for j, name in enumerate(names) if with_prior[j] and not tips.what[j]]
    if never:
        reach = f"1/{2**REACH} to {2**REACH} times the stated scale"
        said.append(
            f"tipping scale: none for {_first_names(never)}; from {reach} neither the mode's sign nor its side of zero changes"
        )
    return said


def _left_out(fit: Fit) -> list[str]:
    """Smooth functions and processes have no row: their columns say nothing one by one."""
    terms = [t.name for t in fit.model.design.recipe.terms]
    if terms:
        return [
            f"prior weight: not shown for the columns of {_first_names(terms)}; see `smooths`"
        ]
    return []


def _first_names(names: Any) -> str:
    """Join the first names and the number of the others."""
    kept = ", ".join(map(str, names[:_FEW]))
    return kept + (f" and {len(names) - _FEW} more" if len(names) > _FEW else "")

"""The difference of two fits as a sum over causes: the priors along a path between their modes, then the methods."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy.special import exprel

from probreg.arguments.scalars import DataFrame, Dataset, check_arguments
from probreg.comparison.differences import (
    MODEL,
    Cause,
    FitPair,
    SpecificCause,
    fixed_by_user,
    has_monte_carlo_error,
    summary,
)
from probreg.comparison.numbers import RANK_DECIMALS, Estimates, Step
from probreg.comparison.prior_path import PriorPath
from probreg.comparison.prior_weight import (
    aux_prior_words,
    scale_prior_words,
    scale_priors,
)
from probreg.comparison.same_question import (
    differing_terms,
    fits_by_name,
    refuse_unlike,
)
from probreg.comparison.shares import (
    PathShares,
    changing_groups,
    exact_posterior,
    integrate_path,
    method_steps,
    path_obstacle,
    scale_steps,
)
from probreg.errors import DataError
from probreg.fits.fit import Fit
from probreg.fits.statistics import stated_prior_line
from probreg.inference import Status
from probreg.inference.modes.wide import refuse_written_out
from probreg.inference.uncertainty.covariance import reported_words
from probreg.inference.uncertainty.intervals.kinds import KIND_WORDS
from probreg.priors import AuxPrior
from probreg.system.terminal import cut_text
from probreg.tables import PrintsTable, Table

Array = np.ndarray
_ROUNDING_OF_SHARES = 1e-9  # SE: a smaller share is rounding


@dataclass(frozen=True, eq=False, repr=False)
class Explanation(PrintsTable):
    """The difference of two fits as a sum over causes; the result of `explain`.

    Parameters
    ----------
    names : tuple of str
        Names of the baseline and of the other fit.
    shares : Dataset (param, cause)
        shift, in standard errors of the baseline, which sums to `difference`; log_se, which sums to `log_se_ratio`, the log
        of the other's standard error over the baseline's; over param also both estimates and errors.
    causes : tuple of SpecificCause
        The causes of the shares.
    without_path : str
        The differences of the fits if no path connects them, "" otherwise. The difference is then one share.
    missing : mapping
        The reason for each fit that lacks an estimate.
    chance_known : bool
        Whether "Monte Carlo error" is the distance to an exact answer; otherwise it may include the shape of the posterior.

    Attributes
    ----------
    sentences : dict
        The share of the largest cause for each parameter.

    Examples
    --------
    >>> import probreg as pr
    >>> model = pr.Model.from_arrays([[1.0], [2.0], [4.0], [7.0]], [1.0, 3.0, 4.0, 8.0], columns=["x"], aux={"sigma": 1.0})
    >>> explain(pr.fit(model), pr.fit(model.with_prior(pr.Normal(0.5)))).sentences["x"]
    'x: prior of x: shift -0.8 SE, SE ratio 0.917'
    """

    names: tuple[str, str]
    shares: Dataset
    causes: tuple[SpecificCause, ...] = ()
    without_path: str = ""
    missing: Mapping[str, str] = MappingProxyType({})
    chance_known: bool = True

    @cached_property
    def sizes(self) -> DataFrame:
        """The largest change of an end of a 95 % interval by each cause, in SE: a frame over (param, cause). The widening of the
        interval is shared in proportion to the log of the SE ratio."""
        shift, log_se, ratio = (
            self.shares[q].fillna(0.0) for q in ("shift", "log_se", "log_se_ratio")
        )
        z = 1.96  # standard errors between an estimate and the end of its interval
        return (
            abs(shift) + z * abs(log_se) * exprel(ratio.values)[:, None]
        ).to_pandas()

    def largest(self, param: str) -> str:
        """Return the cause that moves an end of the interval of a parameter most.

        Parameters
        ----------
        param : str
            As in `shares`.

        Returns
        -------
        str
            A cause, "" if nothing differs.

        Raises
        ------
        DataError
            For a parameter that is not in both fits.
        """
        if param not in self.sizes.index:
            raise DataError(
                f"{param!r} is not a parameter of both fits: {', '.join(map(str, self.sizes.index))}"
            )
        sizes = self.sizes.loc[param].round(RANK_DECIMALS)
        if sizes.any():
            return str(sizes.idxmax())
        return ""

    @cached_property
    def sentences(self) -> dict[str, str]:
        """The share of the largest cause for each parameter."""
        params = map(str, self.shares["param"].values)
        return {p: f"{p}: {self._describe(p)}" for p in params}

    def _describe(self, param: str) -> str:
        row = self.shares.sel(param=param)
        missing = [
            f"{name} has no estimate ({self.missing.get(name, '')})"
            for name, end in zip(self.names, ("baseline", "other"))
            if np.isnan(row[end])
        ]
        if missing:
            return "; ".join(missing)
        without = [
            f"no standard error of {name}"
            for name, end in zip(self.names, ("baseline_se", "other_se"))
            if not row[end] > 0
        ]
        if not row["baseline_se"] > 0:
            gap = float(row["other"] - row["baseline"])
            return "; ".join([f"the estimates differ by {gap:+.3g}", *without])
        cause = self.largest(param)
        text = "no difference"
        smallest_described = 0.01  # SE, and of the log SE ratio: a smaller difference is reported as none
        if cause:
            share = row.sel(cause=cause)
            numbers = [
                float(share[q])
                for q in ("shift", "log_se", "difference", "log_se_ratio")
            ]
            if np.abs(np.nan_to_num(numbers)).max() >= smallest_described:
                if cause == Cause.MONTE_CARLO.value and not self.chance_known:
                    cause += " or shape of the posterior"
                text = share_text(cause, *numbers)
        return "; ".join([text, *without])

    def to_pandas(self) -> DataFrame:
        """One row per parameter; columns (quantity, cause) with the shares of "shift" and "log_se", unrounded."""
        import pandas as pd

        return pd.concat(
            {q: self.shares[q].to_pandas() for q in ("shift", "log_se")}, axis=1
        )

    @property
    def _display_table(self) -> Table:
        """The shares of the parameters that differ most, by size, with their sums; the sentences of the largest are notes."""
        import pandas as pd

        ranked = self.sizes.round(RANK_DECIMALS)
        order = ranked.max(axis=1).sort_values(ascending=False, kind="stable").index
        rows = {}
        n_params = 7  # parameters in a print
        n_causes = 3  # of each of them
        for param in [p for p in self.sizes.index if p in order[:n_params]]:
            row = self.shares.sel(param=param)
            sizes = ranked.loc[param].sort_values(ascending=False, kind="stable")
            causes = sizes.index[sizes >= SMALLEST_SHARE]
            shares = {cause: row.sel(cause=cause) for cause in causes[:n_causes]}
            if len(causes) > n_causes:
                shares["others"] = row.sel(cause=causes[n_causes:]).sum("cause")
            for cause, share in shares.items():
                rows[param, cause] = [float(share["shift"]), float(share["log_se"])]
            rows[param, "sum"] = [float(row["difference"]), float(row["log_se_ratio"])]
        names = [f"shift, SE of {self.names[0]}", "log SE ratio"]
        table = pd.DataFrame.from_dict(rows, orient="index", columns=names)
        table.index = pd.MultiIndex.from_tuples(rows, names=["parameter", "cause"])
        a, b = self.names
        title = f"{b} less {a}, cause by cause"
        if self.without_path:
            title += f": {self.without_path}"
        missing = (self.shares["baseline"] + self.shares["other"]).isnull().to_pandas()
        first = [*order[missing[order]], *order[~missing[order]]][:3]
        notes = [self.sentences[str(p)] for p in first]
        if len(order) > n_params:
            notes.append(f"{len(order) - n_params} more parameters in .shares")
        return Table.from_pandas(
            table,
            number=format_share,
            head=(title,),
            notes=tuple(notes),
            source=".shares",
        )


def format_share(value: float) -> str:
    """Format a share to three decimals, 0 without a sign or decimals.

    >>> format_share(-0.0004), format_share(0.0005)
    ('0', '+0.001')
    """
    text = f"{value:+.3f}"
    return "0" if float(text) == 0.0 else text


@check_arguments
def explain(a: Fit | Mapping[str, Fit], b: Fit | None = None) -> Explanation:
    """Attribute the differences of estimates and standard errors between two fits to causes, as shares that add up.

    All different log priors change together, from the priors of a to the priors of b. With weight t, the mode theta(t) of log p(y | theta) +
    (1 - t) log p_a(theta) + t log p_b(theta) changes by H^-1 sum_k g_k dt, and the share of prior k is the integral of its part of
    this sum, so that the shares do not depend on an order. Then come the shares of the methods: degrees of freedom, another
    covariance, skewness (a mean is not a mode), an approximation, Monte Carlo error, early stopping. Mixed models have steps in order: degrees of freedom of
    the mean (ML to REML), prior, then uncertainty of the standard deviations.

    Parameters
    ----------
    a : Fit or mapping
        The baseline; its standard errors are the unit of the shifts. Or a mapping with both fits, {"ML": a, "posterior": b},
        without b, which names them.
    b : Fit
        The other fit, of the same rows.

    Returns
    -------
    Explanation
        `shares` over (param, cause); they sum to the difference of the estimates, and to the log ratio of the standard
        errors, within 1e-8. If no path connects the two (no maximum, another likelihood, a prior with a kink or of unknown
        scale, other columns, other weights, effects by group in one fit only) the difference is one share, and `without_path`
        lists the differences. The rows are the parameters of both fits.

    Raises
    ------
    DataError
        For fits that do not share response, rows, levels and link; for anything but two fits.

    References
    ----------
    Aumann & Shapley 1974, chapter 1: shares along the diagonal; Sundararajan, Taly & Yan 2017: integrated gradients.

    Examples
    --------
    >>> import probreg as pr
    >>> model = pr.Model.from_arrays([[1.0], [2.0], [4.0], [7.0]], [1.0, 3.0, 4.0, 8.0], columns=["x"], aux={"sigma": 1.0})
    >>> found = explain(pr.fit(model), pr.fit(model.with_prior(pr.Normal(0.5))))
    >>> found.shares["shift"].sel(param="x", cause="prior of x").round(3).item()  # (21 / (21 + 4) - 1) 1.095 sqrt(21)
    -0.803
    """
    fits = a if isinstance(a, Mapping) else [a, b]
    if (isinstance(a, Mapping) and b is not None) or len(fits) != 2 or None in fits:
        raise DataError(
            "explain takes two fits: explain(ml, posterior), or explain({'ML': ml, 'posterior': posterior}); compare takes more"
        )
    several = fits_by_name(fits, "explain")
    (first, base), (second, second_fit) = several.items()
    refuse_unlike(first, base, second, second_fit, differing_terms((base, second_fit)))
    for fit in (base, second_fit):
        refuse_written_out(fit.solution, "explain")
    # in SE, of a share; the largest share gets the remainder of the sum
    tolerance = 5e-9
    return explain_fits(FitPair((first, second), (base, second_fit)), tolerance)


def explain_fits(pair: FitPair, tol: float) -> Explanation:
    """Explain the difference of two fits of the same rows, with shares that are summed to `tol` SE."""
    a, b = pair.fits
    aux: tuple[str, ...] = ()
    if a.model.likelihood == b.model.likelihood:
        aux = tuple([name for name in a.solution.aux if name in b.solution.aux])
    estimates = [Estimates.of(fit, aux) for fit in pair.fits]
    differing = differing_terms(pair.fits)
    common = [
        name
        for name, column in zip(estimates[0].names, estimates[0].columns)
        if name in estimates[1].names and column not in differing
    ]
    first, second = [of_fit.take(common) for of_fit in estimates]
    reason = "; ".join(pair.structure.values()) or path_obstacle(a, b)
    found = None
    chance_known = True
    shares: dict[SpecificCause, Step] | None = None
    if not reason:
        from_evidence = {*a.solution.hyper, *b.solution.hyper}
        from_evidence -= {*fixed_by_user(a), *fixed_by_user(b)}
        path = PriorPath.between(
            a.model, b.model, changing_groups(a, b), aux, from_evidence
        )
        ends = [
            np.append(
                np.linalg.solve(path.columns, fit.solution.beta.ravel()),
                np.log([fit.aux[name] for name in path.unknown]),
            )
            for fit in pair.fits
        ]
        found = integrate_path(path, ends[0], ends[1], tol)
        reason = "no smooth path joins the two modes"
    if found is not None:
        shares, chance_known = _shares_along_path(pair, found, (first, second), aux)
    elif a.model.design.columns == b.model.design.columns and not pair.structure:
        shares = scale_steps(pair, aux)
    if shares is not None:
        reason = ""
    else:
        cause = SpecificCause(Cause.SEVERAL, _joint_label(pair, first, second))
        shares = {cause: first.step_to(second)}
    missing = {}
    for name, fit, values in zip(pair.names, pair.fits, (first, second)):
        if np.isnan(values.value).any():
            lost, text = missing_estimate(fit)
            missing[name] = f"{lost.value}: {text}"
    data = _shares_dataset(common, shares, first, second)
    return Explanation(pair.names, data, tuple(shares), reason, missing, chance_known)


def _joint_label(pair: FitPair, first: Estimates, second: Estimates) -> str:
    """Return the label of the single share of two fits without a path: all differences of their models, and the method if a mean is
    compared with a mode, or RSS / df with RSS / n."""
    differ = pair.differences
    labels = [SpecificCause(c, s).label for c, s in differ.items() if c in MODEL]
    labels = [*(cause.value for cause in pair.structure), *sorted(labels)]
    both_errors = bool(np.isfinite(first.error * second.error).any())
    by_method = Cause.SUMMARY in differ and "posterior" in map(summary, pair.fits)
    if by_method or not labels or (Cause.SMALL_SAMPLE in differ and both_errors):
        labels.append("method")
    modes = {fit.target for fit in pair.fits} == {"mode"}
    if Cause.COVARIANCE in differ and both_errors and modes:
        labels.append("covariance")
    return " and ".join(labels)


def _shares_dataset(
    params: list[str],
    shares: Mapping[SpecificCause, Step],
    first: Estimates,
    second: Estimates,
) -> Any:
    import xarray as xr

    total = first.step_to(second)
    steps = np.array([*shares.values(), total])
    with np.errstate(divide="ignore", invalid="ignore"):
        steps[:, 0] /= first.error
    shift, log_se = np.moveaxis(steps[:-1], 0, 2)
    difference, log_se_ratio = steps[-1]
    numbers = {
        "shift": (("param", "cause"), shift), "log_se": (("param", "cause"), log_se),
        "difference": ("param", difference), "log_se_ratio": ("param", log_se_ratio),
        "baseline": ("param", first.value), "other": ("param", second.value),
        "baseline_se": ("param", first.error), "other_se": ("param", second.error),
    }  # fmt: skip
    return xr.Dataset(numbers, {"param": params, "cause": [c.label for c in shares]})


def _shares_along_path(
    pair: FitPair,
    path: PathShares,
    ends: tuple[Estimates, Estimates],
    aux: tuple[str, ...],
) -> tuple[dict[SpecificCause, Step], bool]:
    """Return the shares of the priors, then the steps of the second method minus the steps of the first, without rounding; and
    whether exact results separate Monte Carlo error from the shape of the posterior."""
    separable = True
    shares = dict(zip(path.causes, np.stack([path.shift, path.log_ratio], 1)))
    for i, sign in enumerate((-1.0, 1.0)):
        fit, other_fit = pair.fits[i], pair.fits[1 - i]
        exact = None
        if has_monte_carlo_error(fit):
            exact = exact_posterior(fit, other_fit, not path.causes, aux)
            separable &= exact is not None
        mode = Estimates(path.ends[i].value, np.exp(path.ends[i].log_se))
        for cause, step in method_steps(fit, ends[i], mode, exact, aux).items():
            key = SpecificCause(pair.shape_cause if cause is Cause.SKEWNESS else cause)
            shares[key] = shares.get(key, 0.0) + sign * step
    unit = np.stack([ends[0].error, np.ones(len(ends[0].error))])
    nonzero = {
        cause: step
        for cause, step in shares.items()
        if cause in path.causes
        or np.nanmax(np.abs(step / unit), initial=0.0) > _ROUNDING_OF_SHARES
    }
    return nonzero, separable


# ---- text for the causes of a difference -----------------------------------------------------------------------------


# in SE, or of the log SE ratio: a smaller share is printed as 0, with three decimals
SMALLEST_SHARE = 5e-4
_SUMMARIES = {
    "mode": "mode",
    "normal at the mode": "normal approximation at the mode",
    "posterior": "posterior mean",
}


def share_text(
    label: str, shift: float, log_se: float, difference: float, log_ratio: float
) -> str:
    """Describe the share of a cause in a difference of estimates (in SE) and in the log of an SE ratio, without a share of zero.

    >>> share_text("skewness", 0.2, 0.0001, 0.25, -0.1), share_text("covariance", 0.0, 0.1, 0.25, 0.1)
    ('skewness: shift +0.2 of +0.25 SE', 'covariance: SE ratio 1.11')
    """
    shifts = dict.fromkeys([f"{v:+.2g}" for v in (shift, difference)])
    logs = [v for v in (log_se, log_ratio) if np.isfinite(v)]
    ratios = dict.fromkeys([f"{np.exp(v):.3g}" for v in logs])
    parts = []
    if abs(log_se) >= SMALLEST_SHARE:
        parts.append(f"SE ratio {' of '.join(ratios)}")
    if abs(shift) >= SMALLEST_SHARE or not parts:
        parts.insert(0, f"shift {' of '.join(shifts)} SE")
    return f"{label}: {', '.join(parts)}"


def missing_estimate(fit: Fit) -> tuple[Cause, str]:
    """Return the cause of a missing estimate and its description."""
    status = fit.solution.status
    separated = status is Status.NO_MAXIMUM
    text = cut_text(fit.solution.detail or status.value, 80)
    return (Cause.SEPARATION if separated else Cause.IDENTIFICATION), text


def setting_text(cause: SpecificCause, fit: Fit, row: Mapping[str, Any]) -> str:
    """Return the setting of a fit that a cause concerns; `row` has its numbers of one parameter."""
    s = fit.solution
    match cause.cause:
        case Cause.PRIOR:
            return cut_text(stated_prior_line(fit), 80)
        case Cause.PARAMETER_PRIOR | Cause.FIXED_PARAMETER | Cause.FOUND_PARAMETER:
            return _parameter_text(fit, cause.subject)
        case Cause.SCALE_PRIOR:
            return _scale_prior_text(scale_priors(fit).get(cause.subject), cause)
        case Cause.LIKELIHOOD:
            return str(fit.model.likelihood)
        case Cause.MEAN_DF | Cause.SCALE_UNCERTAINTY | Cause.POINTS:
            return fit.method_label
        case Cause.SKEWNESS | Cause.APPROXIMATION:
            return _SUMMARIES[summary(fit)]
        case Cause.SMALL_SAMPLE:
            return _degrees_of_freedom_text(fit)
        case Cause.COVARIANCE:
            return f"{reported_words(fit.model, fit.method, s)['kind']} covariance"
        case Cause.MONTE_CARLO:
            return _monte_carlo_text(fit, row)
        case Cause.CONVERGENCE if s.stats.get("distance", 0.0) > 0:
            return f"{s.stats['distance']:.2g} SE from the mode"
        case Cause.INTERVAL:
            return KIND_WORDS.get(str(row["kind"]), str(row["kind"]))
        case _:
            return cut_text(s.status.with_detail(s.detail), 80)


def _parameter_text(fit: Fit, name: str) -> str:
    """Describe the prior of a nuisance parameter, or the value that evidence found."""
    if name in fit.solution.hyper:
        return f"{fit.solution.hyper[name][0]:.4g} by evidence"
    return aux_prior_words(fit.stated_model, name)


def _scale_prior_text(prior: AuxPrior | None, cause: SpecificCause) -> str:
    """Describe the prior of a scale; without one it is fixed, or not in the model."""
    if prior is None:
        return f"{cause.subject} not estimated"
    return f"{scale_prior_words(prior)} for {cause.subject}"


def _degrees_of_freedom_text(fit: Fit) -> str:
    """Describe the degrees of freedom of a fit."""
    if fit.target == "posterior" and fit.model.noise_unknown:
        return "sigma integrated out"
    df = fit.solution.df
    return f"{df:g} degrees of freedom" if df else "no degrees of freedom"


def _monte_carlo_text(fit: Fit, row: Mapping[str, Any]) -> str:
    """Describe the number of replicates, or the Monte Carlo error of an estimate."""
    replicates = fit.solution.replicates
    if replicates is not None:
        return f"{len(replicates['coef'])} replicates"
    return f"Monte Carlo error {np.nan_to_num(row['mcse']):.2g}"

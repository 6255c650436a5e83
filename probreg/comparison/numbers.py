"""The numbers of the table, unrounded: one Dataset over (fit, param), read from the fits; nothing is fitted again."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from probreg.arguments.scalars import DataFrame, Dataset
from probreg.comparison.prior_weight import describe_priors
from probreg.comparison.same_question import differing_terms
from probreg.fits.fit import Fit
from probreg.fits.goodness import (
    exact_fit,
    is_saturated,
    number_of_observations,
)
from probreg.fits.inference_data import coefficient_draws, parameter_names
from probreg.inference.base import (
    reported_errors,
    reported_estimate,
)
from probreg.inference.reported import reported_parameters
from probreg.inference.sampling.convergence import mixing_measures
from probreg.inference.uncertainty.intervals.kinds import KINDS, WALD_KINDS
from probreg.inference.varying import OF_EFFECTS, held_scales
from probreg.model.model import Model

Array = np.ndarray
# To add a quantity to `compare`: name it here, compute it in `_fit_frame` (in `dataset` if it needs the baseline) and describe it
# in the docstring of `Comparison`. To print it, give it a heading in `rendering.HEADINGS` and a cell in `rendering._format_entry`,
# and a name and heading an entry in docs/glossary.md; README.md and docs/how-to/bayes.md show the printed table.
NUMERIC_QUANTITIES = (
    "estimate", "error", "lower", "upper", "difference", "se_ratio", "prior_weight", "mcse", "skewness"
)  # fmt: skip
TEXT_QUANTITIES = ("kind", "prior")
# parameters and causes are ranked by differences in SE with this number of decimals: further decimals are rounding errors, and equal
# ranks keep the order of the model
RANK_DECIMALS = 6


@dataclass(frozen=True, eq=False)
class FitTable:
    """Fits by name with their numbers: the part of a comparison that its causes, notes and text use."""

    fits: Mapping[str, Fit]
    baseline: str
    prob: float
    data: Dataset
    apart: float = 0.1

    def to_pandas(self) -> DataFrame:
        """One row per parameter; columns (fit, quantity), as a MultiIndex; unrounded."""
        names = [*NUMERIC_QUANTITIES, *TEXT_QUANTITIES]
        table = self.data[names].reset_coords(drop=True).to_dataframe().unstack("fit")
        table = table.swaplevel(axis=1).reindex(index=self.data["param"].values)
        table = table[[(fit, name) for fit in self.fits for name in names]]
        table.columns.names = ["fit", "quantity"]
        table.attrs = dict(self.data.attrs)
        return table.rename_axis(index="param")

    @cached_property
    def smooths(self) -> DataFrame:
        """One row for each smooth function and fit: edf, columns and tau, as in `fit.smooths`; empty if there are none."""
        import pandas as pd

        tables = {name: fit.smooths for name, fit in self.fits.items()}
        tables = {name: table for name, table in tables.items() if len(table)} or tables
        table = pd.concat(tables, names=["fit"]).swaplevel()
        order = pd.factorize(table.index.get_level_values("function"))[0]
        return table.iloc[order.argsort(kind="stable")]


def dataset(fits: Mapping[str, Fit], base: str, prob: float, kind: str | None) -> Any:
    """Return all quantities over (fit, param), differences and ratios against the fit named `base`."""
    import pandas as pd
    import xarray as xr

    omitted = differing_terms(fits.values())
    frames = {}
    for name, fit in fits.items():
        frame = _fit_frame(fit, prob, kind)
        is_omitted = frame["coef"].isin(omitted) & (frame["role"] == "coefficient")
        frames[name] = frame[~is_omitted]
    # coefficients by outcome, then the others
    union = pd.concat(frames.values())[["coef", "outcome", "role"]]
    union = union[~union.index.duplicated()]
    outcomes = fits[base].model.likelihood.outcomes or ("",)
    place = union["outcome"].map({name: i for i, name in enumerate(outcomes)})
    place = place.where(union["role"] == "coefficient", len(outcomes))
    union = union.iloc[place.to_numpy().argsort(kind="stable")]
    first = frames[base].reindex(union.index)
    data: dict[str, list[Array]] = {}
    for name, frame in frames.items():
        frame = frame.reindex(union.index)
        frame["difference"] = (frame["estimate"] - first["estimate"]) / first["error"]
        frame["se_ratio"] = frame["error"] / first["error"]
        incomparable = incomparable_parameters(fits[base], fits[name])
        frame.loc[incomparable, ["difference", "se_ratio"]] = np.nan
        for q in NUMERIC_QUANTITIES:
            data.setdefault(q, []).append(frame[q].to_numpy(float))
        for q in TEXT_QUANTITIES:
            data.setdefault(q, []).append(frame[q].fillna("").to_numpy(object))
    columns = {q: (("fit", "param"), np.array(rows)) for q, rows in data.items()}
    coords: dict[str, Any] = {"fit": list(fits), "param": list(union.index)}
    coords |= {key: ("param", union[key].tolist()) for key in union}
    several = fits.values()
    facts = {
        "method": [f.method.name for f in several],
        "target": [f.target for f in several],
        "error_name": ["SD" if f.target == "posterior" else "SE" for f in several],
        "status": [f.solution.status.describe(f.solution.detail) for f in several],
        "seed": [f.seed for f in several],
    }
    coords |= {key: ("fit", values) for key, values in facts.items()}
    model = fits[base].model
    attrs = {
        "models": fits[base].method.describe(model), "response": model.design.response,
        "observations": number_of_observations(fits[base]), "prob": prob, "baseline": base,
    }  # fmt: skip
    return xr.Dataset(
        columns, coords, {k: v for k, v in attrs.items() if v is not None}
    )


def incomparable_parameters(base: Fit, fit: Fit) -> list[str]:
    """Return the nuisance parameters with the same name under different likelihoods: sigma is a standard deviation in one, a scale in
    another."""
    a = base.model.likelihood
    b = fit.model.likelihood
    return [] if a == b else [name for name in b.nuisance if name in a.nuisance]


def _fit_frame(fit: Fit, prob: float, kind: str | None) -> Any:
    """Return the quantities of one fit, a row for each parameter with its column, outcome and role."""
    import pandas as pd

    s = fit.solution
    likelihood = fit.model.likelihood
    interval = fit.intervals.of_kind(kind if kind in KINDS[fit.target] else None)
    # other sampled scales of priors are not parameters
    reported = fit.once(reported_parameters)
    scalars = [
        n
        for n in reported.scalars
        if n.startswith(OF_EFFECTS) or n in {**s.aux, **s.hyper, **reported.values}
    ]
    estimates = Estimates.of(fit, tuple(scalars))
    k = len(estimates.names) - len(scalars)
    ends = [by_outcome(fit.model, end.ravel()) for end in interval.ends(prob)]
    of_scalars = [interval.scalar_ends(name, prob) for name in scalars]
    lower, upper = np.column_stack([ends, np.reshape(of_scalars, (-1, 2)).T])
    if exact_fit(fit):  # these are rounding
        lower, upper = lower * np.nan, upper * np.nan
    mcse: Any = s.stats.get("mcse_mean", np.nan)
    if fit.method.makes_chains and "mcse_mean" not in s.stats:
        mcse = mixing_measure(fit, tuple(scalars), "ess_bulk") ** -0.5
    kinds = [interval.name] * len(estimates.names)
    if s.draws is None and interval.name in ("t", "wald"):
        # as in `Fit.aux_interval`
        of_aux = "chi-square" if s.df and interval.name == "t" else "log-wald"
        for i, name in enumerate(scalars, start=k):
            bounded = of_aux == "log-wald" and name.startswith("cor(")
            kinds[i] = "atanh-wald" if bounded else of_aux
            if reported.estimate is not None and name in reported.names:
                support = reported.estimate.supports[reported.names.index(name)]
                kinds[i] = WALD_KINDS[support]
    outcomes = likelihood.outcomes or ("",)
    priors, weights = describe_priors(fit, scalars)
    skewness: Any = np.nan
    if s.draws is not None and fit.target == "posterior":
        skewness = _marginal_skewness(fit, scalars)
    estimate = estimates.value
    if is_saturated(fit):
        estimate = np.where(
            np.array(estimates.names) == likelihood.noise_scale, np.nan, estimate
        )
    quantities = {
        "estimate": estimate, "error": estimates.error, "lower": lower, "upper": upper, "mcse": estimates.error * mcse,
        "skewness": skewness, "kind": kinds, "coef": [*estimates.columns[:k], *scalars],
        "outcome": [*np.repeat(outcomes, k // len(outcomes)), *[""] * len(scalars)],
        "role": ["coefficient"] * k + ["auxiliary"] * len(scalars), "prior": priors, "prior_weight": weights,
    }  # fmt: skip
    frame = pd.DataFrame(quantities, index=list(estimates.names))
    held = {}
    if fit.model.design.recipe.grouped:
        stated = held_scales(fit.stated_model).items()
        held = {name: v for name, v in stated if name not in scalars}
    held |= {name: v for name, v in fit.model.fixed.items() if name not in s.hyper}
    rows = [
        {"estimate": v, "kind": "fixed", "coef": name, "outcome": "", "role": "auxiliary", "prior": f"fixed at {v:g}"}
        for name, v in held.items()
    ]  # fmt: skip
    if rows:
        frame = pd.concat([frame, pd.DataFrame(rows, index=list(held))])
    return frame


Step = Array  # (2, J), of the estimates, in their units, and of log SE


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimates of a fit with their errors, over the parameters of the table (J,)."""

    value: Array
    error: Array
    names: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()  # of the coefficients, "" of other parameters

    @classmethod
    def of(cls, fit: Fit, scalars: tuple[str, ...]) -> "Estimates":
        """Coefficients, outcome by outcome, then these other parameters; without errors if these are rounding."""
        s = fit.solution
        model = fit.model
        others = fit.once(reported_parameters).with_nuisance
        value = reported_estimate(model, s).beta.ravel()
        error = reported_errors(model, s, s.covariance).ravel()
        value = np.append(by_outcome(model, value), [others[n][0] for n in scalars])
        error = np.append(by_outcome(model, error), [others[n][1] for n in scalars])
        names = map(str, by_outcome(model, parameter_names(model)))
        columns = model.design.ungrouped_columns * len(
            model.likelihood.outcomes or ("",)
        )
        return cls(
            value, error * np.nan if exact_fit(fit) else error, (*names, *scalars), (*columns, *[""] * len(scalars)),
        )  # fmt: skip

    def take(self, params: list[str]) -> "Estimates":
        """Some of the parameters by name."""
        places = [self.names.index(param) for param in params]
        return Estimates(self.value[places], self.error[places], tuple(params))

    def step_to(self, other: "Estimates") -> Step:
        """The difference of the estimates and the log of the ratio of the errors."""
        with np.errstate(divide="ignore", invalid="ignore"):
            shift = other.value - self.value
            return np.stack([shift, np.log(other.error / self.error)])


def mixing_measure(fit: Fit, scalars: tuple[str, ...], measure: str) -> Array:
    """Return R-hat or an effective sample size of the coefficients and some other parameters, (J,)."""
    k = fit.coef.size
    names = fit.once(reported_parameters).with_nuisance
    places = {name: k + i for i, name in enumerate(names)}
    values = fit.once(mixing_measures)[measure]
    return values[[*range(k), *[places[name] for name in scalars]]]


def by_outcome(model: Model, values: Any) -> Array:
    """Coefficients in the order of the table, outcome first, then column; the last axis of `values` has the columns first."""
    values = np.asarray(values)
    if not len(model.design.ungrouped):
        return values
    split = values.reshape(*values.shape[:-1], len(model.design.ungrouped), -1)
    return split.mT.reshape(values.shape)


def _marginal_skewness(fit: Fit, scalars: list[str]) -> Array:
    """Return the third standardised moment of each posterior marginal; 0 if the marginal is symmetric by formula."""
    draws = fit.solution.posterior
    beta = by_outcome(fit.model, coefficient_draws(fit))
    k = beta.shape[-1]
    of_scalars = map(fit.once(reported_parameters).draws_of, scalars)
    rows = np.vstack(
        [beta.reshape(-1, k).T, *(values.ravel() for values in of_scalars)]
    )
    r = rows - rows.mean(1, keepdims=True)
    spread = (r**2).mean(1) ** 1.5
    skew = np.zeros(len(rows))
    np.divide((r**3).mean(1), spread, out=skew, where=spread > 0.0)
    return np.where((np.arange(len(rows)) < k) & draws.elliptical, 0.0, skew)

"""The numbers of the table, unrounded: one Dataset over (fit, param), read from the fits; nothing is fitted again."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from probreg.comparison.prior_terms import (
    flat_hyper,
    priors,
    stated_hyper,
    stated_model,
)
from probreg.comparison.same_question import differing_terms, number_of_observations
from probreg.fits.fit import Fit
from probreg.fits.goodness import exact_fit
from probreg.fits.inference_data import reported_coefficients
from probreg.inference.uncertainty.intervals.kinds import KINDS
from probreg.inference.varying import OF_EFFECTS, held_scales
from probreg.model.model import Model

Array = np.ndarray
NUMBERS = (
    "estimate", "error", "lower", "upper", "difference", "se_ratio", "weight", "lam", "prior_weight", "mcse", "skewness"
)  # fmt: skip
WORDS = ("kind", "prior", "penalty")


class FitTable(Protocol):
    """Fits by name with their numbers: the part of a comparison that its reasons and its text need."""

    @property
    def fits(self) -> Mapping[str, Fit]: ...

    @property
    def baseline(self) -> str: ...

    @property
    def prob(self) -> float: ...

    @property
    def apart(self) -> float: ...

    @property
    def data(self) -> Any: ...

    @property
    def smooths(self) -> Any: ...


def dataset(fits: Mapping[str, Fit], base: str, prob: float, kind: str | None) -> Any:
    """NUMBERS and WORDS over (fit, param), differences and ratios against the fit named `base`."""
    import pandas as pd
    import xarray as xr

    frames = {
        name: pd.DataFrame(_fit_columns(fit, prob, kind)).set_index("param")
        for name, fit in fits.items()
    }
    omitted = differing_terms(fits.values())
    if omitted:
        outside = {
            name: [c not in omitted for c in _of_columns(fits[name], frame)]
            for name, frame in frames.items()
        }
        frames = {name: frame[outside[name]] for name, frame in frames.items()}
    index = _union_of_parameters(fits, frames, omitted)
    names = list(index)
    first = frames[base].reindex(names)
    for name in frames:
        frame = frames[name].reindex(names)
        frame["difference"] = (frame["estimate"] - first["estimate"]) / first["error"]
        frame["se_ratio"] = frame["error"] / first["error"]
        frame.loc[unlike(fits[base], fits[name]), ["difference", "se_ratio"]] = np.nan
        frames[name] = frame
    data = {
        q: (("fit", "param"), np.array([f[q].to_numpy(float) for f in frames.values()]))
        for q in NUMBERS
    }
    text = {
        q: (
            ("fit", "param"),
            np.array([f[q].fillna("").to_numpy(object) for f in frames.values()]),
        )
        for q in WORDS
    }
    coords: dict[str, Any] = {"fit": list(fits), "param": names}
    coords |= {
        key: ("param", [row[i] for row in index.values()])
        for i, key in enumerate(("coef", "outcome", "role"))
    }
    facts = pd.DataFrame(
        [
            {
                "method": f.method.name,
                "target": f.target,
                "error_name": "SD" if f.target == "posterior" else "SE",
                "status": f.described["status"],
                "seed": f.seed,
            }
            for f in fits.values()
        ]
    )
    coords |= {key: ("fit", facts[key].tolist()) for key in facts}
    model = fits[base].model
    attrs = {
        "models": fits[base].described["models"], "response": model.design.response,
        "observations": number_of_observations(fits[base]), "prob": prob, "baseline": base,
    }  # fmt: skip
    return xr.Dataset(
        {**data, **text}, coords, {k: v for k, v in attrs.items() if v is not None}
    )


def _union_of_parameters(
    fits: Mapping[str, Fit], frames: Mapping[str, Any], omitted: frozenset[str]
) -> dict[str, tuple[str, str, str]]:
    """Return the parameters of all fits with their column, outcome and role: coefficients by outcome, then the others."""
    union: dict[str, tuple[str, str, str]] = {}
    outcomes = next(iter(fits.values())).model.likelihood.outcomes or ("",)
    for name, fit in fits.items():
        columns = [c for c in fit.model.design.head_columns if c not in omitted]
        coefficients = [(c, o, "coefficient") for o in outcomes for c in columns]
        params = list(map(str, frames[name].index))
        auxiliary = [(p, "", "auxiliary") for p in params[len(coefficients) :]]
        for param, row in zip(params, coefficients + auxiliary, strict=True):
            union.setdefault(param, row)
    order = {o: i for i, o in enumerate(outcomes)}
    return dict(
        sorted(
            union.items(),
            key=lambda entry: (
                order[entry[1][1]] if entry[1][2] == "coefficient" else len(order)
            ),
        )
    )


def _of_columns(fit: Fit, frame: Any) -> list[str]:
    """The column of each row of a frame, outcome by outcome; empty for other parameters."""
    design = fit.model.design
    outcomes = fit.model.likelihood.outcomes or ("",)
    columns = [c for _ in outcomes for c in design.head_columns]
    return columns + [""] * (len(frame) - len(columns))


def unlike(base: Fit, fit: Fit) -> list[str]:
    """Auxiliary parameters that share a name only: sigma is a standard deviation in one likelihood, a scale in another."""
    a = base.model.likelihood
    b = fit.model.likelihood
    if a != b:
        return [name for name in b.aux if name in a.aux]
    return []


def _fit_columns(fit: Fit, prob: float, kind: str | None) -> dict[str, Any]:
    """Return each quantity of one fit as a list over its parameters."""
    if kind not in KINDS[fit.target]:
        kind = fit.default_kind
    k = fit.coef.size
    scalars = scalars_compared(fit)
    positions = [
        k + i for i, name in enumerate(fit.solution.scalars) if name in scalars
    ]
    table = fit.summary(prob, kind).iloc[
        [*range(k), *positions]
    ]  # other scales of priors that were sampled are no parameters
    if fit.target == "posterior":
        value, error = ("mean", "sd")
    else:
        value, error = ("estimate", "std_error")
    values = table[[value, error, "lower", "upper"]].to_numpy(float)
    values = (
        np.where([False, True, True, True], np.nan, values)
        if exact_fit(fit)
        else values
    )  # these are rounding
    names = [*by_outcome(fit.model, fit.parameter_names), *scalars]
    if "ess_bulk" in table:
        ess = table["ess_bulk"].to_numpy(float)
    else:
        ess = np.full(len(names), np.nan)
    # The kind of interval that `Fit.aux_interval` gives.
    if fit.solution.draws is not None or kind not in ("t", "wald"):
        aux_kind = kind
    else:
        if fit.solution.df and kind != "wald":
            aux_kind = "chi-square"
        else:
            aux_kind = "log-wald"
    kinds = [
        "atanh-wald" if aux_kind == "log-wald" and name.startswith("cor(") else aux_kind
        for name in scalars
    ]
    columns: dict[str, Any] = {
        "param": names, "estimate": values[:, 0], "error": values[:, 1], "lower": values[:, 2], "upper": values[:, 3],
        "mcse": values[:, 1] * _mcse(fit, ess), "skewness": _marginal_skewness(fit),
        "kind": [kind] * k + kinds, **_with_effects(priors(fit), fit, scalars, k),
    }  # fmt: skip
    held = {
        name: v
        for name, v in held_scales(stated_model(fit)).items()
        if name not in scalars
    }
    held |= {
        name: v for name, v in fit.model.fixed.items() if name not in fit.solution.hyper
    }
    blank = {q: [np.nan] * len(held) for q in columns} | {
        q: [""] * len(held) for q in WORDS
    }
    blank |= {
        "param": list(held),
        "estimate": list(held.values()),
        "kind": ["held"] * len(held),
    }
    blank["prior"] = [f"held at {v:g}" for v in held.values()]
    return {q: [*v, *blank[q]] for q, v in columns.items()}


def scalars_compared(fit: Fit) -> list[str]:
    """The covariance of effects, and nuisance parameters that were estimated, by name."""
    return [
        n
        for n in fit.solution.scalars
        if n.startswith(OF_EFFECTS) or n in fit.solution.aux or n in fit.solution.hyper
    ]


def _with_effects(
    columns: dict[str, list[Any]], fit: Fit, names: list[str], k: int
) -> dict[str, list[Any]]:
    """Return the columns for k coefficients and nuisance parameters, with rows for the covariance of effects between them."""
    aux = dict(zip(fit.solution.aux, range(k, k + len(fit.solution.aux))))
    hyperparameters = stated_hyper(fit)
    flat = flat_hyper(fit)
    extended: dict[str, list[Any]] = {q: v[:k] for q, v in columns.items()}
    for name in names:
        for q, v in extended.items():
            empty: Any = "" if q in WORDS else np.nan
            if q == "prior_weight" and name in flat:
                empty = 0.0
            v.append(
                columns[q][aux[name]]
                if name in aux
                else hyperparameters.get(name, "")
                if q == "prior"
                else empty
            )
    return extended


def _mcse(fit: Fit, ess: Array) -> Array:
    """Monte Carlo standard error of each mean in standard deviations; nan if a formula gave it."""
    if "mcse_mean" in fit.solution.stats:
        return np.full(ess.shape, fit.solution.stats["mcse_mean"])
    return ess**-0.5


def by_outcome(model: Model, values: Any) -> Array:
    """Coefficients in the order of the table, outcome first, then column; the last axis of `values` has the columns first."""
    values = np.asarray(values)
    split = values.reshape(*values.shape[:-1], len(model.design.head), -1)
    return split.swapaxes(-1, -2).reshape(values.shape)


def _marginal_skewness(fit: Fit) -> Array:
    """Return the third standardised moment of each posterior marginal; 0 if the marginal is symmetric by formula."""
    s = fit.solution
    k = fit.coef.size
    scalars = scalars_compared(fit)
    if s.draws is None or fit.target != "posterior":
        return np.full(k + len(scalars), np.nan)
    beta = by_outcome(
        fit.model, reported_coefficients(fit.model, s.draws["beta"]).reshape(-1, k)
    )
    rows = np.vstack([beta.T, *(s.draws[a].ravel() for a in scalars)])
    r = rows - rows.mean(1, keepdims=True)
    spread = (r**2).mean(1) ** 1.5
    skew = np.zeros(len(rows))
    np.divide((r**3).mean(1), spread, out=skew, where=spread > 0.0)
    return np.where((np.arange(len(rows)) < k) & s.draws.elliptical, 0.0, skew)

"""The one verb: a model and a method in, a Fit out. Everything after it only reads.

A `Fit` answers in labelled arrays and tables; the numbers come from the solution, the intervals from `intervals`, what is
said of new rows from `prediction`.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from probreg import intervals, storage
from probreg.errors import DataError, Incompatible, NotConverged, ProbregWarning
from probreg.inference import METHODS, Auto, Method, Solution
from probreg.model import Model
from probreg.prediction import Prediction, predict, predictive, usable
from probreg.predictive import Predictive
from probreg.tree import build, coefficient_dims, coordinates, estimate_group, labelled, reported_scale, shown, to_save

Array = np.ndarray
KINDS = {"mode": ("t", "wald"), "posterior": ("eti", "hdi")}


@dataclass(frozen=True, eq=False)
class Fit:
    """A model, the method that fitted it, and the solution; made by `fit`, read by everything else."""

    model: Model
    method: Method
    solution: Solution
    seed: int = 0
    notes: tuple[str, ...] = ()
    likelihood_at_estimate: float | None = field(default=None, repr=False)

    # ---- the estimate ----------------------------------------------------------------------------------------------

    @property
    def target(self) -> str:
        """ "mode" for a point estimate, "posterior" for a posterior."""
        return self.method.target

    @cached_property
    def estimate(self) -> Any:
        """Dataset of beta, std_error and auxiliary parameters: the mode, or posterior means and standard deviations."""
        return estimate_group(self.model, self.solution)

    @property
    def coef(self) -> Any:
        """Coefficients on the raw columns, DataArray (coef) or (coef, outcome); nan where no estimate exists."""
        return self.estimate["beta"]

    @property
    def std_error(self) -> Any:
        """Standard errors of a point estimate, standard deviations of a posterior; as `coef`."""
        if self.target == "mode":
            return self.estimate["std_error"]
        diagonal = np.diagonal(self._covariance())
        return labelled(self.model, np.sqrt(diagonal).reshape(self.coef.shape))

    @property
    def aux(self) -> dict[str, float]:
        """Auxiliary parameters: estimated, and those held fixed."""
        return {**self.model.fixed, **self.solution.aux}

    def covariance(self) -> Any:
        """Covariance of the coefficients, DataArray (param, param_): sigma^2 (X'X)^-1 for least squares, the inverse
        observed information for other point estimates, the posterior covariance for a posterior."""
        import xarray as xr

        names = self.parameter_names
        return xr.DataArray(
            self._covariance(), {"param": names, "param_": names}, ("param", "param_"), name="covariance"
        )

    def _covariance(self) -> Array:
        s = self.solution
        if s.draws is not None and s.df is not None:
            return reported_scale(self.model, s) * (s.df / (s.df - 2) if s.df > 2 else np.inf)
        return reported_scale(self.model, s)

    @property
    def parameter_names(self) -> list[str]:
        """One name per coefficient, `column` or `column: outcome`, in the order of the covariance."""
        outcomes = self.model.likelihood.outcomes
        return (
            [f"{c}: {o}" for c in self.model.design.columns for o in outcomes]
            if outcomes
            else list(self.model.design.columns)
        )

    @cached_property
    def log_likelihood(self) -> float:
        """log p(y | estimate), summed over the observations; at the posterior mean for a posterior."""
        if self.likelihood_at_estimate is not None:
            return self.likelihood_at_estimate
        usable(self.solution, self.method)
        return float(self.model.log_lik(self.solution.beta, **self.solution.aux))

    # ---- intervals -------------------------------------------------------------------------------------------------

    def interval(self, prob: float = 0.95, kind: str | None = None) -> Any:
        """Interval of each coefficient with probability `prob`: Dataset with lower, upper, attributes prob and kind.

        For a point estimate "t" (where least squares has degrees of freedom; the default there) or "wald"; for a
        posterior "eti" (equal-tailed, the default) or "hdi" (highest density). NotConverged when a coefficient has no
        estimate: an interval around it would mean nothing.
        """
        if self.solution.vague is not None and self.solution.vague.any():
            raise NotConverged(f"no interval: {self.solution.status.value} ({self.solution.detail})")
        return self._interval(prob, kind)

    def _interval(self, prob: float, kind: str | None) -> Any:
        import xarray as xr

        kind = self.default_kind if kind is None else kind
        if kind not in KINDS[self.target]:
            raise Incompatible(f"a {self.target} has intervals of kind {' or '.join(KINDS[self.target])}, not {kind!r}")
        lower, upper = self._ends(prob, kind)
        dims = coefficient_dims(self.model)
        attrs = {"prob": intervals.check_prob(prob), "kind": kind, "method": self.method.name}
        return xr.Dataset({"lower": (dims, lower), "upper": (dims, upper)}, coordinates(self.model), attrs)

    @property
    def default_kind(self) -> str:
        """The interval that is meant when none is named."""
        if self.target == "posterior":
            return "eti"
        return "t" if self.solution.df is not None else "wald"

    def _ends(self, prob: float, kind: str) -> tuple[Array, Array]:
        s, centre = self.solution, self.coef.values
        if self.target == "mode" or s.known_marginals:
            if kind == "t" and s.df is None:
                raise Incompatible(
                    f"{self.method.name} has no degrees of freedom here, so no t interval; use kind='wald'"
                )
            df = None if kind == "wald" else s.df
            sd = np.sqrt(np.diagonal(reported_scale(self.model, s))).reshape(centre.shape)
            half = intervals.quantile(prob, df) * sd
            return centre - half, centre + half
        draws = _flat(shown(self.model, _drawn(s)["beta"]))
        return intervals.equal_tail(draws, prob) if kind == "eti" else intervals.highest_density(draws, prob)

    def aux_interval(self, name: str, prob: float = 0.95, kind: str | None = None) -> tuple[float, float]:
        """Interval of an auxiliary parameter: chi-square for the sigma of least squares, Wald on the log scale for
        other point estimates, equal-tailed or highest-density for a posterior."""
        s = self.solution
        if kind is not None and kind not in KINDS[self.target]:
            raise Incompatible(f"a {self.target} has intervals of kind {' or '.join(KINDS[self.target])}, not {kind!r}")
        if name not in s.aux:
            raise DataError(f"{name!r} was not estimated; auxiliary parameters that were: {', '.join(s.aux) or 'none'}")
        if s.draws is not None:
            ends = intervals.highest_density if kind == "hdi" else intervals.equal_tail
            lower, upper = ends(s.draws[name].ravel(), prob)
            return float(lower), float(upper)
        if s.df is not None and s.df > 0 and kind != "wald":
            return intervals.sigma_from_rss(s.stats["rss"], s.df, prob)
        return intervals.positive(s.aux[name], s.aux_sd[name], prob) if s.aux[name] > 0 else (np.nan, np.nan)

    def summary(self, prob: float = 0.95, kind: str | None = None) -> Any:
        """One row per coefficient and auxiliary parameter, unrounded: pandas DataFrame with estimate and std_error (a
        point estimate) or mean and sd (a posterior), lower, upper; after MCMC also ess_bulk, ess_tail and r_hat.

        `attrs` say prob, kind, method, what is modelled, the status and the notes.
        """
        import pandas as pd

        words = ("mean", "sd") if self.target == "posterior" else ("estimate", "std_error")
        ends = self._interval(prob, kind)
        columns = {
            words[0]: self.coef.values.T.ravel(), words[1]: self.std_error.values.T.ravel(),
            "lower": ends["lower"].values.T.ravel(), "upper": ends["upper"].values.T.ravel(),
        }  # fmt: skip
        table = pd.DataFrame(columns, index=self._index())
        for name, value in self.solution.aux.items():
            row = [value, self.solution.aux_sd.get(name, np.nan), *self.aux_interval(name, prob, kind)]
            table.loc[("", name) if self.model.likelihood.outcomes else name] = row
        if "diverging" in self.solution.sample_stats:
            table = table.join(self._mixing(table.index))
        table.attrs = {"prob": prob, "kind": ends.attrs["kind"]} | self.described
        return table

    def _index(self) -> Any:
        import pandas as pd

        columns, outcomes = self.model.design.columns, self.model.likelihood.outcomes
        if not outcomes:
            return pd.Index(columns, name="coef")
        return pd.MultiIndex.from_tuples([(o, c) for o in outcomes for c in columns], names=["outcome", "coef"])

    def _mixing(self, index: Any) -> Any:
        """Effective sample sizes and R-hat (Vehtari et al. 2021), by arviz-stats on plain arrays."""
        import pandas as pd
        from arviz_stats.base import array_stats

        draws = _drawn(self.solution)
        beta = shown(self.model, draws["beta"])
        parts = (
            [np.moveaxis(beta, -1, 0).reshape(-1, *beta.shape[:2], beta.shape[2])] if beta.ndim == 4 else [beta[None]]
        )
        each = [a[..., j] for p in parts for a in p for j in range(a.shape[-1])] + [draws[a] for a in self.solution.aux]
        rows = [
            (
                array_stats.ess(v, method="bulk"),
                array_stats.ess(v, method="tail", prob=(0.05, 0.95)),
                array_stats.rhat(v, method="rank"),
            )
            for v in each
        ]
        return pd.DataFrame(np.array(rows, dtype=float), index=index, columns=["ess_bulk", "ess_tail", "r_hat"])

    # ---- new rows --------------------------------------------------------------------------------------------------

    def predictive(self, data: Any = None, *, offset: Any = None) -> Predictive:
        """The predictive distribution at these rows (the training rows by default): one atom for a point estimate,
        one per draw for a posterior."""
        usable(self.solution, self.method)
        return predictive(self.model, self.solution, self._design(data, offset), spread=False, seed=self.seed)

    def predict(self, data: Any = None, prob: float = 0.95, *, offset: Any = None) -> Any:
        """Mean, interval of the mean and interval of a new observation at these rows: Dataset over (obs) with mean,
        mean_lower, mean_upper, new_lower, new_upper; for a softmax over (obs, level) with the probabilities of the
        classes, their intervals and `likely`, the smallest set of classes that holds probability `prob`.

        DataError for rows the model cannot read (missing column, unseen level); NotConverged without an estimate.
        """
        import xarray as xr

        design = self._design(data, offset)
        found: Prediction = predict(
            self.model, self.solution, self.method, design, prob=intervals.check_prob(prob), seed=self.seed
        )
        levels = found.mean.ndim == 2
        dims = ("obs", "level") if levels else ("obs",)
        variables: dict[str, Any] = {"mean": (dims, found.mean)}
        variables |= {f"mean_{w}": (dims, v) for w, v in zip(("lower", "upper"), found.mean_interval)}
        if found.new_interval is not None:
            variables |= {f"new_{w}": (dims, v) for w, v in zip(("lower", "upper"), found.new_interval)}
        if found.likely is not None:
            variables["likely"] = (dims, found.likely)
        coords: dict[str, Any] = {"obs": _labels(data, design)}
        if levels:
            coords["level"] = [str(v) for v in self.model.likelihood.levels]
        attrs = {"prob": prob, "kind": found.kind, "method": self.method.name}
        return xr.Dataset(variables, coords, attrs)

    def _design(self, data: Any, offset: Any) -> Any:
        if data is not None:
            return self.model.design.at(data, offset=offset)
        if offset is not None:
            raise DataError("offset= goes with new data; the training rows have the offset they were fitted with")
        if not self.model.design.n:
            raise DataError("this fit was saved without its rows: say at which data to predict")
        return self.model.design

    # ---- everything in one place -----------------------------------------------------------------------------------

    @cached_property
    def tree(self) -> Any:
        """xarray.DataTree with the groups that ArviZ expects; see `probreg.tree`."""
        return build(self.model, self.method, self.solution, self.seed, self._attrs())

    def _attrs(self) -> dict[str, Any]:
        from probreg import __version__

        d = self.described
        return {k: v if isinstance(v, str) else "\n".join(v) for k, v in d.items()} | {
            "seed": self.seed,
            "inference_library": "probreg",
            "inference_library_version": __version__,
        }

    @property
    def described(self) -> dict[str, Any]:
        """What was done, in words: the modelled quantity, the method, its status, its notes."""
        s = self.solution
        status = s.status.value + (f" ({s.detail})" if s.detail else "")
        notes = (*self.notes, *s.notes, *self.model.design.notes)
        model = self.model.likelihood.describe(self.model.design.response)
        return {"models": model, "method": self.method.name, "status": status, "notes": notes}

    def save(self, path: str | Path, *, rows: bool = False) -> Path:
        """Writes netCDF: specification, estimate or draws, moments of a Gaussian model; the training rows only if asked."""
        stats = {**self.solution.stats, **self._known_likelihood()}
        known = replace(self.solution, stats=stats, notes=(*self.notes, *self.solution.notes))
        if rows and not self.model.design.n:
            raise DataError("this fit holds no rows to save (it was saved without them): save it with rows=False")
        tree = to_save(self.model, self.solution, seed=self.seed, attrs=self._attrs(), rows=rows)
        storage.write(Path(path), tree, model=self.model, method=self.method, solution=known, seed=self.seed, rows=rows)
        return Path(path)

    def _known_likelihood(self) -> Mapping[str, float]:
        from probreg.inference import Status

        unknown = self.solution.status is Status.NO_MAXIMUM or not self.method.probabilities
        return {} if unknown else {"log_likelihood": self.log_likelihood}

    def __repr__(self) -> str:
        d = self.described
        table = self.summary().to_string(float_format=lambda v: f"{v:.5g}")
        prob = f"{100 * self.summary().attrs['prob']:g} % {self.default_kind} intervals"
        lines = [f"{d['models']}", f"{d['method']}, {prob}; {d['status']}", table, *(f"note: {n}" for n in d["notes"])]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        import html

        d = self.described
        table = self.summary().to_html(float_format=lambda v: f"{v:.5g}", border=0)
        notes = "".join(f"<li>{html.escape(n)}</li>" for n in d["notes"])
        head = f"<p><b>{html.escape(d['models'])}</b><br>{html.escape(d['method'])}: {html.escape(d['status'])}</p>"
        return f"{head}{table}<ul>{notes}</ul>"


def fit(model: Model, method: str | Method = "auto", *, seed: int = 0, strict: bool = False) -> Fit:
    """Fits a model: `method` is a name ("auto", "closed_form", "newton", "conjugate", "quadrature", "laplace", "nuts",
    "sgd", "lms", "perceptron")
    or a Method with its settings, such as `NUTS(draws=2000)`.

    Incompatible, with the methods that would do, when the method cannot fit the model. A fit that did not end well warns
    with what to do, or raises NotConverged when `strict`. The same seed gives the same answer.

    >>> model = Model.from_arrays([[2.0], [3.0], [4.0], [6.0]], [5.0, 7.0, 9.0, 13.5], columns=["x"])
    >>> fit(model).coef.sel(coef="x").round(3).item()
    2.129
    """
    if not isinstance(model, Model):
        raise Incompatible(
            f"fit takes a Model, got {type(model).__name__}; make one with Model.from_formula or from_arrays"
        )
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise DataError(f"seed is a whole number, 0 or more, got {seed!r}")
    chosen = METHODS.resolve(method)
    notes: tuple[str, ...] = ()
    if not isinstance(chosen, Method):
        raise Incompatible(f"method is the name of a method or a Method, got {chosen!r}")
    if (why := chosen.obstacle(model)) is not None:
        able = [k for k, cls in METHODS.items() if k != "auto" and cls().obstacle(model) is None]
        raise Incompatible(f"{why}. These can fit this model: {', '.join(able) or 'none'}.")
    if isinstance(chosen, Auto):
        chosen, reason = chosen.choose(model)
        notes = (reason,)
    solution = chosen.solve(model, np.random.default_rng(seed))
    if not solution.status.good:
        message = f"{chosen.name}: {solution.status.value}" + (f" ({solution.detail})" if solution.detail else "")
        if strict:
            raise NotConverged(message)
        warnings.warn(message, ProbregWarning, stacklevel=2)
    return Fit(model, chosen, solution, seed, notes)


def load_fit(path: str | Path) -> Fit:
    """The fit that `Fit.save` wrote: summarises, compares and predicts at new data; runs no code from the file."""
    model, method, solution, seed = storage.read(Path(path))
    return Fit(model, method, solution, seed, likelihood_at_estimate=solution.stats.get("log_likelihood"))


def _drawn(solution: Solution) -> Mapping[str, Array]:
    assert solution.draws is not None
    return solution.draws


def _flat(draws: Array) -> Array:
    return draws.reshape(-1, *draws.shape[2:])


def _labels(data: Any, design: Any) -> Array:
    """Row labels of the data that were given, where they have an index of their own."""
    if data is None and design.labels is not None:
        return np.asarray(design.labels)
    index = getattr(data, "index", None)
    return (
        np.asarray(index)
        if index is not None and not callable(index) and len(index) == design.n
        else np.arange(design.n)
    )

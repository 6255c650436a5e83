"""The bootstrap: repeat an estimator on resampled data, and summarise its estimates."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.random import Generator

from probreg.arguments.scalars import Flag, Several, Workers
from probreg.data import Design
from probreg.data.checked_arrays import full_weights
from probreg.data.grouped_columns import GroupColumns
from probreg.data.implicit_columns import LazyColumns, dense_where_small
from probreg.errors import Incompatible, ProbregError
from probreg.inference.auto import Auto
from probreg.inference.base import (
    METHODS,
    Array,
    Method,
    MethodName,
    Resolved,
    Solution,
    Status,
    log_names,
)
from probreg.inference.covariance import DenseCovariance, ParameterCovariance
from probreg.inference.modes.newton_method import Newton
from probreg.inference.status import Topic, important_note, without_topic
from probreg.inference.uncertainty.information import estimate_of
from probreg.linalg import one_blas_thread
from probreg.linalg.vec import vec_entries
from probreg.model.model import Model
from probreg.system.terminal import each_of


@dataclass(frozen=True, eq=False)
class Source:
    """A model with its estimate, the source of replicates."""

    model: Model
    solution: Solution

    @cached_property
    def row_of(self) -> Array:
        """The row of each observation, (total,)."""
        return self.model.design.row_of_observations

    @cached_property
    def apart(self) -> Design:
        """One row per observation."""
        return self.model.design.repeat_rows()

    @cached_property
    def fitted(self) -> Array:
        """eta of each observation, (total, m)."""
        return self.model.eta(self.solution.beta)[self.row_of]

    @cached_property
    def residuals(self) -> Array:
        """sqrt(w) (y - fitted) / sqrt(1 - leverage) of each observation with precision w, of variance sigma^2."""
        # Var(w_i^(1/2) e_i) = sigma^2 (1 - h_i)
        complement = (
            1.0
            - estimate_of(
                self.model, self.solution, "a residual bootstrap", in_memory=True
            ).leverage[self.row_of]
        )
        e = (self.apart.observed - self.fitted[:, 0]) * self.root
        return e / np.sqrt(np.where(complement > 1e-10, complement, 1.0))

    @cached_property
    def root(self) -> Array:
        """(total,), the roots of the precisions of the observations."""
        return np.sqrt(full_weights(self.apart.precision, self.apart.n))

    def with_response(self, y: Array) -> Model:
        return replace(self.model, design=replace(self.apart, y=y))


def resample_pairs(source: Source, rng: Generator) -> Model:
    """Draw observations (x, y) with replacement, as frequencies of the rows."""
    row_of = source.row_of
    d = source.model.design
    if d.recipe.grouped:
        return resample_groups(source, rng)
    counts = np.bincount(
        row_of[rng.integers(0, len(row_of), len(row_of))], minlength=d.n
    )
    keep = counts > 0
    return replace(
        source.model, design=replace(d.take(keep), weights=counts[keep].astype(float))
    )


def resample_groups(source: Source, rng: Generator) -> Model:
    """Draw whole groups with replacement; a group drawn twice becomes two groups with separate effects."""
    d = source.apart
    terms = d.recipe.grouped
    codes = d.inputs[next(iter(terms))][:, 0].astype(int)
    G = len(next(iter(terms.values())).levels)
    members = [np.flatnonzero(codes == g) for g in range(G)]
    groups = [members[g] for g in rng.integers(0, G, G)]
    rows = np.concatenate(groups)
    slot = np.repeat(np.arange(G, dtype=float), [len(r) for r in groups])
    design = d.take(rows)
    inputs = dict(design.inputs)
    for key in terms:
        inputs[key] = np.column_stack([slot, inputs[key][:, 1:]])
    tail = [GroupColumns.of(term, inputs[key]) for key, term in terms.items()]
    firsts = [design.columns.index(term.columns[0]) for term in terms.values()]
    head = np.ascontiguousarray(design.X[:, design.ungrouped])
    columns = LazyColumns(head, tuple(tail), tuple(firsts))
    X = d.recipe.assign_predictors(dense_where_small(columns))
    return replace(source.model, design=replace(design, X=X, inputs=inputs, read={}))


def resample_residuals(source: Source, rng: Generator) -> Model:
    """y* = fitted + e*, e* drawn with replacement from the centred residuals over sqrt(1 - leverage)."""
    # Centred, because residuals of a fit without an intercept, or over (1 - h)^(1/2),
    # need not sum to 0.
    e = source.residuals - source.residuals.mean()
    return source.with_response(
        source.fitted[:, 0] + e[rng.integers(0, len(e), len(e))] / source.root
    )


def draw_responses(source: Source, rng: Generator) -> Model:
    """Draw y* from the likelihood at the estimate; effects that vary by a group are drawn from their prior."""
    likelihood = source.model.likelihood
    design = source.apart
    values = likelihood.at_rows(
        {**source.model.fixed, **source.solution.aux}, design.precision
    )
    eta = source.fitted + _effect_changes(source, rng)
    return source.with_response(
        likelihood.sample_like(design.observed, rng, eta, **values)
    )


def _effect_changes(source: Source, rng: Generator) -> Array | float:
    """Return the change in eta (total, m) from new draws of effects that vary by a group."""
    model = source.model
    estimate = source.solution
    noise = model.noise(estimate.aux)
    difference = np.zeros_like(estimate.beta)
    for b in model.joint.blocks:
        if model.design.grouped_of(b.columns) is not None:
            shape = (1, len(b.columns), b.width(estimate.beta.shape[1]))
            effects = b.prior.sample(rng, shape, b.prior.unit(noise))[0]
            b.put(difference, effects - b.take(estimate.beta))
    return source.apart.X @ difference if difference.any() else 0.0


SAMPLERS: dict[str, Callable[[Source, Generator], Model]] = {
    "pairs": resample_pairs,
    "residual": resample_residuals,
    "parametric": draw_responses,
}


class Replicate(NamedTuple):
    """One replicate: values by name, among them the reported coefficients "coef" (p, D), infinite for a divergent estimate and
    nan without one, and nuisance parameters."""

    values: Mapping[str, Array]
    beta: Array | None = None  # (p, m), None unless every coefficient has an estimate
    failure: str = ""


@METHODS.register
@dataclass(frozen=True)
class Bootstrap(Method):
    """The sampling distribution of a point estimate, from `reps` runs of its method on resampled data.

    `method` gives the estimate, and the replicates give its covariance. Replicate k has its own
    seed, so the results do not depend on the number of `workers`. The status counts
    replicates without an estimate (separation, a factor level that was not drawn). A
    divergent replicate counts as infinite in percentile and bca intervals, and is left
    out of standard errors.

    With effects by group and scales estimated by evidence, every replicate estimates
    them again: standard deviations, correlations and sigma have percentile intervals.
    Scales of smooth functions are fixed if there are no groups.

    Parameters
    ----------
    method : str or Method
        The point estimate.
    kind : {"pairs", "residual", "parametric"}
        "pairs" draws observations (valid for any variance), and whole groups if effects
        vary by a group. "residual" draws residuals (Gaussian and StudentT, equal
        variances). "parametric" draws responses from the likelihood at the
        estimate (valid if the model is), and new effects of groups.
    reps : int
        Number of replicates.
    interval : {"percentile", "bca"}
        Meaning of kind="bootstrap" in later intervals. "bca" corrects for bias and
        skewness, with the acceleration from the infinitesimal jackknife.
    workers : int, optional
        Threads; None is one per core. Each has its own copy of the resampled rows.
    progress : bool, optional
        Whether to show a bar; by default after a second, at a terminal or in a
        notebook.

    References
    ----------
    Efron & Tibshirani 1993; Davison & Hinkley 1997, chapter 6.

    Examples
    --------
    >>> model = Model.from_arrays(np.arange(8.0), [1.0, 2.1, 2.9, 4.2, 4.8, 6.1, 7.3, 7.9], columns=["x"])
    >>> found = Bootstrap("closed_form", reps=99).solve(model, np.random.default_rng(0))
    >>> found.replicates["coef"].shape, found.beta[1].round(3)
    ((99, 2, 1), array([1.006]))
    """

    method: MethodName | str | Method = "auto"
    kind: Literal["pairs", "residual", "parametric"] = "pairs"
    reps: Several = 999
    interval: Literal["percentile", "bca"] = "percentile"
    workers: Workers | None = 1
    progress: Flag | None = None

    name = "bootstrap"
    in_memory = True

    def obstacle(self, model: Model) -> str | None:
        method = METHODS.resolve(self.method)
        if not isinstance(method, Method) or isinstance(method, Bootstrap):
            return f"bootstrap wraps a method that finds a mode, not {self.method!r}"
        reason = method.obstacle(model)
        if reason:
            return reason
        if model.design.recipe.grouped and (
            reason := _group_obstacle(self.kind, model)
        ):
            return reason
        censored = model.design.has_rows and (
            model.likelihood.is_censored(model.design.sample.observed).any()
        )
        if censored and self.kind != "pairs":
            return f"a {self.kind} bootstrap draws responses, and the limits at which those of exact rows would be censored are not known; use pairs"
        inner = self._finder(model)
        if inner.target != "mode" or not inner.probabilities:
            return f"bootstrap wraps a method that finds a mode; {inner.name} does not"
        if self.kind != "residual":
            return None
        if model.likelihood.is_discrete:
            return f"a residual bootstrap needs a real-valued response, and {model.likelihood.named} response is not; use pairs or parametric"
        return Newton().obstacle(model)  # its derivatives give the leverages

    def _finder(self, model: Model) -> Method:
        """The wrapped method, chosen by `auto` for the model if it is not set."""
        method: Method = METHODS.resolve(self.method)
        return method.choose(model)[0] if isinstance(method, Auto) else method

    def resolve(self, model: Model, rng: Generator) -> Resolved:
        """Return the choices of the wrapped method, including estimated scales of
        priors.

        Without effects by group all replicates use these scales.
        """
        finder = self._finder(model)
        inner = METHODS.resolve(self.method).resolve(model, rng)
        wrapped = replace(self, method=inner.method)
        if inner.found is None or not model.design.recipe.grouped:
            # an existing solution belongs to all rows, and would replace the replicates
            return inner._replace(method=wrapped, solution=None)
        model.design.need_rows("a bootstrap")
        estimate = inner.solve(rng)
        notes = without_topic(inner.notes, Topic.STANDARD_ERRORS)
        solution = wrapped._resample(
            finder, inner.model, estimate, rng, model_to_fit=model
        )
        return inner._replace(method=wrapped, solution=solution, notes=notes)

    def solve(self, model: Model, rng: Generator) -> Solution:
        model.design.need_rows("a bootstrap")
        inner = self._finder(model)
        return self._resample(inner, model, inner.solve(model, rng), rng)

    def _resample(
        self,
        inner: Method,
        model: Model,
        estimate: Solution,
        rng: Generator,
        model_to_fit: Model | None = None,
    ) -> Solution:
        """Return the solution with replicates, drawn from the model at its estimate;
        `model_to_fit` replaces the model in the fits."""
        if estimate.status is Status.NO_MAXIMUM:
            return replace(
                estimate,
                notes=(
                    *estimate.notes,
                    important_note(
                        Topic.STANDARD_ERRORS,
                        "not resampled: there is no estimate to resample",
                    ),
                ),
            )
        seeds = rng.spawn(self.reps)
        warm_started = inner
        if isinstance(inner, Newton) and inner.start is None:
            warm_started = replace(
                inner, start=tuple(map(tuple, estimate.beta.tolist()))
            )
        source = Source(model, estimate)
        sampler = SAMPLERS[self.kind]
        if self.kind == "residual":
            _ = source.residuals  # once, before threads need them

        def run(seed: Generator) -> Replicate:
            resampled = sampler(source, seed)
            if model_to_fit is not None:
                resampled = replace(model_to_fit, design=resampled.design)
            return _replicate(warm_started, resampled, estimate, seed)

        with one_blas_thread():
            runs = each_of(
                run,
                seeds,
                "bootstrap, replicates",
                workers=self.workers,
                show=self.progress,
            )
        return _gather_replicates(self, inner, model, estimate, runs)


def _group_obstacle(kind: str, model: Model) -> str | None:
    """Return why this kind cannot resample effects that vary by a group, or None."""
    groups = {term.group for term in model.design.recipe.grouped.values()}
    if kind == "residual":
        return "a residual bootstrap does not resample the effects of groups; use pairs, which draws groups, or parametric, which draws effects"
    if kind == "pairs" and len(groups) > 1:
        return f"a bootstrap of groups needs a single grouping, and this model has {', '.join(sorted(groups))}; use parametric"
    if not all(
        set(term.columns) <= set(model.design.columns)
        for term in model.design.recipe.grouped.values()
    ):
        return "a bootstrap of groups needs all columns of a term"
    return None


def _covariance(
    model: Model, estimate: Solution, replicates: Array, logs: Array | None
) -> ParameterCovariance:
    """Return the covariance of replicates (R, p, m); effects of groups keep the
    estimate's, because replicates have other groups."""
    m = model.shape[1]
    group_columns = np.setdiff1d(np.arange(model.shape[0]), model.design.ungrouped)
    sample = replicates.copy()
    sample[:, group_columns] = replicates[:, group_columns].mean(0)
    names = () if logs is None else log_names(model)
    covariance = DenseCovariance.of_sample(model.design.frame, sample, logs, names)
    if not len(group_columns):
        return covariance
    entries = vec_entries(group_columns, m)
    units = np.eye(estimate.beta.size)[:, entries]
    return covariance.with_spread(units @ estimate.given_scales.half(units.T))


def _replicate(
    method: Method,
    model: Model,
    base: Solution,
    rng: Generator,
) -> Replicate:
    D = model.likelihood.contrast_matrix
    missing = np.full((model.shape[0], len(D)), np.nan)
    values = {"coef": missing}
    try:
        s = method.solve(model, rng)
    except (ProbregError, np.linalg.LinAlgError) as error:
        return Replicate(values, failure=type(error).__name__)
    if s.status.is_unfinished:
        return Replicate(values, failure=s.status.value)
    if model.joint.contrast is None:
        coef = s.beta @ D.T
    else:
        coef = model.joint.scores(s.beta)
    newly_missing = np.zeros_like(missing, dtype=bool)
    if s.not_estimable is not None:
        diverged = s.status is Status.NO_MAXIMUM
        at_end = np.copysign(np.inf, coef) if diverged else missing
        coef = np.where(s.not_estimable, at_end, coef)
        newly_missing = s.not_estimable
    if base.not_estimable is not None:
        newly_missing = newly_missing & ~base.not_estimable
        coef = np.where(base.not_estimable, np.nan, coef)
    values["coef"] = coef
    values |= {a: np.array(v) for a, v in s.aux.items()}
    scales = {} if s.effect_scales is None else s.effect_scales.values
    values |= {name: np.array(v) for name, v in scales.items()}
    if newly_missing.any():
        return Replicate(values, failure=s.status.value)
    return Replicate(values, s.beta)


def _gather_replicates(
    method: Bootstrap,
    inner: Method,
    model: Model,
    estimate: Solution,
    runs: list[Replicate],
) -> Solution:
    """Return the estimate with its replicates, their covariance, and the number of replicates without an estimate."""
    estimated = [r for r in runs if r.beta is not None]
    betas = [r.beta for r in runs if r.beta is not None]
    failures = Counter(r.failure for r in runs if r.failure)
    if len(estimated) < 2:
        raise Incompatible(
            f"bootstrap: {len(runs) - len(estimated)} of {len(runs)} replicates have no estimate ({_failure_counts(failures)}): give a prior, "
            "or resample by kind='parametric'"
        )
    known = ("coef", *model.unknown)
    scales = [name for name in estimated[0].values if name not in known]
    replicates = {
        name: np.stack([r.values.get(name, np.array(np.nan)) for r in runs])
        for name in ("coef", *scales, *model.unknown)
    }
    if Newton().obstacle(model) is None:
        replicates |= _acceleration(model, estimate)
    # a correlation is undefined where an effect has no variance
    n_missing = {
        name: sum(not np.isfinite(r.values[name]) for r in estimated) for name in scales
    }
    undefined = [
        important_note(
            Topic.STANDARD_ERRORS,
            "{name} is undefined in {n} of {known} replicates, which have a standard deviation of 0; its interval omits these",
            name=name,
            n=n,
            known=len(estimated),
        )
        for name, n in n_missing.items()
        if n > 0
    ]
    n_failed = sum(failures.values())
    of_which = f", {method.reps - n_failed} with an estimate" * bool(n_failed)
    details = [estimate.detail]
    if n_failed:
        details.append(
            f"{n_failed} of {method.reps} replicates have no estimate: {_failure_counts(failures)}"
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = [
            [np.log(r.values.get(a, np.nan)) for a in model.unknown] for r in estimated
        ]
    joint = bool(model.unknown) and np.isfinite(logs).all()
    return replace(
        estimate,
        scale=_covariance(
            model, estimate, np.stack(betas), np.array(logs) if joint else None
        ),
        replicates=replicates,
        status=Status.RESAMPLED if estimate.status.good else estimate.status,
        detail="; ".join(filter(None, details)),
        stats={
            **estimate.stats,
            "replicates": float(method.reps),
            "failed": float(n_failed),
        },
        notes=(
            *without_topic(estimate.notes, Topic.STANDARD_ERRORS),
            important_note(
                Topic.STANDARD_ERRORS,
                "standard errors come from {reps} {kind} bootstrap replicates of {method}{of_which}",
                reps=method.reps,
                kind=method.kind,
                method=inner.name,
                of_which=of_which,
            ),
            *undefined,
        ),
    )


def _acceleration(model: Model, solution: Solution) -> dict[str, Array]:
    """Return sum l^3 / (6 (sum l^2)^(3/2)) over the influences l of the observations (Efron 1987)."""
    try:
        estimate = estimate_of(model, solution, "influence", in_memory=True)
        square, cube = estimate.influence_sums()
    except ProbregError:
        return {}
    # a = sum_i w_i l_i^3 / (6 (sum_i w_i l_i^2)^(3/2))   (Efron 1987; l_i the infinitesimal jackknife).
    skew = cube / (6.0 * np.where(square > 0, square, 1.0) ** 1.5)
    k = len(skew) - len(estimate.model.unknown)
    aux = {
        f"{a}_acceleration": skew[k + i] for i, a in enumerate(estimate.model.unknown)
    }
    return {"acceleration": skew[:k].reshape(len(solution.beta), -1), **aux}


def _failure_counts(failures: Counter[str]) -> str:
    return ", ".join(f"{n} {reason}" for reason, n in failures.most_common())

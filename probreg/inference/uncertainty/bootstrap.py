"""The bootstrap: an estimator run again on data sets that might have been, and what its answers look like together."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np

from probreg.arguments.scalars import Flag, Several, Workers, check_fields
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
from probreg.inference.notes import Note, Topic, important_note, without_topic
from probreg.inference.uncertainty.covariance import covariance_of_kind
from probreg.inference.uncertainty.information import estimate_of
from probreg.inference.uncertainty.resample import SAMPLERS, Source
from probreg.model.model import Model
from probreg.numerics.frame import vec_entries
from probreg.numerics.linalg import one_blas_thread
from probreg.system.progress import each_of

INTERVALS = ("percentile", "bca", "studentised")


class Replicate(NamedTuple):
    """One run: reported coefficients (p, D), infinite where the estimate runs away and nan where there is none."""

    coef: Array
    std_error: Array | None
    aux: Mapping[str, tuple[float, float]]  # value, standard error
    beta: Array | None  # (p, m), None unless every coefficient has an estimate
    failure: str
    scales: Mapping[str, float] = MappingProxyType({})  # found by evidence in this run


@METHODS.register
@dataclass(frozen=True)
class Bootstrap(Method):
    """The sampling distribution of a point estimate, from `reps` runs of its method on resampled data.

    The estimate is that of `method`; its covariance is that of the replicates. Replicate k has its own seed, so that it
    is the same whatever the number of `workers`. A replicate without an estimate (separation, a factor level that was
    not drawn) is counted and said in the status. Where it ran to infinity it counts as that in percentile and bca
    intervals, and it is left out of standard errors.

    With effects by group at scales found by evidence, every replicate finds its own: standard deviations, correlations and sigma
    have percentile intervals. Scales of smooth functions without groups beside them are held.

    Parameters
    ----------
    method : str or Method
        The point estimate.
    kind : {"pairs", "residual", "parametric", "wild"}
        "pairs" draws observations (right whatever the variance), and whole groups where effects vary by a group. "residual" draws residuals (Gaussian and StudentT,
        equal variances). "wild" flips their signs (Gaussian and StudentT, any variances; says nothing of sigma).
        "parametric" draws responses from the likelihood at the estimate (right if the model is), and effects of groups anew.
    reps : int
        Number of replicates.
    interval : {"percentile", "bca", "studentised"}
        What kind="bootstrap" means later. "bca" is corrected for bias and skewness, the acceleration from the
        infinitesimal jackknife. "studentised" is by each replicate's own standard error: a sandwich after pairs and
        wild, the method's own otherwise.
    workers : int, optional
        Threads; None is one per core. Each holds the rows that it drew.
    progress : bool, optional
        Whether a bar is shown; by default after a second, at a terminal or in a notebook.

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
    kind: Literal["pairs", "residual", "parametric", "wild"] = "pairs"
    reps: Several = 999
    interval: Literal["percentile", "bca", "studentised"] = "percentile"
    workers: Workers | None = 1
    progress: Flag | None = None

    name = "bootstrap"
    in_memory = True

    def __post_init__(self) -> None:
        check_fields(self)

    def obstacle(self, model: Model) -> str | None:
        method = METHODS.resolve(self.method)
        if not isinstance(method, Method) or isinstance(method, Bootstrap):
            return f"bootstrap wraps a method that finds a mode, not {self.method!r}"
        why = method.obstacle(model)
        if why:
            return why
        if model.design.recipe.grouped and (why := _of_groups(self.kind, model)):
            return why
        inner = _chosen(method, model)
        if inner.target != "mode" or not inner.probabilities:
            return f"bootstrap wraps a method that finds a mode; {inner.name} does not"
        if self.kind in ("residual", "wild") and not isinstance(
            model.likelihood.support, str
        ):
            return f"a {self.kind} bootstrap adds noise to a fitted real number, and {model.likelihood.named} response is none; use pairs or parametric"
        if self.kind in ("residual", "wild"):
            return Newton().obstacle(model)  # whose derivatives give the leverages
        return None

    def resolve(self, model: Model, rng: np.random.Generator) -> Resolved:
        """What the wrapped method settles on, scales it finds for priors included: without effects by group they are held in every
        replicate."""
        finder = _chosen(METHODS.resolve(self.method), model)
        inner = METHODS.resolve(self.method).resolve(model, rng)
        own = replace(self, method=inner.method)
        if inner.found is None or not model.design.recipe.grouped:
            # a solution that is already there is of all rows, and would stand in the place of replicates
            return inner._replace(method=own, solution=None)
        model.design.need_rows("a bootstrap")
        if inner.solution is None:
            found = inner.method.solve(inner.model, rng)
        else:
            found = inner.solution
        notes = without_topic(inner.notes, Topic.STANDARD_ERRORS)
        solution = own._resampled(finder, inner.model, found, rng, stated=model)
        return inner._replace(method=own, solution=solution, notes=notes)

    def solve(self, model: Model, rng: np.random.Generator) -> Solution:
        model.design.need_rows("a bootstrap")
        inner = _chosen(METHODS.resolve(self.method), model)
        return self._resampled(inner, model, inner.solve(model, rng), rng)

    def _resampled(
        self,
        inner: Method,
        model: Model,
        found: Solution,
        rng: np.random.Generator,
        stated: Model | None = None,
    ) -> Solution:
        """The solution with replicates, drawn from the model at its estimate; `stated` is fitted to them in its place."""
        if found.status is Status.NO_MAXIMUM:
            return replace(
                found,
                notes=(
                    *found.notes,
                    important_note(
                        Topic.STANDARD_ERRORS,
                        "not resampled: there is no estimate to resample",
                    ),
                ),
            )
        seeds = rng.spawn(self.reps)
        again = inner
        if isinstance(inner, Newton) and inner.start is None:
            again = replace(inner, start=tuple(map(tuple, found.beta.tolist())))
        errors = self.interval == "studentised"
        robust = (
            errors
            and self.kind in ("pairs", "wild")
            and Newton().obstacle(model) is None
        )
        source = Source(model, found)
        sampler = SAMPLERS[self.kind]
        if self.kind in ("residual", "wild"):
            _ = source.residuals  # once, before threads ask

        def run(seed: np.random.Generator) -> Replicate:
            drawn = sampler(source, seed)
            if stated is not None:
                drawn = replace(stated, design=drawn.design)
            return _replicate(again, drawn, found, seed, (errors, robust))

        with one_blas_thread():
            runs = each_of(
                run,
                seeds,
                "bootstrap, replicates",
                workers=self.workers,
                show=self.progress,
            )
        return _gathered(self, inner, model, found, runs, (errors, robust))


def _of_groups(kind: str, model: Model) -> str | None:
    """Why this kind does not resample effects that vary by a group, or None."""
    groups = {term.group for term in model.design.recipe.grouped.values()}
    if kind in ("residual", "wild"):
        return f"a {kind} bootstrap keeps the effects of groups as they are; use pairs, which draws groups, or parametric, which draws effects"
    if kind == "pairs" and len(groups) > 1:
        return f"a bootstrap of groups is of one grouping, and this model has {', '.join(sorted(groups))}; use parametric"
    if not all(
        set(term.columns) <= set(model.design.columns)
        for term in model.design.recipe.grouped.values()
    ):
        return "a bootstrap of groups needs all columns of a term"
    return None


def _covariance(
    model: Model, found: Solution, replicates: Array, logs: Array | None
) -> ParameterCovariance:
    """The covariance of replicates (R, p, m). Effects of groups have that of the estimate: their replicates are of other groups."""
    own = np.setdiff1d(np.arange(model.shape[0]), model.design.head)
    if not len(own):
        return DenseCovariance.of_sample(
            model.design.frame,
            replicates,
            logs,
            () if logs is None else log_names(model),
        )
    m = model.shape[1]
    k = model.shape[0] * model.shape[1]
    sample = replicates.copy()
    sample[:, own] = replicates[:, own].mean(0)
    known = found.given_scales.half(np.eye(k)[vec_entries(own, m)])
    root = np.zeros((k, known.shape[1]))
    root[vec_entries(own, m)] = known
    root = np.hstack(
        [DenseCovariance.of_sample(model.design.frame, sample).raw_root(), root]
    )
    return DenseCovariance.of_raw_root(model.design.frame, m, root)


def _chosen(method: Method, model: Model) -> Method:
    if isinstance(method, Auto):
        return method.choose(model)[0]
    return method


def _replicate(
    method: Method,
    model: Model,
    base: Solution,
    rng: np.random.Generator,
    wanted: tuple[bool, bool],
) -> Replicate:
    D = model.likelihood.contrast_matrix
    nothing = np.full((model.shape[0], len(D)), np.nan)
    try:
        s = method.solve(model, rng)
        if wanted[0]:
            errors = _errors(model, s, robust=wanted[1])
        else:
            errors = None
    except (ProbregError, np.linalg.LinAlgError) as error:
        return Replicate(nothing, nothing, {}, None, type(error).__name__)
    if s.status.unfinished:
        return Replicate(nothing, nothing, {}, None, s.status.name)
    if model.joint.contrast is None:
        coef = s.beta @ D.T
    else:
        coef = model.joint.scores(s.beta)
    if s.not_estimable is None:
        gone = np.zeros_like(nothing, dtype=bool)
    else:
        gone = s.not_estimable
    coef = np.where(
        gone,
        np.copysign(np.inf, coef) if s.status is Status.NO_MAXIMUM else np.nan,
        coef,
    )
    fresh = gone
    if base.not_estimable is not None:
        fresh = gone & ~base.not_estimable
        coef = np.where(base.not_estimable, np.nan, coef)
    aux = {a: (v, s.aux_sd.get(a, np.nan)) for a, v in s.aux.items()}
    scales = {} if s.found is None else s.found.values
    return Replicate(
        coef,
        errors,
        aux,
        None if fresh.any() else s.beta,
        s.status.name if fresh.any() else "",
        scales,
    )


def _errors(model: Model, solution: Solution, *, robust: bool) -> Array:
    """Standard errors of the reported coefficients, (p, D)."""
    missing = solution.status is Status.NO_MAXIMUM
    if robust and not missing:
        scale = covariance_of_kind(model, solution, "HC0").matrix
    else:
        scale = solution.scale
    D = model.likelihood.contrast_matrix
    with np.errstate(invalid="ignore"):
        return scale.errors_of(D)


def _gathered(
    method: Bootstrap,
    inner: Method,
    model: Model,
    found: Solution,
    runs: list[Replicate],
    wanted: tuple[bool, bool],
) -> Solution:
    """The estimate with its replicates, their covariance, and a count of those that have no estimate."""
    whole = [r for r in runs if r.beta is not None]
    betas = [r.beta for r in runs if r.beta is not None]
    failures = Counter(r.failure for r in runs if r.failure)
    if len(whole) < 2:
        raise Incompatible(
            f"bootstrap: {len(runs) - len(whole)} of {len(runs)} replicates have no estimate ({_counted(failures)}): give a prior, "
            "or resample by kind='parametric'"
        )
    replicates: dict[str, Array] = {"coef": np.stack([r.coef for r in runs])}
    # Flipping the signs of residuals keeps their size, so a wild bootstrap says nothing of a noise scale.
    for a in model.unknown:
        if method.kind == "wild":
            replicates[a] = replicates[f"{a}_std_error"] = np.full(len(runs), np.nan)
            continue
        replicates[a] = np.array([r.aux.get(a, (np.nan, np.nan))[0] for r in runs])
        replicates[f"{a}_std_error"] = np.array(
            [r.aux.get(a, (np.nan, np.nan))[1] for r in runs]
        )
    scales = next((list(r.scales) for r in runs if r.scales), [])
    replicates |= {
        name: np.array([r.scales.get(name, np.nan) for r in runs]) for name in scales
    }
    if wanted[0]:
        replicates["std_error"] = np.stack(
            [r.std_error for r in runs if r.std_error is not None]
        )
        replicates["own_std_error"] = _errors(model, found, robust=wanted[1])
    replicates |= {
        f"{a}_own_std_error": np.array(found.aux_sd[a]) for a in model.unknown
    }
    if Newton().obstacle(model) is None:
        replicates |= _acceleration(model, found)
    lost = sum(failures.values())
    if lost:
        said = (
            f"{lost} of {method.reps} replicates have no estimate: {_counted(failures)}"
        )
    else:
        said = ""
    sd = (
        {a: float(np.nanstd(replicates[a], ddof=1)) for a in model.unknown}
        if method.kind != "wild"
        else found.aux_sd
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = [
            [np.log(r.aux.get(a, (np.nan,))[0]) for a in model.unknown] for r in whole
        ]
    joint = bool(model.unknown) and method.kind != "wild" and np.isfinite(logs).all()
    return replace(
        found,
        scale=_covariance(
            model, found, np.stack(betas), np.array(logs) if joint else None
        ),
        aux_sd=sd,
        replicates=replicates,
        status=Status.RESAMPLED if found.status.good else found.status,
        detail="; ".join(t for t in (found.detail, said) if t),
        stats={**found.stats, "replicates": float(method.reps), "failed": float(lost)},
        notes=(
            *without_topic(found.notes, Topic.STANDARD_ERRORS),
            important_note(
                Topic.STANDARD_ERRORS,
                "standard errors are those of {reps} {kind} bootstrap replicates of {method}{missing}",
                reps=method.reps,
                kind=method.kind,
                method=inner.name,
                missing=f", without the {lost} that have no estimate" if lost else "",
            ),
            *_undefined_correlation_notes(replicates, scales, len(whole)),
        ),
    )


def _undefined_correlation_notes(
    replicates: Mapping[str, Array], scales: list[str], known: int
) -> list[Note]:
    """Return notes on correlations that some replicates do not define, because an effect has no variance."""
    lost = {name: known - int(np.isfinite(replicates[name]).sum()) for name in scales}
    return [
        important_note(
            Topic.STANDARD_ERRORS,
            "{name} is not defined in {n} of {known} replicates, where a standard deviation is 0; its interval leaves these out",
            name=name,
            n=n,
            known=known,
        )
        for name, n in lost.items()
        if n > 0
    ]


def _acceleration(model: Model, found: Solution) -> dict[str, Array]:
    """sum l^3 / (6 (sum l^2)^(3/2)) over the influences l of the observations (Efron 1987)."""
    try:
        at = estimate_of(model, found, "influence", each=True)
        square, cube = at.influence_sums()
    except ProbregError:
        return {}
    # a = sum_i w_i l_i^3 / (6 (sum_i w_i l_i^2)^(3/2))   (Efron 1987; l_i the infinitesimal jackknife).
    skew = cube / (6.0 * np.where(square > 0, square, 1.0) ** 1.5)
    k = len(skew) - len(at.model.unknown)
    aux = {f"{a}_acceleration": skew[k + i] for i, a in enumerate(at.model.unknown)}
    return {"acceleration": skew[:k].reshape(len(found.beta), -1), **aux}


def _counted(failures: Counter[str]) -> str:
    words = {
        "NO_MAXIMUM": "separated",
        "NOT_IDENTIFIED": "collinear",
        "STEP_LIMIT": "not converged",
        "STALLED": "not converged",
        "SADDLE": "not converged",
    }
    return ", ".join(f"{n} {words.get(k, k)}" for k, n in failures.most_common())

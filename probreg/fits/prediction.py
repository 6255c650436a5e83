"""What a fit says of new rows, as arrays: the mean, the interval of the mean, the interval of a new observation.

For a Gaussian posterior in closed form all three are Student-t or normal; by quadrature they are of mixtures of normals over the
nodes of sigma. For another posterior they come from the draws, but for the mean where that is x'beta.
For a point estimate the mean is the plug-in; its interval is Wald on the
scale of the link (delta method for class probabilities); a new observation is classical Student-t for least squares, and
otherwise the mixture of the likelihood over draws from the estimator's asymptotic normal distribution.
Of a Gaussian process all of them count what its columns leave of it off the rows that they were made of (`off_span`), with the mean of
the process given its values where these are its coefficients; of effects that vary by a group those of new groups are counted alike.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from probreg.data import Design
from probreg.data.rows import plus_offset
from probreg.errors import Incompatible, NotConverged
from probreg.inference import Method, Solution, Status
from probreg.inference.exact.quadrature import predictors_given_sigma
from probreg.inference.modes.closed_form import touched
from probreg.inference.modes.wide import UnwrittenCovariance
from probreg.inference.penalized.nonsmooth import NO_ERRORS, has_nonsmooth_terms
from probreg.inference.uncertainty.asymptotic import asymptotic, has_standard_error
from probreg.inference.uncertainty.intervals import equal_tail, quantile
from probreg.likelihoods import OfClasses, OfTrials, ProximalLikelihood, UnivariateLikelihood
from probreg.likelihoods.links import IDENTITY
from probreg.model.model import Model
from probreg.model.off_span import OffSpan, normal_nodes, normal_points, normal_scores, off_span
from probreg.model.predictive import Predictive
from probreg.numerics.linalg import one_blas_thread

Array = np.ndarray
_NUMBERS = 500_000  # draws times rows that are held at once: what a processor's cache holds
_ATOMS = 400  # draws behind the interval of a new observation, whose own noise hides what more would change
_AT_NODES = 1000  # rows at whose nodes a mean is taken at once
_POINT_ATOMS = 1024  # nodes or points over the residual of a process, about
_TOL = 1e-7  # of that interval, in probability
_IN_SPACE = 1e-9  # of |x| |N|: a row this near is a combination of the training rows, rounding included


@dataclass(frozen=True, eq=False)
class Prediction:
    """Arrays over rows (n,), or rows and classes (n, K); the last pair is (n,) or None for unordered classes."""

    mean: Array
    mean_interval: tuple[Array, Array]
    new_interval: tuple[Array, Array] | None
    likely: Array | None  # (n, K) bool: the smallest set of classes with total probability at least prob
    kind: str  # what the intervals are, in words

    @property
    def arrays(self) -> dict[str, Array]:
        """What there is, by name: mean, mean_lower, mean_upper, and new_lower, new_upper or likely."""
        out = {"mean": self.mean, **dict(zip(("mean_lower", "mean_upper"), self.mean_interval))}
        if self.new_interval is not None:
            out |= dict(zip(("new_lower", "new_upper"), self.new_interval))
        return out if self.likely is None else out | {"likely": self.likely}


def require_predictive(solution: Solution, method: Method) -> None:
    """NotConverged when there is no estimate to predict from, Incompatible when there are no probabilities."""
    if not method.probabilities:
        raise Incompatible(
            f"{method.name} has no probabilities: np.sign(X @ coef) classifies, and newton or nuts predict"
        )
    if solution.status is Status.NO_MAXIMUM:
        raise NotConverged(
            f"{method.name}: {solution.status.value} ({solution.detail}); so there is nothing to predict from"
        )


def predictive(model: Model, solution: Solution, design: Design, *, spread: bool, seed: int) -> Predictive:
    """The mixture over draws; for a point estimate one atom, or with `spread` its asymptotic distribution."""
    atoms = _atoms(model, solution, spread=spread, seed=seed)
    if atoms.off is not None and len(atoms.values["beta"]) == 1 and atoms.off.shares_groups(design):
        # rows of one new group share its effects, so that they need draws in place of each row's own distribution
        atoms = replace(atoms, values={k: np.repeat(v, _POINT_ATOMS, axis=0) for k, v in atoms.values.items()})
    return _mixture(model, atoms, design)


def atom_count(model: Model, solution: Solution) -> int:
    """The atoms of a predictive: those of a point estimate of a Gaussian process may be nodes over what it leaves."""
    if solution.draws is not None:
        return solution.draws.count
    return _POINT_ATOMS if model.design.recipe.processes and not model.likelihood.least_squares else 1


def off_span_of(model: Model, solution: Solution, aux: Mapping[str, Array | float] | None = None) -> OffSpan | None:
    """The residual processes of a model's terms, None without such terms: an atom for each draw, or the estimate's one.

    `aux` are the nuisance parameters of the atoms where they are others than those of the solution.
    """
    if not model.design.recipe.processes and not model.design.recipe.grouped:
        return None
    draws = None if solution.draws is None else solution.draws.flat
    if aux is None:
        aux = {**model.fixed, **({a: draws[a] for a in model.unknown} if draws is not None else solution.aux)}
    return off_span(model, draws, model.noise(aux))


@dataclass(frozen=True, eq=False)
class _Atoms:
    """beta (S, p, m) and each nuisance parameter (S, 1); the residual processes at them, if any, and where their noise comes from."""

    values: Mapping[str, Array]
    off: OffSpan | None
    rng: np.random.Generator


def _atoms(model: Model, solution: Solution, *, spread: bool, seed: int) -> _Atoms:
    if solution.draws is not None:
        draws = solution.draws.flat
        beta, aux = draws["beta"], {a: draws[a][:, None] for a in model.unknown}
    elif spread:
        beta, aux = asymptotic(solution, np.random.default_rng([seed, 2]))
    else:
        beta, aux = solution.beta[None], {a: np.full((1, 1), v) for a, v in solution.aux.items()}
    held = {a: np.full((len(beta), 1), v) for a, v in model.fixed.items()}
    known = {**held, **aux}
    off = off_span_of(model, solution, {a: v[:, 0] for a, v in known.items()})
    return _Atoms({"beta": beta, **known}, off, np.random.default_rng([seed, 6]))


def _mixture(model: Model, atoms: _Atoms, design: Design) -> Predictive:
    aux = {a: v for a, v in atoms.values.items() if a != "beta"}
    known = model.likelihood.at_rows(aux, design.precision)
    # (S, n, m) for beta (S, p, m), as one product; the atoms of a row lie side by side in memory.
    beta = atoms.values["beta"]
    S, p, m = beta.shape
    eta = np.moveaxis((design.X @ beta.transpose(1, 0, 2).reshape(p, S * m)).reshape(design.n, S, m), 0, 1)
    found = Predictive(model.likelihood, plus_offset(eta, design.offset), known, model.given(design))
    if atoms.off is None:
        return found
    if S > 1:
        found = replace(found, eta=found.eta + atoms.off.group_draws(design, S, m, atoms.rng))
    mean, variance = (atoms.off.of_processes if S > 1 else atoms.off).moments(design)
    found = replace(found, eta=found.eta + mean)
    return found if variance is None else _with_residual(model, found, variance, atoms.rng)


def _with_residual(model: Model, p: Predictive, variance: Array, rng: np.random.Generator) -> Predictive:
    """p(y) where eta has the residual of a process added, N(0, v) of v (S, n) or (1, n), at each row and linear predictor.

    Atoms that are draws get one draw each. A single one becomes a Gaussian of variance sigma^2 + v, nodes over the residual, or
    for several predictors points of a low-discrepancy sequence.
    """
    S, n, m = p.eta.shape
    sd = np.sqrt(variance)[..., None]
    if S > 1:
        return replace(p, eta=p.eta + sd * normal_scores(rng, S, n, m))
    if model.likelihood.least_squares:
        noise = model.noise_scale
        return replace(p, aux={**p.aux, noise: np.sqrt(np.square(p.aux[noise]) + variance)})
    if m > 1:
        z, share = normal_points(m)[:, None, :], None
    else:
        nodes, share = normal_nodes(float(sd.max()))
        z = nodes[:, None, None]
    aux = {a: np.repeat(v, len(z), axis=0) for a, v in p.aux.items()}
    return replace(p, eta=p.eta + sd * z, aux=aux, share=share)


def _eta(design: Design, beta: Array) -> Array:
    eta = design.X @ beta
    return plus_offset(eta, design.offset)


@one_blas_thread()
def predict(model: Model, solution: Solution, method: Method, design: Design, *, prob: float, seed: int) -> Prediction:
    """Mean and intervals at the rows of a design; NotConverged when there is no estimate."""
    require_predictive(solution, method)
    require_estimable(model, solution, design)
    point = solution.draws is None
    spread = point and isinstance(model.likelihood, UnivariateLikelihood) and not _errorless(model, solution)
    if model.design.weight_kind == "sampling":
        # The mean and its interval alone: under sampling weights there is no distribution of a new observation.
        mean = _point_mean(model, solution, design)
        if _errorless(model, solution):
            none = np.full(mean.shape, np.nan)
            return Prediction(mean, (none, none), None, None, f"no intervals: {_why_errorless(model)}")
        kind = f"Wald interval of the {model.likelihood.centre} on the link scale, sandwich errors; sampling weights say nothing of a new observation"
        kind += _counted(model, solution)
        return Prediction(mean, _mean_interval(model, solution, design, prob), None, None, kind)
    if _exact(model, solution):
        return _closed(model, solution, design, prob)
    if _on_nodes(model, solution):
        size = max(1, _NUMBERS // len(solution.posterior.marginals["weight"]))  # type: ignore[index]
        parts = [slice(i, i + size) for i in range(0, design.n, size)] or [slice(0)]
        return _joined([_of_nodes(model, solution, design.take(part), prob) for part in parts])
    atoms = _atoms(model, solution, spread=spread, seed=seed)
    made = _of_point if point else _of_draws
    size = max(1, _NUMBERS // (len(atoms.values["beta"]) * model.shape[1]))
    rows = [slice(i, i + size) for i in range(0, design.n, size)] or [slice(0)]
    found = _joined([made(model, solution, design.take(part), atoms, prob) for part in rows])
    return replace(found, kind=found.kind + _counted(model, solution))


def _joined(parts: list[Prediction]) -> Prediction:
    if len(parts) == 1:
        return parts[0]

    def pair(ends: list[tuple[Array, Array]]) -> tuple[Array, Array]:
        return np.concatenate([e[0] for e in ends]), np.concatenate([e[1] for e in ends])

    new = [p.new_interval for p in parts if p.new_interval is not None]
    likely = [p.likely for p in parts if p.likely is not None]
    return Prediction(
        np.concatenate([p.mean for p in parts]),
        pair([p.mean_interval for p in parts]),
        pair(new) if new else None,
        np.concatenate(likely) if likely else None,
        parts[0].kind,
    )


def _exact(model: Model, solution: Solution) -> bool:
    """The Gaussian predictive is Student-t or normal: least squares, a conjugate posterior, or sigma given."""
    draws = solution.draws
    if not model.likelihood.least_squares or has_nonsmooth_terms(model):
        return False
    if draws is not None and not draws.elliptical:
        return False
    t = solution.df is not None and (draws is None or "sigma2_scale" in solution.stats)
    return t or model.noise_held is not None


def _closed(model: Model, solution: Solution, design: Design, prob: float) -> Prediction:
    """mean -+ t sqrt(x'Sx) for the mean and mean -+ t sqrt(s^2 + x'Sx) for a new observation, S the scale matrix.

    x'Sx + v where a process has the residual variance v at x, in the same units.

    s^2 is the unbiased variance of least squares (nan where no degrees of freedom are left), b/a of a conjugate
    posterior, or the given sigma^2, with normal quantiles.
    """
    mean = _eta(design, solution.beta)[:, 0]
    df = solution.df
    s2 = _noise_square(model, solution)
    variance = _variance(design.X, solution.scale, np.ones((design.n, 1, 1)))[:, 0]
    left = _left(model, solution, design, noise_of_scale(model, solution))
    variance = variance if left is None else variance + left
    noise = s2 if design.precision is None else s2 / design.precision
    half, wide = (quantile(prob, df) * np.sqrt(np.maximum(v, 0.0)) for v in (variance, variance + noise))
    point = "least squares" if df is not None else "the estimate, sigma given"
    of = point if solution.draws is None else "the posterior, no draws needed"
    kind = f"{'normal' if df is None else 'Student-t'} intervals of {of}{_counted(model, solution)}"
    if solution.sandwich:
        kind += f", by the sandwich {solution.sandwich}; one sigma of all rows says nothing of a new observation"
        return Prediction(mean, (mean - half, mean + half), None, None, kind)
    return Prediction(mean, (mean - half, mean + half), (mean - wide, mean + wide), None, kind)


def _noise_square(model: Model, solution: Solution) -> float:
    unknown = solution.stats.get("sigma2_scale", solution.stats.get("sigma_unbiased", np.nan) ** 2)
    return unknown if model.noise_held is None else model.noise_held**2


def noise_of_scale(model: Model, solution: Solution) -> float | None:
    """The noise scale that is in the scale matrix of a solution in closed form; None for other solutions."""
    return float(np.sqrt(_noise_square(model, solution))) if _exact(model, solution) else None


def _on_nodes(model: Model, solution: Solution) -> bool:
    """The posterior is a mixture over nodes of log sigma, given which a Gaussian linear predictor is normal."""
    nodes = None if solution.draws is None else solution.draws.marginals
    known = nodes is not None and "log_sigma" in nodes and not model.design.recipe.processes
    return known and predictors_given_sigma(model, np.zeros((0, model.shape[0])), np.ones(1)) is not None


def _of_nodes(model: Model, solution: Solution, design: Design, prob: float) -> Prediction:
    """Quantiles of sum_k w_k N(x'm_k, v_k) for the mean, and of sum_k w_k N(x'm_k, v_k + sigma_k^2) for a new observation."""
    nodes = solution.posterior.marginals
    assert nodes is not None
    sigma, tail = np.exp(nodes["log_sigma"]), (1.0 - prob) / 2.0
    given = predictors_given_sigma(model, design.X, sigma)
    assert given is not None
    eta, sd = np.stack([plus_offset(row[:, None], design.offset) for row in given[0]]), given[1]
    noise = model.likelihood.at_rows({model.noise_scale: sigma[:, None]}, design.precision)[model.noise_scale]
    ends = []
    for spread in (sd, np.sqrt(np.square(sd) + np.square(noise))):
        mixture = Predictive(model.likelihood, eta, {model.noise_scale: spread}, share=nodes["weight"])
        ends.append((mixture.quantile(tail), mixture.quantile(1.0 - tail)))
    mean = _eta(design, solution.beta)[:, 0]
    return Prediction(
        mean, ends[0], ends[1], None, "equal-tailed intervals of the posterior, over nodes of sigma, no draws needed"
    )


def _of_draws(model: Model, solution: Solution, design: Design, atoms: _Atoms, prob: float) -> Prediction:
    p = _mixture(model, atoms, design)
    means = p.means()
    mean, interval = means.mean(0), equal_tail(means, prob)
    if atoms.off is None and model.likelihood.link is IDENTITY and np.array_equal(means, p.eta[..., 0]):
        mean = _eta(design, solution.beta)[:, 0]  # E[x'beta] = x'E[beta], which has no or less Monte Carlo error
    if not isinstance(model.likelihood, UnivariateLikelihood):
        kind = "equal-tailed posterior intervals of the class probabilities"
        return Prediction(mean, interval, None, _likely(mean, prob), kind)
    new, said = _new(model, p, prob, f"posterior predictive of at most {_ATOMS} draws")
    return Prediction(
        mean, interval, new, None, f"equal-tailed posterior interval of the {model.likelihood.centre}; {said}"
    )


def _errorless(model: Model, solution: Solution) -> bool:
    """A mode without standard errors: under a prior with kinks, or of a loss with a tube that holds every residual."""
    kinked = has_nonsmooth_terms(model) or isinstance(model.likelihood, ProximalLikelihood)
    return kinked and not has_standard_error(solution)


def _why_errorless(model: Model) -> str:
    return (
        NO_ERRORS
        if has_nonsmooth_terms(model)
        else "every residual is within epsilon, so that the noise has no estimate"
    )


def _point_mean(model: Model, solution: Solution, design: Design) -> Array:
    """The mean of a plug-in estimate; over the residual of a process, where it has one that the link does not pass unchanged."""
    aux = {**model.fixed, **solution.aux}
    eta = _eta(design, solution.beta)
    mean = model.likelihood.mean(eta, **aux)
    off = off_span_of(model, solution)
    variance = None if off is None or model.likelihood.link is IDENTITY else off.variance(design)
    if variance is None:
        return mean
    values = {a: np.full((1, 1), v) for a, v in aux.items()}
    rng = np.random.default_rng(0)  # a single atom draws nothing
    for part in row_parts(design.n):
        one = Predictive(model.likelihood, eta[None, part], values)
        mean[part] = _with_residual(model, one, variance[:, part], rng).mean()
    return mean


def row_parts(n: int) -> list[slice]:
    return [slice(i, i + _AT_NODES) for i in range(0, n, _AT_NODES)]


def _of_point(model: Model, solution: Solution, design: Design, atoms: _Atoms, prob: float) -> Prediction:
    mean = _point_mean(model, solution, design)
    if _errorless(model, solution):
        none = np.full(mean.shape, np.nan)
        if isinstance(model.likelihood, ProximalLikelihood) and not has_nonsmooth_terms(model):
            return Prediction(mean, (none, none), None, None, f"no intervals: {_why_errorless(model)}")
        if not isinstance(model.likelihood, UnivariateLikelihood):
            return Prediction(mean, (none, none), None, _likely(mean, prob), f"no intervals: {_why_errorless(model)}")
        noise = "that of a new observation is of the noise alone, the estimate taken as the truth"
        new, said = _new(model, _mixture(model, atoms, design), prob, noise)
        return Prediction(
            mean, (none, none), new, None, f"no interval of the {model.likelihood.centre}: {NO_ERRORS}; {said}"
        )
    interval = _mean_interval(model, solution, design, prob)
    if not isinstance(model.likelihood, UnivariateLikelihood):
        kind = "Wald intervals of the class probabilities on the logit scale (delta method)"
        return Prediction(mean, interval, None, _likely(mean, prob), kind)
    drawn = f"a new observation from {_ATOMS} draws of the asymptotic distribution of the estimate"
    new, said = _new(model, _mixture(model, atoms, design), prob, drawn)
    return Prediction(
        mean, interval, new, None, f"Wald interval of the {model.likelihood.centre} on the link scale; {said}"
    )


def _new(model: Model, p: Predictive, prob: float, how: str) -> tuple[tuple[Array, Array] | None, str]:
    """The interval of a new observation (successes out of the row's trials, where it counts them), and what it is."""
    if isinstance(model.likelihood, OfTrials) and not p.given:
        return None, "no interval of a new observation, since the trials of these rows are not known: pass trials="
    if isinstance(model.likelihood, OfClasses) and not isinstance(model.likelihood, OfTrials):
        return None, "a new observation is one of two classes, so that it has a probability and no interval"
    tail, some = (1 - prob) / 2, p.thinned(_ATOMS)
    if isinstance(model.likelihood, ProximalLikelihood) and model.likelihood.working:
        how += f", under the {model.likelihood.name} density, a working model"
    return (some.quantile(tail, tol=_TOL), some.quantile(1 - tail, tol=_TOL)), how


def _variance(X: Array, scale: Array | UnwrittenCovariance, J: Array) -> Array:
    """Variance of J eta, (n, D), for the covariance `scale` of vec(beta) and J (n, D, m)."""
    eta_cov = predictor_covariance(X, scale, J.shape[-1])
    return np.einsum("ndk,nkl,ndl->nd", J, eta_cov, J, optimize=True)


def predictor_covariance(X: Array, scale: Array | UnwrittenCovariance, m: int) -> Array:
    """The covariances (n, m, m) of the linear predictors X beta, `scale` that of vec(beta)."""
    if isinstance(scale, UnwrittenCovariance):
        return scale.of_predictors(X, m)
    p = X.shape[1]
    S = np.nan_to_num(scale).reshape(p, m, p, m)
    return np.einsum("np,pkql,nq->nkl", X, S, X, optimize=True)


def rows_without_estimate(solution: Solution, X: Array) -> Array:
    """The rows that are no combination of the training rows: there X beta has no estimate (Searle 1971)."""
    if solution.null_space is None:
        return np.zeros(0, int)
    N = solution.null_space
    return np.flatnonzero((np.abs(X @ N) > _IN_SPACE * (np.abs(X) @ np.abs(N))).any(1))


def require_estimable(model: Model, solution: Solution, design: Design) -> None:
    """Incompatible at rows without an estimate."""
    if len(bad := rows_without_estimate(solution, design.X)):
        assert solution.null_space is not None
        gone = ", ".join(c for c, out in zip(design.columns, touched(solution.null_space)) if out)
        rows = ", ".join(map(str, bad[:5])) + (" ..." if len(bad) > 5 else "")
        raise Incompatible(
            f"{len(bad)} of {design.n} rows have no estimate of their mean (rows {rows}, counted from 0). They do not keep "
            f"the relations of the training rows, so the coefficients of {gone} do not cancel ({solution.detail}). "
            "Predict at rows that keep them, drop a column or give a prior."
        )


def _mean_interval(model: Model, solution: Solution, design: Design, prob: float) -> tuple[Array, Array]:
    centre, J = model.likelihood.link_mean_and_slope(_eta(design, solution.beta))
    variance = _variance(design.X, solution.scale, J)
    left = _left(model, solution, design)
    if left is not None:
        # Var(J eta) = J (x'Sx + v I) J', v that of each linear predictor
        variance = variance + left[:, None] * np.square(J).sum(-1)
    half = quantile(prob, solution.df) * np.sqrt(variance)
    inverse = model.likelihood.link.inverse
    lower, upper = inverse(centre - half), inverse(centre + half)
    return (lower[:, 0], upper[:, 0]) if lower.shape[1] == 1 else (lower, upper)


def _counted(model: Model, solution: Solution) -> str:
    """What is counted of the processes of a model, as the end of a sentence; nothing without any."""
    if not model.design.recipe.processes:
        return ""
    terms = ", ".join(model.design.recipe.processes)
    points = "; the mean over it by 1,024 points" if model.shape[1] > 1 and solution.draws is None else ""
    return f"; what the columns of {terms} leave of the process is counted{points}"


def _left(model: Model, solution: Solution, design: Design, noise: float | None = None) -> Array | None:
    """The residual variance (n,) of each linear predictor, at the estimate; `noise` where its scale is another."""
    off = off_span_of(model, solution, None if noise is None else {model.noise_scale: noise})
    variance = None if off is None else off.variance(design)
    return None if variance is None else variance.mean(0)


def _likely(mean: Array, prob: float) -> Array:
    """The smallest set of classes of each row that holds probability `prob`, (n, K) bool."""
    order = np.argsort(-mean, axis=1)
    sorted_mean = np.take_along_axis(mean, order, 1)
    before = np.cumsum(sorted_mean, axis=1) - sorted_mean
    likely = np.zeros_like(mean, dtype=bool)
    np.put_along_axis(likely, order, before < prob, 1)
    return likely

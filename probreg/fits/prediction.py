"""Predictions at new rows as arrays: the mean and its error, the interval of the mean, the interval of a new observation.

For a Gaussian posterior in closed form all three are Student-t or normal; by quadrature they come from mixtures of normals over the
nodes of sigma. For another posterior they come from the draws, except the mean if it is x'beta.
For a point estimate the mean is the plug-in and its interval is Wald on the scale of the link (delta method for class probabilities).
A new observation has a Student-t interval for least squares; for other likelihoods its distribution is the mixture over draws
from the estimator's asymptotic normal distribution.
Variances include the conditional variance of a Gaussian process at new inputs (`off_span`), and the variance of random effects for new
groups.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from probreg.arguments.arrays import same_rows
from probreg.data import Design
from probreg.data.checked_arrays import plus_offset
from probreg.data.weights import read_weights
from probreg.errors import DataError, Incompatible
from probreg.fits.effects_table import off_span_of
from probreg.fits.fitted import Fitted, require_predictive
from probreg.inference import Solution
from probreg.inference.base import aux_names
from probreg.inference.covariance import ParameterCovariance
from probreg.inference.exact.quadrature import predictors_given_sigma
from probreg.inference.penalized.nonsmooth import has_nonsmooth_terms, no_errors
from probreg.inference.reported import without_error
from probreg.inference.uncertainty.asymptotic import asymptotic
from probreg.inference.uncertainty.found_scales import df_without_groups
from probreg.inference.uncertainty.intervals.arithmetic import (
    FEW_NUMBERS,
    equal_tail,
    mean_and_sd,
    quantile,
)
from probreg.likelihoods import (
    EpsilonInsensitive,
    OfClasses,
    OfTrials,
    ProximalLikelihood,
)
from probreg.likelihoods.links import IDENTITY
from probreg.likelihoods.location_scale import AdditiveNoise
from probreg.likelihoods.quantities import Quantity, RowQuantity, depends_on_predictors
from probreg.linalg import on_all_cores, one_blas_thread, row_slices
from probreg.model.compatibility import with_precision
from probreg.model.model import Model
from probreg.model.off_span import (
    OffSpan,
    equal_nodes,
    normal_nodes,
    normal_points,
    normal_scores,
)
from probreg.model.predictive import Predictive
from probreg.system.terminal import progress_bar

Array = np.ndarray
_ATOMS = 400  # draws for the interval of a new observation; its own noise exceeds the error of using no more
# approximate number of nodes or points over the residual of a process
_POINT_ATOMS = 1024
_UNASKED = "no intervals: prob=None asks for none"


class Prediction(NamedTuple):
    """Arrays over rows (n,), or rows and classes (n, K), by name, and a description of the intervals.

    The names are mean, error (the standard deviation of the mean in a posterior, the standard error of an estimate), and with a
    probability mean_lower, mean_upper, and new_lower, new_upper or, for unordered classes, likely (the smallest set of classes with
    total probability at least prob).
    """

    arrays: dict[str, Array]
    kind: str = _UNASKED

    @classmethod
    def of(
        cls,
        mean: Array,
        error: Array,
        interval: tuple[Array, Array],
        new: tuple[Array, Array] | None,
        kind: str,
    ) -> "Prediction":
        """Return the prediction with the intervals of the mean and, if there is one, of a new observation."""
        arrays = {"mean": mean, "error": error}
        arrays |= dict(zip(("mean_lower", "mean_upper"), interval))
        if new is not None:
            arrays |= dict(zip(("new_lower", "new_upper"), new))
        return cls(arrays, kind)


def design_at(
    model: Model, data: Any, offset: Any, weights: Any = None, trials: Any = None
) -> Design:
    """Return the design of new rows, or of the training rows if `data` is None."""
    if trials is not None and not isinstance(model.likelihood, OfTrials):
        raise DataError(
            f"trials= goes with rows that count them; this model is {model.likelihood.name}"
        )
    if data is not None:
        _, row_weights = read_weights(weights)
        same_rows(
            **{
                "the data": data,
                "offset": offset,
                "weights": row_weights,
                "trials": trials,
            }
        )
        design = model.design.at(data, offset=offset, trials=trials)
        return with_precision(
            design, weights, data, model.likelihood, model.design.weight_kind
        )
    given = {"offset": offset, "weights": weights, "trials": trials}
    for name, value in given.items():
        if value is not None:
            raise DataError(
                f"{name}= goes with new data; the training rows have the {name} they were fitted with"
            )
    model.design.need_rows("a prediction without data", "pass data=")
    return model.design


def predictive(
    fit: Fitted, design: Design, *, at_most: int | None = None
) -> Predictive:
    """Return the mixture over draws, or over `at_most` of them; a point estimate has one atom."""
    atoms = _atoms(fit, spread=False)
    if at_most is not None and atoms.off is None:
        atoms = atoms.thin(at_most)
    if (
        atoms.off is not None
        and len(atoms.values["beta"]) == 1
        and atoms.off.shares_groups(design)
    ):
        # rows of one new group share its effects, so that they need draws instead of a separate distribution for each row
        atoms = replace(
            atoms,
            values={
                k: np.repeat(v, _POINT_ATOMS, axis=0) for k, v in atoms.values.items()
            },
        )
    mixture = _mixture(fit.model, atoms, design)
    return mixture if at_most is None else mixture.thin(at_most)


def atom_count(fit: Fitted) -> int:
    """Return the number of atoms of a predictive; a point estimate of a Gaussian process may have nodes over its residual."""
    model = fit.model
    if fit.solution.draws is not None:
        return fit.solution.draws.count
    if model.design.recipe.processes and not model.likelihood.least_squares:
        return _POINT_ATOMS
    return 1


@dataclass(frozen=True, eq=False)
class _Atoms:
    """beta (S, p, m) and each nuisance parameter (S, 1); the residual processes at them, if any, and the source of their noise."""

    values: Mapping[str, Array]
    off: OffSpan | None
    rng: Generator

    @cached_property
    def columns(self) -> Array:
        """Return beta as (p, m S), with the atoms of a linear predictor in adjacent columns."""
        beta = self.values["beta"]
        return np.ascontiguousarray(beta.transpose(1, 2, 0)).reshape(beta.shape[1], -1)

    @property
    def aux(self) -> dict[str, Array]:
        return {a: v for a, v in self.values.items() if a != "beta"}

    def eta(self, X: Array, offset: Array | None) -> Array:
        """Return eta (S, n, m) from one matrix product; the atoms of a row are adjacent in memory."""
        S = len(self.values["beta"])
        eta = X @ self.columns
        by_atom = eta.reshape(len(eta), eta.shape[1] // S, S).transpose(2, 0, 1)
        return plus_offset(by_atom, offset)

    def thin(self, atoms: int) -> "_Atoms":
        """Return at most this number of atoms, evenly spaced."""
        selection = slice(None, None, -(-len(self.values["beta"]) // atoms))
        return _Atoms(
            {k: v[selection] for k, v in self.values.items()}, self.off, self.rng
        )


def parameter_draws(
    fit: Fitted,
    rng: Generator | None = None,
    scale: ParameterCovariance | None = None,
) -> dict[str, Array]:
    """Return draws of beta (S, p, m) and of every nuisance parameter (S, 1): of a posterior, of the normal distribution of an
    estimate if there is an `rng`, with another covariance `scale` if one is given, or the estimate alone."""
    solution = fit.solution
    if solution.draws is not None:
        draws = solution.draws.flat
        beta = draws["beta"]
        aux = {a: draws[a][:, None] for a in fit.model.unknown}
    elif rng is not None:
        beta, aux = asymptotic(solution, rng, scale)
    else:
        beta = solution.beta[None]
        aux = {a: np.full((1, 1), v) for a, v in solution.aux.items()}
    fixed = {a: np.full((len(beta), 1), v) for a, v in fit.model.fixed.items()}
    return {"beta": beta, **fixed, **aux}


def _atoms(fit: Fitted, *, spread: bool) -> _Atoms:
    rng = np.random.default_rng([fit.seed, 2]) if spread else None
    values = parameter_draws(fit, rng)
    scalars = {a: v[:, 0] for a, v in values.items() if a != "beta"}
    off = off_span_of(fit.model, fit.solution, scalars)
    return _Atoms(values, off, np.random.default_rng([fit.seed, 6]))


def _mixture(model: Model, atoms: _Atoms, design: Design) -> Predictive:
    S = len(atoms.values["beta"])
    m = model.likelihood.width
    aux_rows = model.likelihood.at_rows(atoms.aux, design.precision)
    mixture = Predictive(
        model.likelihood,
        atoms.eta(design.X, design.offset),
        aux_rows,
        model.given(design),
    )
    if atoms.off is None:
        return mixture
    off = atoms.off
    if S > 1:
        mixture = replace(
            mixture, eta=mixture.eta + off.group_draws(design, S, m, atoms.rng)
        )
        off = off.of_processes
    mean, variance = off.moments(design)
    mixture = replace(mixture, eta=mixture.eta + mean)
    if variance is None:
        return mixture
    return _add_residual(model, mixture, variance, atoms.rng)


def _add_residual(
    model: Model, p: Predictive, variance: Array, rng: Generator
) -> Predictive:
    """Return p(y) with the residual of a process added to eta: N(0, v), v as in `OffSpan.moments`, at each row and linear predictor.

    Several atoms (draws) get one draw of the residual each. A single atom becomes a Gaussian of variance sigma^2 + v, nodes over the
    residual, or for several predictors points of a low-discrepancy sequence. Additive noise narrower than a hundredth of the
    residual's standard deviation s is widened to s / 100, which moves quantiles by some 1e-4 s.
    """
    max_ratio = 100.0  # largest ratio of the residual's standard deviation to the noise scale that the nodes resolve
    S, n, m = p.eta.shape
    sd = np.sqrt(variance)
    if S > 1:
        return replace(p, eta=p.eta + sd * normal_scores(rng, S, n, m))
    if model.likelihood.least_squares:
        noise = model.noise_scale
        return replace(
            p, aux={**p.aux, noise: np.sqrt(np.square(p.aux[noise]) + variance[..., 0])}
        )
    aux = dict(p.aux)
    share = None
    if m > 1:
        eta = p.eta + sd * normal_points(m)[:, None, :]
    elif isinstance(model.likelihood, AdditiveNoise):
        scale = model.likelihood.nuisance[0]
        aux[scale] = np.maximum(aux[scale], sd[..., 0] / max_ratio)
        z, share = equal_nodes(float((sd[..., 0] / aux[scale]).max()))
        eta = p.eta + sd * z[:, None, None]
    else:
        nodes, share = normal_nodes(p.eta[0, :, 0], sd[0, :, 0])
        eta = nodes[..., None]
    aux = {a: np.repeat(v, len(eta), axis=0) for a, v in aux.items()}
    return replace(p, eta=eta, aux=aux, share=share)


@one_blas_thread()
def predict(
    fit: Fitted,
    design: Design,
    *,
    prob: float | None,
    quantity: Quantity | None = None,
) -> Prediction:
    """Return the mean or another quantity, its error and intervals at the rows of a design; no intervals if `prob` is None.

    Raises NotConverged if there is no estimate.
    """
    model = fit.model
    solution = fit.solution
    require_predictive(fit)
    require_estimable(solution, design)
    quantity = quantity or model.likelihood
    if quantity is model.likelihood and _has_exact_predictive(model, solution):
        prediction = _exact_prediction(model, solution, design, prob)
    else:
        prediction = _predict_by_blocks(fit, design, prob, quantity)
    if prob is None:
        return prediction
    arrays, kind = prediction
    if not quantity.has_scalar_mean:
        arrays["likely"] = _likely(arrays["mean"], prob)
    terms = ", ".join(model.design.recipe.processes)
    if terms:
        kind += f"; what the columns of {terms} leave of the process is counted"
    return Prediction(arrays, kind)


def _predict_by_blocks(
    fit: Fitted, design: Design, prob: float | None, quantity: Quantity
) -> Prediction:
    """Return the prediction from blocks of rows, which bound the memory of draws times rows."""
    block_rows = 2**14  # rows of an estimate in one block if no interval is computed
    most_numbers = 500_000  # draws times rows in memory at a time
    model = fit.model
    solution = fit.solution
    is_point = solution.draws is None
    predict_block: Any
    atoms = None
    if quantity is model.likelihood and _on_nodes(model, solution):
        predict_block = _predict_from_nodes
        size = max(1, most_numbers // len(solution.posterior.marginals["weight"]))  # type: ignore[index]
    elif is_point and (
        prob is None or not _has_new_distribution(model, solution, quantity)
    ):
        predict_block = partial(_predict_from_point, quantity=quantity)
        size = block_rows
    else:
        spread = is_point and not _errorless(model, solution)
        atoms = _atoms(fit, spread=spread)
        predict_block = partial(
            _predict_from_point if is_point else _predict_from_draws,
            quantity=quantity,
            atoms=atoms,
        )
        size = max(
            1, most_numbers // (len(atoms.values["beta"]) * model.likelihood.width)
        )

    def predict_rows(rows: slice) -> Prediction:
        part: Prediction = predict_block(model, solution, design.take(rows), prob)
        bar.advance(rows.stop - rows.start)
        return part

    # blocks with residual processes draw one after another from the same stream of random numbers
    in_parallel = atoms is not None and atoms.off is None
    map_slices: Any = on_all_cores if in_parallel else map
    with progress_bar("rows", design.n) as bar:
        parts = list(map_slices(predict_rows, row_slices(design.n, size)))
    arrays = {k: np.concatenate([p.arrays[k] for p in parts]) for k in parts[0].arrays}
    return Prediction(arrays, parts[0].kind)


def _has_exact_predictive(model: Model, solution: Solution) -> bool:
    """Return whether the Gaussian predictive is Student-t or normal: least squares, a conjugate posterior, or sigma
    given."""
    draws = solution.draws
    if not model.likelihood.least_squares or has_nonsmooth_terms(model):
        return False
    if draws is not None and not draws.elliptical:
        return False
    t = solution.df is not None and (draws is None or "sigma2_scale" in solution.stats)
    return t or model.noise_held is not None


def _exact_prediction(
    model: Model, solution: Solution, design: Design, prob: float | None
) -> Prediction:
    """Return mean -+ t sqrt(x'Sx) for the mean and mean -+ t sqrt(s^2 + x'Sx) for a new observation, S the scale matrix.

    With a process of residual variance v at x, x'Sx + v replaces x'Sx, in the same units.

    s^2 is the unbiased variance of least squares (nan where no degrees of freedom are left), b/a of a conjugate
    posterior, or the given sigma^2, with normal quantiles.
    """
    mean = design.eta(solution.beta)[:, 0]
    df = solution.df
    s2 = _noise_square(model, solution)
    variance = solution.scale.of_rows(design.X)[:, 0, 0]
    extra_variance = _residual_variance(
        model, solution, design, noise_of_scale(model, solution)
    )
    if extra_variance is not None:
        variance = variance + extra_variance[:, 0]
    error = closed_error(np.sqrt(variance), df, posterior=solution.draws is not None)
    if prob is None:
        return Prediction({"mean": mean, "error": error})
    noise = s2 if design.precision is None else s2 / design.precision
    df_of_mean: float | Array | None = df
    df_of_new: float | Array | None = df
    source = "least squares"
    if solution.draws is not None:
        source = "the posterior, no draws needed"
    elif df is None:
        source = "the estimate, sigma given"
    if df is None and extra_variance is None:
        df_of_mean = df_without_groups(solution, model.design.ungrouped, design.X)
    if isinstance(df_of_mean, np.ndarray):
        # of the sum of two independent variances, the variance of the noise known
        with np.errstate(divide="ignore"):
            df_of_new = df_of_mean * np.square(1.0 + noise / variance)
        source += ", Satterthwaite's degrees of freedom"
    half = quantile(prob, df_of_mean) * np.sqrt(variance)
    wide = quantile(prob, df_of_new) * np.sqrt(variance + noise)
    kind = f"{'normal' if df_of_mean is None else 'Student-t'} intervals of {source}"
    new: tuple[Array, Array] | None = (mean - wide, mean + wide)
    if solution.sandwich:
        new = None
        kind += f", by the sandwich {solution.sandwich}; one sigma of all rows says nothing of a new observation"
    return Prediction.of(mean, error, (mean - half, mean + half), new, kind)


def closed_error(scale: Array, df: float | None, *, posterior: bool) -> Array:
    """Return the scale of an estimate, nan without degrees of freedom.

    For a posterior it is scale (df / (df - 2))^(1/2), infinite up to df = 2.
    """
    if df is None or not posterior:
        if df is None or df > 0:
            return scale
        return np.full_like(scale, np.nan)
    wider = np.sqrt(df / (df - 2.0)) if df > 2 else np.inf
    return np.multiply(scale, wider, where=scale != 0, out=np.zeros_like(scale))


def _noise_square(model: Model, solution: Solution) -> float:
    unknown = solution.stats.get(
        "sigma2_scale", solution.stats.get("sigma_unbiased", np.nan) ** 2
    )
    if model.noise_held is None:
        return unknown
    return model.noise_held**2


def noise_of_scale(model: Model, solution: Solution) -> float | None:
    """Return the noise scale that is part of a closed-form solution's scale matrix; None for other solutions."""
    if _has_exact_predictive(model, solution):
        return float(np.sqrt(_noise_square(model, solution)))
    return None


def _on_nodes(model: Model, solution: Solution) -> bool:
    """Whether the posterior is a mixture over nodes of log sigma, with a normal linear predictor given each."""
    if solution.draws is None:
        nodes = None
    else:
        nodes = solution.draws.marginals
    has_nodes = (
        nodes is not None and "log_sigma" in nodes and not model.design.recipe.processes
    )
    return (
        has_nodes
        and predictors_given_sigma(model, np.zeros((0, model.shape[0])), np.ones(1))
        is not None
    )


def _predict_from_nodes(
    model: Model, solution: Solution, design: Design, prob: float | None
) -> Prediction:
    """Return quantiles of sum_k w_k N(x'm_k, v_k) for the mean and sum_k w_k N(x'm_k, v_k + sigma_k^2) for a new observation."""
    nodes = solution.posterior.marginals
    assert nodes is not None
    sigma = np.exp(nodes["log_sigma"])
    conditional = predictors_given_sigma(model, design.X, sigma)
    assert conditional is not None
    eta = np.stack(
        [plus_offset(row[:, None], design.offset) for row in conditional.mean]
    )
    sd = conditional.sd
    mean = design.eta(solution.beta)[:, 0]
    share = nodes["weight"]
    # Var = sum_k w_k (v_k + (x'm_k - mean)^2)
    error = np.sqrt(share @ (np.square(sd) + np.square(eta[..., 0] - mean)))
    if (
        dropped := np.isinf(solution.scale.errors()[: solution.scale.coefficients])
    ).any():  # the variance is infinite, but nodes over a finite range would give a finite one
        error[(design.X[:, dropped] != 0.0).any(1)] = np.inf
    if prob is None:
        return Prediction({"mean": mean, "error": error})
    noise = model.likelihood.at_rows(
        {model.noise_scale: sigma[:, None]}, design.precision
    )[model.noise_scale]
    ends = []
    for spread in (sd, np.sqrt(np.square(sd) + np.square(noise))):
        mixture = Predictive(
            model.likelihood, eta, {model.noise_scale: spread}, share=share
        )
        ends.append(mixture.interval(prob))
    kind = (
        "equal-tailed intervals of the posterior, over nodes of sigma, no draws needed"
    )
    return Prediction.of(mean, error, ends[0], ends[1], kind)


def _predict_from_draws(
    model: Model,
    solution: Solution,
    design: Design,
    prob: float | None,
    *,
    quantity: Quantity,
    atoms: _Atoms,
) -> Prediction:
    p = _mixture(model, atoms, design)
    means = quantity.mean(p.eta, **p.aux)
    mean, error = mean_and_sd(means)
    is_linear = quantity.link is IDENTITY
    if atoms.off is None and is_linear and np.array_equal(means, p.eta[..., 0]):
        # E[x'beta] = x'E[beta], which has less Monte Carlo error, or none
        mean = design.eta(solution.beta)[:, 0]
    if prob is None:
        return Prediction({"mean": mean, "error": error})
    interval = equal_tail(means, prob)
    if isinstance(quantity, RowQuantity):
        kind = f"equal-tailed posterior interval of {quantity.name}"
        return Prediction.of(mean, error, interval, None, kind)
    if not quantity.has_scalar_mean:
        kind = "equal-tailed posterior intervals of the class probabilities"
        return Prediction.of(mean, error, interval, None, kind)
    loaded = means.size >= FEW_NUMBERS  # compiled code, for the interval of the mean
    source = f"posterior predictive of at most {_ATOMS} draws"
    new, new_kind = _new(model, p, prob, source, compiled=loaded)
    kind = (
        f"equal-tailed posterior interval of the {model.likelihood.centre}; {new_kind}"
    )
    return Prediction.of(mean, error, interval, new, kind)


def _errorless(model: Model, solution: Solution) -> bool:
    """Whether a mode has no standard errors: under a prior with kinks, or if a loss has every residual inside its tube."""
    kinked = has_nonsmooth_terms(model) or isinstance(
        model.likelihood, ProximalLikelihood
    )
    return kinked and not solution.scale.has_errors


def _why_errorless(model: Model) -> str:
    if has_nonsmooth_terms(model):
        return no_errors(model)
    if isinstance(model.likelihood, EpsilonInsensitive):
        return "every residual is within epsilon, so that the noise has no estimate"
    return "the estimate has no standard errors, see the notes of the fit"


def _point_mean(
    model: Model, solution: Solution, design: Design, quantity: Quantity
) -> Array:
    """Return the plug-in mean; for a process with a nonlinear link it is averaged over the residual."""
    block_size = 1000  # rows in one block of means over nodes
    aux = _aux_of_rows(model, solution, design)
    eta = design.eta(solution.beta)
    mean = quantity.mean(eta, **aux)
    off = off_span_of(model, solution)
    if off is None or quantity.link is IDENTITY or not depends_on_predictors(quantity):
        variance = None
    else:
        variance = off.variance(design)
    if variance is None:
        return mean
    values = {a: np.broadcast_to(v, (1, design.n)) for a, v in aux.items()}
    rng = np.random.default_rng(0)  # a single atom draws nothing
    for part in row_slices(design.n, block_size):
        aux_part = {a: v[:, part] for a, v in values.items()}
        atom = Predictive(model.likelihood, eta[None, part], aux_part)
        mean[part] = _add_residual(model, atom, variance[:, part], rng).mean(quantity)
    return mean


def _has_new_distribution(model: Model, solution: Solution, quantity: Quantity) -> bool:
    """Whether a new observation has an interval: its response is ordered and its noise is known."""
    if not quantity.has_scalar_mean or isinstance(quantity, RowQuantity):
        return False
    if model.design.weight_kind == "sampling":
        return False
    return has_nonsmooth_terms(model) or not _errorless(model, solution)


def _predict_from_point(
    model: Model,
    solution: Solution,
    design: Design,
    prob: float | None,
    *,
    quantity: Quantity,
    atoms: _Atoms | None = None,
) -> Prediction:
    """Return the prediction of a point estimate; `atoms` are for the interval of a new observation."""
    mean = _point_mean(model, solution, design, quantity)
    name = f"the {model.likelihood.centre}"
    if isinstance(quantity, RowQuantity):
        name = quantity.name
    if _errorless(model, solution):
        error = np.full(mean.shape, np.nan)
        interval = (error, error)
        kind = f"no interval of {name}: {_why_errorless(model)}"
        source = "that of a new observation is of the noise alone, the estimate taken as the truth"
    else:
        error, interval = _error_and_interval(model, solution, design, prob, quantity)
        kind = f"Wald interval of {name} on the link scale (delta method)"
        source = f"a new observation from {_ATOMS} draws of the asymptotic distribution of the estimate"
    if prob is None:
        return Prediction({"mean": mean, "error": error})
    new = None
    if atoms is not None:
        p = _mixture(model, atoms, design)
        new, new_kind = _new(model, p, prob, source)
        kind = f"{kind}; {new_kind}"
    return Prediction.of(mean, error, interval, new, kind)


def _new(
    model: Model, p: Predictive, prob: float, how: str, *, compiled: bool = False
) -> tuple[tuple[Array, Array] | None, str]:
    """Return the interval of a new observation and its description; for binomial trials it counts successes.

    `compiled`: compiled code is already loaded.
    """
    likelihood = model.likelihood
    tolerance = 1e-7  # tolerance of the interval of a new observation, in probability
    if isinstance(likelihood, OfTrials) and not p.given:
        return (
            None,
            "no interval of a new observation, since the trials of these rows are not known: pass trials=",
        )
    if isinstance(likelihood, OfClasses) and not isinstance(likelihood, OfTrials):
        return (
            None,
            "a new observation is one of two classes, so that it has a probability and no interval",
        )
    if isinstance(likelihood, ProximalLikelihood) and likelihood.working:
        how += f", under the {likelihood.name} density, a working model"
    return p.thin(_ATOMS).interval(prob, tol=tolerance, compiled=compiled or None), how


def _aux_of_rows(
    model: Model, solution: Solution, design: Design
) -> dict[str, Array | float]:
    """Return the nuisance parameters of an estimate at the rows of a design."""
    return model.likelihood.at_rows({**model.fixed, **solution.aux}, design.precision)


def rows_without_estimate(solution: Solution, X: Array) -> Array:
    """Return the rows that are not a linear combination of the training rows: X beta is not estimable there (Searle 1971)."""
    rounding = 1e-9  # relative to |x| |N|: below it, a row is a combination of the training rows up to rounding
    if solution.null_space is None:
        return np.zeros(0, int)
    N = solution.null_space
    return np.flatnonzero((np.abs(X @ N) > rounding * (abs(X) @ np.abs(N))).any(1))


def require_estimable(solution: Solution, design: Design) -> None:
    """Raise Incompatible at rows without an estimate."""
    bad = rows_without_estimate(solution, design.X)
    if len(bad):
        raise Incompatible(
            f"{len(bad)} of {design.n} rows have no estimate of their mean ({few_rows(bad)}): they do not keep the relations of "
            f"the training rows ({solution.detail}). Predict at rows that keep them, drop a column or give a prior."
        )


def few_rows(rows: Array) -> str:
    """List the first five row numbers.

    >>> few_rows(np.arange(7))
    'rows 0, 1, 2, 3, 4 ..., counted from 0'
    """
    more = " ..." if len(rows) > 5 else ""
    return f"rows {', '.join(map(str, rows[:5]))}{more}, counted from 0"


def _error_and_interval(
    model: Model,
    solution: Solution,
    design: Design,
    prob: float | None,
    quantity: Quantity,
) -> tuple[Array, tuple[Array, Array]]:
    """Return the standard error of the quantity by the delta method, and its Wald interval on the link scale, nan without a probability."""
    centre, J, over_aux = quantity.link_mean_and_slope(
        design.eta(solution.beta), **_aux_of_rows(model, solution, design)
    )
    A = solution.scale.over_further(over_aux, aux_names(model.likelihood))
    variance = solution.scale.variances_of_rows(design.X, J, A)
    lacking = without_error(model, solution, solution.scale)
    variance[(over_aux[..., lacking] != 0.0).any(-1)] = np.nan
    extra_variance = _residual_variance(model, solution, design)
    if extra_variance is not None:
        # Var(J eta) = J (x'Sx + v I) J', v the residual variance of each linear predictor
        variance = variance + np.einsum(
            "nm,ndm->nd",
            np.broadcast_to(extra_variance, (len(J), J.shape[-1])),
            np.square(J),
        )
    link = quantity.link
    sd = np.sqrt(variance)

    def flat(values: Array) -> Array:
        return values[:, 0] if values.shape[1] == 1 else values

    with np.errstate(over="ignore"):  # exp of more than 709 is inf
        # sd(mean) = |d mean / d link(mean)| sd(link(mean))
        error = flat(np.abs(link.slope(centre)) * sd)
        half = np.full_like(sd, np.nan)
        if prob is not None:
            half = quantile(prob, solution.df) * sd
        lower, upper = link.interval(centre, half)
        return error, (flat(lower), flat(upper))


def _residual_variance(
    model: Model, solution: Solution, design: Design, noise: float | None = None
) -> Array | None:
    """Return the residual variance of the linear predictors at the estimate, (n, m), or (n, 1) if they share it.

    `noise` replaces the noise scale of the solution.
    """
    off = off_span_of(
        model, solution, None if noise is None else {model.noise_scale: noise}
    )
    variance = None if off is None else off.variance(design)
    return None if variance is None else variance.mean(0)


def _likely(mean: Array, prob: float) -> Array:
    """Return for each row the smallest set of classes with total probability at least `prob`, (n, K) bool."""
    order = np.argsort(-mean, axis=1)
    sorted_mean = np.take_along_axis(mean, order, 1)
    before = np.cumsum(sorted_mean, axis=1) - sorted_mean
    likely = np.zeros_like(mean, dtype=bool)
    np.put_along_axis(likely, order, before < prob, 1)
    return likely

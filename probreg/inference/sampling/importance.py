"""Importance sampling: draws about the mode, weighed by what the posterior says of them, and a judge of the weights.

The first points come from a Student-t with the curvature of the log posterior at its mode, the others from wider ones about
their weighted mean and covariance (`proposal`), so that two passes of the density over a few thousand points replace a
Markov chain. Where the tail of the distribution of the weights is too heavy (k-hat), the method refuses.

The largest weights give way to the quantiles of a Pareto tail, whose shape judges them all (Vehtari, Simpson, Gelman, Yao
& Gabry 2024); the fit of the tail is that of Zhang & Stephens 2009.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, NamedTuple

import numpy as np

from probreg.arguments.scalars import Count, Limit, Number, Positive, check_fields
from probreg.errors import NotConverged, Remedy
from probreg.inference.base import (
    METHODS,
    Array,
    Draws,
    Method,
    Solution,
    Status,
    edges,
    improper,
    kinds,
    sigma_note,
)
from probreg.inference.covariance import DenseCovariance
from probreg.inference.modes.closed_form import jeffreys_obstacle
from probreg.inference.modes.existence import multimodality_cause
from probreg.inference.modes.peaks import Peak, describe_modes, find_peaks
from probreg.inference.modes.separation import separation
from probreg.inference.notes import Note, Severity, Topic, important_note, routine_note
from probreg.inference.sampling import proposal
from probreg.inference.sampling.proposal import Component
from probreg.inference.sampling.working import with_corrected_intervals
from probreg.likelihoods import DifferentiableLikelihood, ProximalLikelihood
from probreg.model.likelihood_sums import log_lik_of_moments
from probreg.model.model import Model
from probreg.priors import Flat, GaussianPrior, Prior, SmoothPrior
from probreg.system.terminal import few_names, percent

_FEWEST = 5  # weights in a tail from which a shape can be told
_PRIOR = 10  # the estimate of k counts so many more observations of one half


class Smoothed(NamedTuple):
    """Log weights (S,) with a smoothed tail, on the scale of the raw ones, and the shape k of that tail."""

    log_weight: Array
    k: float


def reliable(draws: int) -> float:
    """The largest k at which so many draws give means that settle: min(1 - 1 / log10 S, 0.7).

    >>> reliable(100), reliable(4000)
    (0.5, 0.7)
    """
    # k-hat < min(1 - 1 / log10 S, 0.7)   (Vehtari et al. 2024).
    if draws > 10:
        return min(1.0 - 1.0 / float(np.log10(draws)), 0.7)
    return 0.0


def effective(log_weight: Array) -> float:
    """The effective sample size of log weights, exp of which sums to one (Kong 1992).

    >>> round(effective(np.log(np.full(8, 0.125))), 9)
    8.0
    """
    # ESS = 1 / sum_s w_s^2 with sum_s w_s = 1.
    return float(np.exp(-np.logaddexp.reduce(2.0 * log_weight, axis=None)))


def smoothed(log_weight: Array) -> Smoothed:
    """The min(S / 5, 3 sqrt S) largest weights above the next one are fitted by a generalised Pareto distribution and
    replaced by its quantiles, none above the largest raw weight; k is infinite where there are too few to tell.

    >>> found = smoothed(np.log(np.arange(1.0, 101.0)))
    >>> found.k < 0, bool(found.log_weight.max() <= np.log(100.0))  # a bounded tail
    (True, True)
    """
    S = len(log_weight)
    top = float(log_weight.max())
    # M = min(S/5, 3 S^(1/2)) (Vehtari et al. 2024).
    tail = int(min(S // 5, 3.0 * np.sqrt(S)))
    if tail < _FEWEST or not np.isfinite(top):
        return Smoothed(log_weight, np.inf)
    order = np.argsort(log_weight)
    largest = order[-tail:]
    cut = float(log_weight[order[-tail - 1]])
    if (
        top - log_weight[largest[0]] < 1e-10
    ):  # equal weights: draws of the target itself
        return Smoothed(log_weight, -np.inf)
    base = np.exp(cut - top)
    k, sigma = _pareto(np.exp(log_weight[largest] - top) - base)
    if not np.isfinite(k):
        return Smoothed(log_weight, np.inf)
    p = (np.arange(tail) + 0.5) / tail
    # The quantile of a generalised Pareto: sigma ((1 - p)^(-k) - 1) / k, -sigma log(1 - p) at k = 0.
    if k == 0:
        grown = -np.log1p(-p)
    else:
        grown = np.expm1(-k * np.log1p(-p)) / k
    out = np.array(log_weight, dtype=float)
    out[largest] = top + np.minimum(np.log(base + sigma * grown), 0.0)
    return Smoothed(out, float(k))


def _pareto(x: Array) -> tuple[float, float]:
    """Shape k and scale sigma of the density (1 + k x / sigma)^(-1/k - 1) / sigma of increasing x: with theta = -k / sigma
    the likelihood is profiled over k, theta is averaged over it on a grid, and k is drawn to one half by a weak prior."""
    n = len(x)
    quartile = x[int(len(x) / 4 + 0.5) - 1]
    if not quartile > 0:
        return np.inf, np.nan
    m = 30 + int(np.sqrt(n))
    # The grid of Zhang & Stephens 2009: theta_j = 1 / x_(n) + (1 - (m / (j - 1/2))^(1/2)) / (3 x_(n/4)), j = 1 .. m.
    theta = 1.0 / x[-1] + (1.0 - np.sqrt(m / (np.arange(m) + 0.5))) / (3.0 * quartile)
    with np.errstate(invalid="ignore", divide="ignore"):
        k = np.log1p(-theta[:, None] * x).mean(1)
        # k(theta) = mean log(1 - theta x), and l(theta) = n (log(-theta / k) - k - 1).
        profile = n * (np.log(-theta / k) - k - 1.0)
    weight = np.exp(profile - np.nanmax(profile))
    weight = np.where(
        weight / np.nansum(weight) >= 10 * np.finfo(float).eps, weight, 0.0
    )
    best = float(theta @ weight / weight.sum())
    shape = float(np.log1p(-best * x).mean())
    # k = (n k + 10 / 2) / (n + 10), sigma = -k / theta of the k before.
    return (n * shape + 0.5 * _PRIOR) / (n + _PRIOR), -shape / best


_BATCH = 500  # points at which the density is evaluated together: bounds the memory
_ROUNDS = (
    0.125,
    0.25,
    0.5,
    1.0,
)  # of the points are drawn by the end of each round; the first ones about the mode
_DF = 10.0  # k-hat is lower than under a normal where few rows leave a skew posterior, at a tenth of the effective draws
_VAGUE = 0.25  # sd of log sigma from which the spread of coefficients depends on sigma: that of 8 degrees of freedom
_LEAST_POINTS = 1000  # points that are weighed at the least, so that k-hat has a tail to be told from


class Weighted(NamedTuple):
    """Draws of the proposal with their weights: a mean of the posterior is sum of exp(log_weight) times the draws."""

    beta: Array  # (chain, point, p, m)
    aux: dict[str, Array]  # name -> (chain, point)
    log_weight: (
        Array  # (chain, point), smoothed; the weights of all chains together sum to one
    )
    k_hat: float
    log_evidence: float  # log of the mean weight: log p(y) where the prior is proper
    log_evidence_se: float

    @property
    def ess(self) -> float:
        """Effective sample size 1 / sum of squared weights (Kong 1992)."""
        return effective(self.log_weight)


@METHODS.register
@dataclass(frozen=True)
class Importance(Method):
    """p(beta, log aux | y) by weights p / q on draws of q, a mixture of Student-t densities.

    A quarter of the points come from Student-t(df, mode, H^-1), H the curvature at the mode. The others come from
    Student-t densities about the weighted mean of the first ones, with 1.3 times their weighted covariance. These have 5
    degrees of freedom, or as few as the priors, so that no tail of q is lighter than that of the posterior. Where the
    posterior can have several modes, Newton's method looks for them from a few starts, and q has a part about each.

    The largest weights are smoothed by a Pareto tail of shape k-hat. Reported means, standard deviations and the
    evidence (with its Monte Carlo error) are those of the weighted points. The draws of each chain are resampled from
    its own points, copies side by side, so that they count alike.

    Parameters
    ----------
    draws : int
        Draws of each chain.
    chains : int
        Number of chains, each with its own points.
    df : float, optional
        Degrees of freedom of the part of q about the mode, inf for a normal. By default 10, or the number of parameters where that is more: the
        radius of a Student-t in d dimensions is as spread as a normal's only from df = d.
    max_k : float, optional
        The largest k-hat, by default min(1 - 1 / log10 S, 0.7) for S weighed points.
    tol : float
        Of the mode, as in `Newton`.
    max_steps : int
        Of the search for the mode.

    Raises
    ------
    NotConverged
        Where k-hat is above `max_k`, since means do not settle.

    References
    ----------
    Vehtari et al. 2024; Geweke 1989.

    Examples
    --------
    >>> from probreg.likelihoods import Bernoulli
    >>> x = np.arange(20.0)
    >>> model = Model.from_arrays(x, x % 3 > 1, likelihood=Bernoulli())
    >>> found = Importance().solve(model, np.random.default_rng(0))
    >>> found.draws["beta"].shape, found.stats["k_hat"] < 0.7, 1000 < found.stats["ess"] < 4000
    ((4, 1000, 2, 1), True, True)
    """

    draws: Count = 1000
    chains: Count = 4
    df: Annotated[float, Number(2.0, math.inf, closed=(False, True))] | None = None
    max_k: Limit | None = None
    tol: Positive = 1e-7
    max_steps: Count = 100

    name = "importance"
    likelihood = DifferentiableLikelihood
    prior = SmoothPrior
    target = "posterior"

    def __post_init__(self) -> None:
        check_fields(self)

    def obstacle(self, model: Model) -> str | None:
        if isinstance(model.likelihood, ProximalLikelihood) and not model.joint.of_kind(
            GaussianPrior
        ):
            return f"importance needs flat or normal priors with the {model.likelihood.name} likelihood; use nuts"
        return (
            kinds(self, model)
            or edges(self, model)
            or improper(self, model)
            or jeffreys_obstacle(model, self.name)
        )

    @property
    def points(self) -> int:
        """Points that are weighed in each chain."""
        return max(self.draws, -(-_LEAST_POINTS // self.chains))

    @property
    def limit(self) -> float:
        """The largest k-hat that is accepted."""
        if self.max_k is None:
            return reliable(self.chains * self.points)
        return self.max_k

    def weigh(self, model: Model, rng: np.random.Generator) -> Weighted:
        """The weighted points before any are resampled or refused. Incompatible where there is no mode."""
        return self._weigh(
            model,
            find_peaks(model, self.name, tol=self.tol, max_steps=self.max_steps),
            rng,
        )[0]

    def solve(self, model: Model, rng: np.random.Generator) -> Solution:
        about = find_peaks(model, self.name, tol=self.tol, max_steps=self.max_steps)
        found, z, mean_z = self._weigh(model, about, rng)
        at = about[0]
        if not found.k_hat <= self.limit:
            raise NotConverged(
                _refusal(found, self.limit), remedy=Remedy("method", "nuts")
            )
        why = _without_variance(model)
        if why is not None and self.limit < np.inf:
            raise NotConverged(
                f"importance: {why}, so that the posterior has no variance and weighted means do not settle. Importance(max_k=inf) "
                "returns its draws, with quantiles that settle, or give a more informative prior"
            )
        chosen = np.array(
            [resampled(np.exp(w), self.draws, rng) for w in found.log_weight]
        )
        chain = np.arange(self.chains)[:, None]
        mean, cov, error = _moments(at, z, np.exp(found.log_weight.ravel()), mean_z)
        aux = {
            a: weighted_moments(v.ravel(), np.exp(found.log_weight.ravel()))
            for a, v in found.aux.items()
        }
        k = at.found.beta.size
        settled = why is None and found.k_hat <= reliable(found.log_weight.size)
        stats = _stats(found, error, chosen) | {"n": model.design.total}
        solution = Solution(
            beta=mean[:k].reshape(model.shape),
            scale=cov,
            aux={a: v[0] for a, v in aux.items()},
            aux_sd={a: v[1] for a, v in aux.items()},
            draws=Draws(
                {"beta": found.beta[chain, chosen]}
                | {a: v[chain, chosen] for a, v in found.aux.items()}
            ),
            status=Status.SAMPLED if settled else Status.UNSETTLED,
            detail="" if settled else why or f"k-hat {found.k_hat:.2f}",
            stats=stats
            if all_proper(model)
            else {k: v for k, v in stats.items() if "evidence" not in k},
            notes=(
                *sigma_note(
                    model,
                    routine_note(
                        Topic.SIGMA,
                        "sigma is weighted with beta, with its proposal on the log scale",
                    ),
                ),
                _weights_note(stats, found, settled),
                *(
                    [
                        important_note(
                            Topic.MODES,
                            describe_modes(
                                model, about, "an estimate is the mean over all of them"
                            ),
                        )
                    ]
                    if multimodality_cause(model)
                    else []
                ),
            ),
        )
        return with_corrected_intervals(model, solution)

    def _weigh(
        self, model: Model, about: list[Peak], rng: np.random.Generator
    ) -> tuple[Weighted, Array, Array | None]:
        """The weighted points, where they lie in the coordinates z of the first mode, and the mean of the proposal there."""
        at = about[0]
        into = (self.chains, self.points)
        dim = len(at.centre)
        df = max(_DF, dim) if self.df is None else self.df
        places = [
            (np.zeros(dim), np.eye(dim)),
            *(other.relative_to(at) for other in about[1:]),
        ]
        tail = _tail_of_posterior(model)
        ends = [max(len(about), int(share * self.points)) for share in _ROUNDS]
        stretch = _stretch(model, at) if len(about) == 1 else None
        first = ends[0] if stretch is None else (ends[0] + 1) // 2
        counts = proposal.split(first, [1.0] * len(about))
        modes = [Component(*place, {df: n}) for place, n in zip(places, counts)]
        components: list[proposal.AnyComponent] = [*modes]
        if stretch is not None:
            rest = replace(modes[0], counts={df: ends[0] - first})
            components.append(proposal.Stretched(rest, stretch))
        drawn = [_at_points(model, at, self._draw(components, rng))]
        log_q = [proposal.mixture_log_density(components, drawn[0].z)]
        for before, end in pairwise(ends):
            z, _, _, log_p = map(np.concatenate, zip(*drawn))
            log_w, _ = smoothed(log_p - np.concatenate(log_q))
            if np.isfinite(log_w.max()):
                weight = np.exp(log_w - np.logaddexp.reduce(log_w))
            else:
                weight = np.zeros(len(log_w))
            count = end - before
            more: list[proposal.AnyComponent] = []
            if stretch is not None:
                u = stretch.apply(z, -1.0)
                more = [
                    proposal.Stretched(c, stretch)
                    for c in proposal.about_moments(modes, u, weight, count // 2, tail)
                ]
                count -= count // 2
            more += proposal.about_moments(modes, z, weight, count, tail)
            components = [*components, *more]
            log_q = [
                np.logaddexp(known, proposal.mixture_log_density(more, d.z))
                for known, d in zip(log_q, drawn)
            ]
            drawn.append(_at_points(model, at, self._draw(more, rng)))
            log_q.append(proposal.mixture_log_density(components, drawn[-1].z))
        # each chain has its own points of every round
        z, beta, log_aux, log_p, q = (
            np.concatenate(
                [
                    v.reshape(self.chains, len(v) // self.chains, *v.shape[1:])
                    for v in parts
                ],
                1,
            )
            for parts in (*zip(*drawn), log_q)
        )
        z = z.reshape(-1, dim)
        log_q_all = q.ravel() - np.log(self.points)
        # theta = centre + root z: q(theta) = q(z) / |root|, so that log w = log p(y, theta) - log q(z) + log |root|.
        log_weight, k_hat = smoothed(log_p.ravel() - log_q_all + at.log_det)
        total = float(np.logaddexp.reduce(log_weight))
        log_weight = log_weight - total
        # p(y) = E_q[w], estimated by the mean of S weights; its relative error is sd(w / mean w) / S^(1/2).
        evidence = total - float(np.log(len(z)))
        error = float(np.std(np.exp(log_weight + np.log(len(z)))) / np.sqrt(len(z)))
        with np.errstate(over="ignore"):  # of weight zero
            aux = {a: np.exp(log_aux[..., i]) for i, a in enumerate(model.unknown)}
        return (
            Weighted(beta, aux, log_weight.reshape(into), k_hat, evidence, error),
            z,
            proposal.mean_of(components),
        )

    def _draw(
        self, components: Sequence[proposal.AnyComponent], rng: np.random.Generator
    ) -> Array:
        """Points (n, d) of some components, chain by chain."""
        z = np.concatenate([c.draw(rng, self.chains) for c in components], 1)
        return z.reshape(-1, z.shape[-1])


class _Points(NamedTuple):
    """Points z (n, d) of a round, and the log posterior there as a density over log aux, -inf where it is not a number."""

    z: Array
    beta: Array  # (n, p, m)
    log_aux: Array  # (n, a)
    log_p: Array  # (n,)


def _stretch(model: Model, at: Peak) -> proposal.Stretch | None:
    """The coordinates in which coefficients spread in proportion to the noise scale; None where that is well known or held."""
    if not model.noise_unknown:
        return None
    k = at.found.beta.size
    noise = k + model.unknown.index(model.noise_scale)
    if np.linalg.norm(at.root[noise]) < _VAGUE:
        return None
    return proposal.Stretch(at.root, noise, k)


def _at_points(model: Model, at: Peak, z: Array) -> _Points:
    beta, log_aux = at.points(z)
    with np.errstate(over="ignore"):
        aux = {a: np.exp(log_aux[:, i]) for i, a in enumerate(model.unknown)}
    with np.errstate(all="ignore"):  # far points overflow to weight zero
        log_p = _log_posterior(model, beta, aux) + log_aux.sum(1)
    return _Points(z, beta, log_aux, np.where(np.isnan(log_p), -np.inf, log_p))


def _tail_of_posterior(model: Model) -> float:
    """Degrees of freedom of the heaviest tail that the posterior can have: that of a prior where the likelihood is flat, and with
    an unknown noise scale the degrees of freedom that are left."""
    return min(_left(model), *(b.prior.tail for b in model.joint.blocks))


def _left(model: Model) -> float:
    """Degrees of freedom of the posterior of coefficients with a flat prior beside an unknown noise scale; inf without one."""
    flat = float((~model.joint.informative).sum())
    if not model.noise_unknown or not flat:
        return np.inf
    return max(model.design.total - flat + model.noise_prior.powers[1], 1.0)


def _without_variance(model: Model) -> str | None:
    """Why the posterior has no variance, in words, or None."""
    left = _left(model)
    if left <= 2.0:
        return f"coefficients with a flat prior have {left:g} degrees of freedom"
    heavy = [b for b in model.joint.blocks if b.prior.tail <= 2.0]
    if not heavy:
        return None
    names = model.design.columns
    flat: dict[str | tuple[str, ...], Prior | str] = {
        tuple(names[i] for i in b.columns): Flat() if b in heavy else b.prior
        for b in model.joint.blocks
    }
    found = separation(model.with_prior(flat))
    if not found:
        return None
    return f"the classes are separated by {few_names(found.labels)}, and the tail of the prior has {min(b.prior.tail for b in heavy):g} degrees of freedom"


def resampled(weight: Array, draws: int, rng: np.random.Generator) -> Array:
    """Numbers of `draws` points, each as often as its share of the weights to within one, by systematic resampling: one
    uniform number moves an even comb over the sums of the weights.

    >>> resampled(np.array([0.5, 0.0, 0.25, 0.25]), 8, np.random.default_rng(0)).tolist()
    [0, 0, 0, 0, 2, 2, 3, 3]
    """
    total = np.cumsum(weight)
    # Tooth j at (j + U) / draws of the sum of the weights, one U for all (systematic resampling).
    comb = (np.arange(draws) + rng.random()) / draws * total[-1]
    return np.minimum(np.searchsorted(total, comb, side="right"), len(weight) - 1)


def _log_posterior(model: Model, beta: Array, aux: dict[str, Array]) -> Array:
    """log p(y | beta, aux) + log p(beta, aux)."""
    return batched_log_lik(model, beta, aux) + model.log_prior(beta, **aux)


def batched_log_lik(model: Model, beta: Array, aux: dict[str, Array]) -> Array:
    """log p(y | beta, aux) of draws beta (S, p, m), batch by batch."""
    out = np.empty(len(beta))
    for start in range(0, len(beta), _BATCH):
        some = slice(start, start + _BATCH)
        out[some] = _log_lik(model, beta[some], {a: v[some] for a, v in aux.items()})
    return out


def _log_lik(model: Model, beta: Array, aux: dict[str, Array]) -> Array:
    """A Gaussian's from the moments of the rows."""
    if not model.likelihood.least_squares:
        return model.log_lik(beta, **aux)
    sigma = np.asarray(model.noise(aux))
    return log_lik_of_moments(model.design.moments, beta, sigma)


def _moments(
    at: Peak, z: Array, w: Array, known: Array | None
) -> tuple[Array, DenseCovariance, tuple[float, float]]:
    """Mean and covariance of (vec beta, log aux), and the largest Monte Carlo errors of a mean, in sd, and of an sd, in
    proportion. Where the mean of z under q is known, only weighted less plain mean is estimated (a control variate)."""
    # E_p[z] is about E_q[z] + sum_s (w_s - 1/S) z_s, since sum_s z_s / S estimates E_q[z].
    pull = w if known is None else w - 1.0 / len(w)
    centred = z - w @ z
    peak_covariance = at.found.scale
    assert isinstance(peak_covariance, DenseCovariance)
    # cov(z) = R'R with the QR factor R of the weighted rows, so that cov(theta) = (root R')(root R')'
    R = np.linalg.qr(np.sqrt(w)[:, None] * centred, mode="r")
    cov = replace(peak_covariance, root=peak_covariance.root @ R.T)
    x = centred @ at.root.T / cov.errors()
    # Delta method of self-normalised weights, x in posterior standard deviations:
    # se(mean) = (sum_s (w_s - 1/S)^2 x_s^2)^(1/2), se(sd)/sd = (sum_s w_s^2 (x_s^2 - 1)^2)^(1/2) / 2.
    of_mean = np.sqrt((pull**2) @ x**2)
    of_sd = 0.5 * np.sqrt((w**2) @ (x**2 - 1.0) ** 2)
    return (
        at.centre + at.root @ (pull @ z + (0.0 if known is None else known)),
        cov,
        (float(of_mean.max()), float(of_sd.max())),
    )


def weighted_moments(values: Array, w: Array) -> tuple[float, float]:
    """Mean and standard deviation of values (S,) with weights w (S,) of sum one."""
    # E aux = sum_s w_s aux_s, var aux = sum_s w_s (aux_s - E aux)^2, with sum_s w_s = 1.
    mean = float(w @ values)
    return mean, float(np.sqrt(w @ (values - mean) ** 2))


def _stats(
    found: Weighted, error: tuple[float, float], chosen: Array
) -> dict[str, float]:
    return {
        "k_hat": found.k_hat,
        "ess": found.ess,
        "distinct": float(sum(len(np.unique(row)) for row in chosen)),
        "mcse_mean": error[0],
        "mcse_sd": error[1],
        "log_evidence": found.log_evidence,
        "log_evidence_se": found.log_evidence_se,
    }


def all_proper(model: Model) -> bool:
    """The mean weight is an evidence."""
    blocks = all(
        b.prior.proper and not isinstance(b.prior, Flat) for b in model.joint.blocks
    )
    return blocks and all(model.aux_prior(a).proper for a in model.unknown)


def _weights_note(stats: dict[str, float], found: Weighted, settled: bool) -> Note:
    return Note(
        Topic.SAMPLING,
        "k-hat {k_hat:.2f}; {points:,} weighted points are worth {ess:,.0f} independent draws, and the resampled draws "
        "contain {distinct:,.0f} of them, some several times. Means and standard deviations are weighted, with Monte Carlo "
        "errors of {mcse_mean:.2g} sd and {mcse_sd}",
        (
            *stats.items(),
            ("points", found.log_weight.size),
            ("mcse_sd", percent(stats["mcse_sd"], 2)),
        ),
        Severity.ROUTINE if settled else Severity.IMPORTANT,
    )


def _refusal(found: Weighted, limit: float) -> str:
    return (
        f"importance: k-hat {found.k_hat:.2f} is above {limit:.2f}: a few of {found.log_weight.size:,} points carry the weight, "
        f"worth {found.ess:,.0f} independent draws. Means over them settle slowly if at all, for the posterior is far from a normal "
        "about its mode. Causes are nearly separated classes, a prior with long tails, few rows for sigma. A more informative prior "
        "helps; Importance(max_k=...) accepts the weights as they are"
    )

"""Importance sampling: draws about the mode, weighted by the posterior, and a
diagnostic of the weights.

The first points come from a Student-t with the curvature of the log posterior at its
mode, the others from wider densities about their weighted mean and covariance (`proposal`),
so two passes of the density over a few thousand points replace a Markov chain. If the
tail of the distribution of the weights is too heavy (k-hat), the method raises an
error.

The largest weights are replaced by quantiles of a Pareto tail; its shape is the
diagnostic (Vehtari, Simpson, Gelman, Yao & Gabry 2024).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated, NamedTuple

import numpy as np
from numpy.random import Generator

from probreg.arguments.scalars import Count, Limit, Number, Positive
from probreg.errors import NotConverged, Remedy
from probreg.inference.base import (
    METHODS,
    Array,
    Draws,
    Method,
    Solution,
    Status,
    sigma_note,
    split_parameters,
)
from probreg.inference.covariance import DenseCovariance
from probreg.inference.modes.closed_form import search_obstacle
from probreg.inference.modes.peaks import Peak, find_peaks, notes_of_modes
from probreg.inference.modes.separation import separation
from probreg.inference.sampling import proposal
from probreg.inference.sampling.laplace import with_corrected_intervals
from probreg.inference.sampling.proposal import Component
from probreg.inference.status import Note, Severity, Topic, routine_note
from probreg.likelihoods import DifferentiableLikelihood, ProximalLikelihood
from probreg.model.likelihood_sums import log_lik_of_moments, sample_of
from probreg.model.model import Model
from probreg.priors import Flat, GaussianPrior, Prior, SmoothPrior
from probreg.special import softmax
from probreg.system.terminal import few_names, percent


class SmoothedWeights(NamedTuple):
    """Log weights (S,) with a smoothed tail, on the scale of the raw weights, and the shape k of the tail."""

    log_weight: Array
    k: float


def reliable(draws: int) -> float:
    """Return the largest k such that this number S of draws gives stable means: min(1 - 1 / log10
    S, 0.7).

    >>> reliable(100), reliable(4000)
    (0.5, 0.7)
    """
    # k-hat < min(1 - 1 / log10 S, 0.7)   (Vehtari et al. 2024).
    if draws > 10:
        return min(1.0 - 1.0 / float(np.log10(draws)), 0.7)
    return 0.0


def effective(log_weight: Array) -> float:
    """The effective sample size of log weights; the weights sum to one (Kong 1992).

    >>> round(effective(np.log(np.full(8, 0.125))), 9)
    8.0
    """
    # ESS = 1 / sum_s w_s^2 with sum_s w_s = 1.
    return float(np.exp(-np.logaddexp.reduce(2.0 * log_weight, axis=None)))


def smooth_weights(log_weight: Array) -> SmoothedWeights:
    """Smooth the largest weights by a generalised Pareto distribution.

    The min(S / 5, 3 sqrt S) largest weights are replaced by its quantiles, none above
    the largest raw weight; k is infinite if there are too few of them.

    >>> found = smooth_weights(np.log(np.arange(1.0, 101.0)))
    >>> found.k < 0, bool(found.log_weight.max() <= np.log(100.0))  # a bounded tail
    (True, True)
    """
    from probreg.compiled.pareto import smooth_largest

    S = len(log_weight)
    # M = min(S/5, 3 S^(1/2)) (Vehtari et al. 2024); a shape needs five weights
    M = int(min(S // 5, 3.0 * np.sqrt(S)))
    # places of the largest weight below the tail, and of the tail
    places = np.argsort(log_weight)[-M - 1 :]
    ends = log_weight[places[[0, -1]]]
    if M < 5 or not np.isfinite(ends).all():
        return SmoothedWeights(log_weight, np.inf)
    if np.ptp(log_weight[places[1:]]) < 1e-10:  # draws of the target itself
        return SmoothedWeights(log_weight, -np.inf)
    log_tail = np.empty(M)
    k = smooth_largest(log_weight - ends[1], places, log_tail)
    smoothed = log_weight.copy()
    smoothed[places[1:]] = ends[1] + log_tail
    return SmoothedWeights(smoothed, k if np.isfinite(k) else np.inf)


class ChainWeights(NamedTuple):
    """Smoothed log weights (C, N) of weights that sum to one over all chains, the shape k
    of their tail, and the log of the mean weight of each chain (C,)."""

    log_weight: Array
    k: float
    log_mean: Array


def smooth_by_chain(log_weight: Array) -> ChainWeights:
    """Smooth the weights (C, N) of all chains together."""
    tail = smooth_weights(log_weight.ravel())
    smoothed = tail.log_weight - np.logaddexp.reduce(tail.log_weight)
    log_mean = np.logaddexp.reduce(log_weight, axis=1) - np.log(log_weight.shape[1])
    return ChainWeights(smoothed.reshape(log_weight.shape), tail.k, log_mean)


class Weighted(NamedTuple):
    """Draws of the proposal with their weights: the posterior mean is the sum of
    exp(log_weight) times the draws."""

    beta: Array  # (chain, point, p, m)
    aux: dict[str, Array]  # name -> (chain, point)
    log_weight: (
        Array  # (chain, point), smoothed; the weights of all chains together sum to one
    )
    k_hat: float
    log_evidence: float  # log p(y) if the prior is proper
    log_evidence_se: float

    @property
    def ess(self) -> float:
        """Effective sample size 1 / sum of squared weights (Kong 1992)."""
        return effective(self.log_weight)


class _Points(NamedTuple):
    """Points z (n, d) of a round, their theta = (vec beta, log aux) (n, d), and the log posterior as a density of theta, -inf
    instead of nan."""

    z: Array
    theta: Array
    log_p: Array  # (n,)


@METHODS.register
@dataclass(frozen=True)
class Importance(Method):
    """p(beta, log aux | y) by weights p / q on draws of q, a mixture of Student-t densities.

    A quarter of the points come from Student-t(df, mode, H^-1), H the curvature at the mode. The others come from
    Student-t densities about the weighted mean of the first ones, with 1.3 times their
    weighted covariance. These have 5 degrees of freedom, or fewer if the priors have,
    so no tail of q is lighter than the posterior's. If the posterior can have several
    modes, Newton's method searches for them from a few starts, and q has a component
    about each.

    A Pareto tail of shape k-hat smooths the largest weights. Reported means and
    standard deviations use the weighted points, and the evidence (with its Monte Carlo
    error) uses the last half of them. The draws of each chain are resampled from its
    own points, with copies adjacent, so that they have equal weights.

    Parameters
    ----------
    draws : int
        Draws of each chain.
    chains : int
        Number of chains, each with its own points.
    df : float, optional
        Degrees of freedom of the component of q about the mode, inf for a normal. By
        default 10, or the number of parameters if it is larger: the radius of a
        Student-t in d dimensions has a normal's spread only from df = d.
    max_k : float, optional
        The largest k-hat, by default min(1 - 1 / log10 S, 0.7) for S weighted points.
    tol : float
        Tolerance of the mode, as in `Newton`.
    max_steps : int
        Maximum number of steps of the search for the mode.

    Raises
    ------
    NotConverged
        If k-hat is above `max_k`, because means are then unstable.

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
    df: (
        Annotated[float, Number(2.0, ends=(math.inf,), words="a number above 2")] | None
    ) = None
    max_k: Limit | None = None
    tol: Positive = 1e-7
    max_steps: Count = 100

    name = "importance"
    likelihood = DifferentiableLikelihood
    prior = SmoothPrior
    target = "posterior"

    def obstacle(self, model: Model) -> str | None:
        if isinstance(model.likelihood, ProximalLikelihood) and not model.joint.of_kind(
            GaussianPrior
        ):
            return f"importance needs flat or normal priors with the {model.likelihood.name} likelihood; use nuts"
        return search_obstacle(self, model)

    @property
    def points(self) -> int:
        """The number of points in each chain."""
        # minimal number of points, so that k-hat has a tail to estimate
        return max(self.draws, -(-1000 // self.chains))

    @property
    def limit(self) -> float:
        """The largest accepted k-hat."""
        if self.max_k is None:
            return reliable(self.chains * self.points)
        return self.max_k

    def solve(self, model: Model, rng: Generator) -> Solution:
        peaks = find_peaks(model, self.name, tol=self.tol, max_steps=self.max_steps)
        weighted, z, mean_z = self._weigh(model, peaks, rng)
        peak = peaks[0]
        if not weighted.k_hat <= self.limit:
            raise NotConverged(
                f"importance: k-hat {weighted.k_hat:.2f} is above {self.limit:.2f}: a few of {weighted.log_weight.size:,} points have most of the weight, "
                f"worth {weighted.ess:,.0f} independent draws. Their means are unstable, because the posterior is far from a normal "
                "about its mode. Possible causes: nearly separated classes, a prior with long tails, few rows for sigma. A more "
                "informative prior helps; Importance(max_k=...) accepts the weights as they are",
                remedy=Remedy("method", "nuts"),
            )
        reason = _without_variance(model)
        if reason is not None and self.limit < np.inf:
            raise NotConverged(
                f"importance: {reason}, so the posterior has no variance and weighted means are unstable. Importance(max_k=inf) "
                "returns its draws, which have stable quantiles, or give a more informative prior"
            )
        weight = np.exp(weighted.log_weight)
        chosen = np.array([resample_systematically(w, self.draws, rng) for w in weight])
        chain = np.arange(self.chains)[:, None]
        mean, cov, error = _moments(peak, z, weight.ravel(), mean_z)
        aux = {
            a: weighted_moments(v.ravel(), weight.ravel())
            for a, v in weighted.aux.items()
        }
        k = peak.found.beta.size
        is_reliable = reason is None and weighted.k_hat <= reliable(
            weighted.log_weight.size
        )
        stats = {
            "k_hat": weighted.k_hat,
            "ess": weighted.ess,
            "distinct": float(sum(len(np.unique(row)) for row in chosen)),
            "mcse_mean": error[0],
            "mcse_sd": error[1],
            "log_evidence": weighted.log_evidence,
            "log_evidence_se": weighted.log_evidence_se,
            "n": model.design.total,
        }
        note = _weights_note(stats, weighted, is_reliable)
        if not all_proper(model):
            stats = {k: v for k, v in stats.items() if "evidence" not in k}
        status = Status.SAMPLED
        detail = ""
        if not is_reliable:
            status = Status.UNSETTLED
            detail = reason or f"k-hat {weighted.k_hat:.2f}"
        solution = Solution(
            beta=mean[:k].reshape(model.shape),
            scale=cov,
            aux={a: v[0] for a, v in aux.items()},
            draws=Draws(
                {"beta": weighted.beta[chain, chosen]}
                | {a: v[chain, chosen] for a, v in weighted.aux.items()},
                aux_sd={a: v[1] for a, v in aux.items()},
            ),
            status=status,
            detail=detail,
            stats=stats,
            notes=(
                *sigma_note(
                    model,
                    routine_note(
                        Topic.SIGMA,
                        "sigma is weighted with beta, with its proposal on the log scale",
                    ),
                ),
                note,
                *notes_of_modes(
                    model, peaks, "the estimate is the mean over all of them"
                ),
            ),
        )
        return with_corrected_intervals(model, solution)

    def _weigh(
        self, model: Model, peaks: list[Peak], rng: Generator
    ) -> tuple[Weighted, Array, Array | None]:
        """Return the weighted points, their coordinates z of the first mode, and the
        mean of the proposal there."""
        peak = peaks[0]
        into = (self.chains, self.points)
        dim = len(peak.centre)
        # reduces k-hat for skew posteriors of few rows, for a tenth of the effective draws
        df = max(10.0, dim) if self.df is None else self.df
        places = [
            (np.zeros(dim), np.eye(dim)),
            *(peak_k.relative_to(peak) for peak_k in peaks[1:]),
        ]
        # degrees of freedom of the heaviest possible tail of the posterior: a prior's if the likelihood is flat,
        # and with an unknown noise scale the residual degrees of freedom
        tail = min(_degrees_left(model), *(b.prior.tail for b in model.joint.blocks))
        # points at the end of each round; the first round is about the mode
        shares = (0.125, 0.25, 0.5, 1.0)
        ends = [max(len(peaks), int(share * self.points)) for share in shares]
        stretch = _stretch(model, peak) if len(peaks) == 1 else None
        first = ends[0] if stretch is None else (ends[0] + 1) // 2
        counts = proposal.split(first, [1.0] * len(peaks))
        modes = [Component(*place, df, n) for place, n in zip(places, counts)]
        components: list[Component] = []
        components_new: list[Component] = [*modes]
        if stretch is not None:
            rest = replace(modes[0], count=ends[0] - first, stretch=stretch)
            components_new.append(rest)
        rounds: list[_Points] = []
        log_q: list[Array] = []
        for before, end in pairwise([0, *ends]):
            if rounds:
                z, _, log_p = map(np.concatenate, zip(*rounds))
                log_w, _ = smooth_weights(log_p - np.concatenate(log_q))
                weight = np.zeros(len(log_w))
                if np.isfinite(log_w.max()):
                    weight = softmax(log_w)
                count = end - before
                components_new = []
                if stretch is not None:
                    u = stretch.apply(z, -1.0)
                    stretched = proposal.about_moments(
                        modes, u, weight, count // 2, tail
                    )
                    components_new = [replace(c, stretch=stretch) for c in stretched]
                    count -= count // 2
                components_new += proposal.about_moments(modes, z, weight, count, tail)
            log_q = [
                np.logaddexp(q, proposal.mixture_log_density(components_new, d.z))
                for q, d in zip(log_q, rounds)
            ]
            components += components_new
            rounds.append(self._evaluate(model, peak, components_new, rng))
            log_q.append(proposal.mixture_log_density(components, rounds[-1].z))
        # each chain has its own points of every round
        z, theta, log_p, q = (
            np.concatenate(
                [
                    v.reshape(self.chains, len(v) // self.chains, *v.shape[1:])
                    for v in parts
                ],
                1,
            )
            for parts in (*zip(*rounds), log_q)
        )
        z = z.reshape(-1, dim)
        log_q_all = q.ravel() - np.log(self.points)
        # theta = centre + root z: q(theta) = q(z) / |root|, so log w = log p(y, theta)
        # - log q(z) + log |root|.
        log_weight, k_hat = smooth_weights(log_p.ravel() - log_q_all + peak.log_det)
        log_weight = log_weight - np.logaddexp.reduce(log_weight)
        # the last proposal does not depend on its own points; the mixture of all rounds was fitted to most of its points, which
        # makes its mean weight too small
        last = rounds[-1]
        own_log_q = proposal.mixture_log_density(components_new, last.z)
        own_log_q -= np.log(len(last.z) // self.chains)
        evidence, error = _evidence(last.log_p - own_log_q + peak.log_det)
        with np.errstate(over="ignore"):  # of weight zero
            beta, aux = split_parameters(model, theta)
        return (
            Weighted(beta, aux, log_weight.reshape(into), k_hat, evidence, error),
            z,
            proposal.mean_of(components),
        )

    def _evaluate(
        self,
        model: Model,
        peak: Peak,
        components: Sequence[Component],
        rng: Generator,
    ) -> _Points:
        """Return points of some components by chain, with their log posterior."""
        parts = np.concatenate([c.draw(rng, self.chains) for c in components], 1)
        z = parts.reshape(-1, parts.shape[-1])
        theta = peak.at(z)
        with np.errstate(all="ignore"):  # far points overflow to weight zero
            beta, aux = split_parameters(model, theta)
            # the number of points of all rounds decides whether compiled code is worth loading
            with sample_of(model.design.n * self.points // parts.shape[1]):
                log_lik = log_lik_of_draws(model, beta, aux)
            log_p = log_lik + model.log_prior(beta, **aux)
            log_p = log_p + theta[:, model.n_coefficients :].sum(1)
        return _Points(z, theta, np.where(np.isnan(log_p), -np.inf, log_p))


def _evidence(log_weight: Array) -> tuple[float, float]:
    """Return log p(y) = log E_q[w] from the weights w (S,) of points of q, and its standard error."""
    log_weight, _ = smooth_weights(log_weight)
    n = len(log_weight)
    log_mean = float(np.logaddexp.reduce(log_weight)) - float(np.log(n))
    # relative error of the mean weight: sd(w / mean w) / S^(1/2)
    error = float(np.std(np.exp(log_weight - log_mean)) / np.sqrt(n))
    return log_mean, error


def _stretch(model: Model, peak: Peak) -> proposal.Stretch | None:
    """Return coordinates where the spread of coefficients is proportional to the noise scale; None if the scale is fixed or well known."""
    if not model.noise_unknown:
        return None
    k = peak.found.beta.size
    noise = k + model.unknown.index(model.noise_scale)
    # from this sd of log sigma the spread of coefficients depends on sigma; it is the sd for 8 degrees of freedom
    if np.linalg.norm(peak.root[noise]) < 0.25:
        return None
    return proposal.Stretch(peak.root, noise, k)


def _degrees_left(model: Model) -> float:
    """Return degrees of freedom of the posterior of flat coefficients with an unknown
    noise scale; inf without one."""
    flat = float((~model.joint.informative).sum())
    if not model.noise_unknown or not flat:
        return np.inf
    return max(model.design.total - flat + model.noise_prior.powers[1], 1.0)


def _without_variance(model: Model) -> str | None:
    """Return why the posterior has no variance, or None."""
    df = _degrees_left(model)
    if df <= 2.0:
        return f"coefficients with a flat prior have {df:g} degrees of freedom"
    heavy = [b for b in model.joint.blocks if b.prior.tail <= 2.0]
    if not heavy:
        return None
    names = model.design.columns
    flat: dict[str | tuple[str, ...], Prior | str] = {
        tuple(names[i] for i in b.columns): Flat() if b in heavy else b.prior
        for b in model.joint.blocks
    }
    separated = separation(model.with_prior(flat))
    if not separated:
        return None
    return f"the classes are separated by {few_names(separated.labels)}, and the tail of the prior has {min(b.prior.tail for b in heavy):g} degrees of freedom"


def resample_systematically(weight: Array, draws: int, rng: Generator) -> Array:
    """Return `draws` point numbers in proportion to the weights by systematic
    resampling.

    One uniform number shifts equally spaced points over the cumulative weights, so that each
    count is exact to within one.

    >>> resample_systematically(np.array([0.5, 0.0, 0.25, 0.25]), 8, np.random.default_rng(0)).tolist()
    [0, 0, 0, 0, 2, 2, 3, 3]
    """
    total = np.cumsum(weight)
    # Point j is at (j + U) / draws of the sum of the weights, with one U for all.
    comb = (np.arange(draws) + rng.random()) / draws * total[-1]
    return np.minimum(np.searchsorted(total, comb, side="right"), len(weight) - 1)


def log_lik_of_draws(model: Model, beta: Array, aux: dict[str, Array]) -> Array:
    """Return log p(y | beta, aux) of draws beta (S, p, m); for a Gaussian from the moments of the rows."""
    if not model.likelihood.least_squares:
        return model.log_lik(beta, **aux)
    sigma = np.asarray(model.noise(aux))
    return log_lik_of_moments(model.design.moments, beta, sigma)


def _moments(
    peak: Peak, z: Array, w: Array, mean_z: Array | None
) -> tuple[Array, DenseCovariance, tuple[float, float]]:
    """Return mean and covariance of (vec beta, log aux), and the largest relative Monte
    Carlo errors of a mean and of an sd.

    If the mean of z under q is known, only the difference of weighted and plain mean is
    estimated (a control variate).
    """
    # E_p[z] is about E_q[z] + sum_s (w_s - 1/S) z_s, since sum_s z_s / S estimates E_q[z].
    pull = w
    mean = w @ z
    centred = z - mean
    if mean_z is not None:
        pull = w - 1.0 / len(w)
        mean = pull @ z + mean_z
    peak_covariance = peak.found.scale
    assert isinstance(peak_covariance, DenseCovariance)
    # cov(z) = R'R with the QR factor R of the weighted rows, so that cov(theta) = (root R')(root R')'
    R = np.linalg.qr(np.sqrt(w)[:, None] * centred, mode="r")
    cov = replace(peak_covariance, root=peak_covariance.root @ R.T)
    x = centred @ peak.root.T / cov.errors()
    # Delta method of self-normalised weights, x in posterior standard deviations:
    # se(mean) = (sum_s (w_s - 1/S)^2 x_s^2)^(1/2), se(sd)/sd = (sum_s w_s^2 (x_s^2 - 1)^2)^(1/2) / 2.
    of_mean = np.sqrt((pull**2) @ x**2)
    of_sd = 0.5 * np.sqrt((w**2) @ (x**2 - 1.0) ** 2)
    return (
        peak.centre + peak.root @ mean,
        cov,
        (float(of_mean.max()), float(of_sd.max())),
    )


def weighted_moments(values: Array, w: Array) -> tuple[float, float]:
    """Mean and standard deviation of values (S,) with weights w (S,) of sum one."""
    # E aux = sum_s w_s aux_s, var aux = sum_s w_s (aux_s - E aux)^2, with sum_s w_s = 1.
    values, w = values[w > 0.0], w[w > 0.0]  # a point without weight may be infinite
    mean = float(w @ values)
    return mean, float(np.sqrt(w @ (values - mean) ** 2))


def all_proper(model: Model) -> bool:
    """Whether the mean weight is an evidence."""
    blocks = all(
        b.prior.proper and not isinstance(b.prior, Flat) for b in model.joint.blocks
    )
    return blocks and all(model.aux_prior(a).proper for a in model.unknown)


def _weights_note(
    stats: dict[str, float], weighted: Weighted, is_reliable: bool
) -> Note:
    return Note(
        Topic.SAMPLING,
        "k-hat {k_hat:.2f}; {points:,} weighted points are worth {ess:,.0f} independent draws, and the resampled draws "
        "contain {distinct:,.0f} of them, some several times. Means and standard deviations are weighted, with Monte Carlo "
        "errors of {mcse_mean:.2g} sd and {mcse_sd}",
        (
            *stats.items(),
            ("points", weighted.log_weight.size),
            ("mcse_sd", percent(stats["mcse_sd"], 2)),
        ),
        Severity.ROUTINE if is_reliable else Severity.IMPORTANT,
    )

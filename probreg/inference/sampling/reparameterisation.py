"""Coordinates that make a posterior nearly round, so that a sampler takes long steps
after a short warm-up.

If a scale tau is unknown, coefficients determined by the data are sampled directly
(centred), in coordinates whitened by the curvature; others as theta with beta =
location + (theta - location) tau / tau0 (non-centred), with theta under the prior of
tau0. Beta given tau is then nearly the prior, with a width proportional to tau
(Papaspiliopoulos et al. 2007). The choice is made at the tau of maximal evidence:
centred if the data determine more than half of the coefficients (of each effect of a group). The other coefficients
follow the non-centred ones by their regression, which removes the effect of a correlated
intercept.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from probreg.errors import Incompatible, NotConverged
from probreg.inference.base import Array, Status
from probreg.inference.exact.evidence import Evidence
from probreg.inference.exact.evidence_problem import EvidenceProblem
from probreg.inference.exact.latent_groups import LatentGroup
from probreg.inference.modes.closed_form import (
    Conditional,
    PriorRows,
    posterior_given_sigma,
)
from probreg.inference.penalized.piecewise_linear import any_mode
from probreg.likelihoods import ProximalLikelihood
from probreg.linalg import factor_of, merge, root_of_curvature
from probreg.linalg.vec import map_of_columns, with_aux
from probreg.model.model import Model
from probreg.model.term_priors import unit_prior
from probreg.priors import (
    ExponentialPower,
    Flat,
    GaussianPrior,
    HierarchicalPrior,
    LatentPrior,
    Normal,
    Prior,
    ScaleMixture,
    WholePrior,
)
from probreg.priors.joint import mapping_of
from probreg.system.terminal import percent

_STEPS = 14  # Newton steps, after which the mode is too far away for its curvature to describe the posterior


class NonCentredBlock(NamedTuple):
    """A block in non-centred coordinates: beta = location + (theta - location)
    spread(hyperparameters) / spread, or Lambda theta for effects by group."""

    block: int
    entries: Array  # of its entries in vec(beta)
    location: Array  # (q m,)
    spread: Any  # one number, or one of each column


@dataclass(frozen=True, eq=False)
class Reparameterisation:
    """theta = centre + A z, and (vec beta, log aux) = theta without non-centred blocks.

    Otherwise the non-centred ones are scaled, and the others follow: beta_f = theta_f +
    regression (beta_n - centre_n), n the entries of non-centred blocks in order.
    """

    centre: Array  # (p m + a,)
    A: Array  # (p m + a, k)
    whitened: bool  # z is nearly standard normal
    notes: tuple[str, ...]
    noncentred: tuple[NonCentredBlock, ...] = ()
    regression: Array = field(default_factory=lambda: np.zeros((0, 0)))  # (f, n)
    # typical hyperparameters of each block that has some
    typical: tuple[Mapping[str, float], ...] = ()


def whiten(model: Model) -> Reparameterisation:
    """Return coordinates whitened by the curvature at the mode if there is one, else the
    standardised columns."""
    if model.likelihood.least_squares:
        whitened = _by_moments(model)
    else:
        whitened = _by_mode(model)
    if whitened is not None:
        return whitened
    T = map_of_columns(model.design.frame.T, model.shape[1])
    a = len(model.unknown)
    # No curvature for whitening: beta = T gamma, one z for each entry of gamma and each
    # log aux.
    start: Mapping[str, float] = {}
    if a and model.design.n:
        start = model.likelihood.initial_eta(model.design.observed)[1]
    log_aux = [np.log(start.get(name, 1.0)) for name in model.unknown]
    note = f"sampled on standardised columns: no mode found for whitening in {_STEPS} steps"
    return Reparameterisation(
        np.r_[np.zeros(len(T)), log_aux], with_aux(T, a), False, (note,)
    )


def _by_mode(model: Model) -> Reparameterisation | None:
    """Return the normal at the mode over (vec beta, log aux); None if no mode is
    near."""
    # with kinks the mode comes from an interior-point method, so its number of steps means nothing
    kinked = isinstance(model.likelihood, ProximalLikelihood)
    if kinked:
        smooth = model.joint.gaussian
    else:
        smooth = model.joint.smooth
    if not smooth:
        model = with_proxy_priors(model)
    mode = any_mode(model, tol=1e-4)
    root = root_of_curvature(mode.local.curvature)
    if (
        mode.status is not Status.CONVERGED
        or (mode.steps > _STEPS and not kinked)
        or root is None
    ):
        return None
    T = with_aux(
        map_of_columns(model.design.frame.T, model.shape[1]), len(mode.log_aux)
    )
    # (beta, log aux) = T (gamma, log aux), H^-1 = K K' = L L' at the mode: A = T L, so that A A' = cov(beta, log aux).
    centre = T @ np.r_[mode.gamma.ravel(), mode.log_aux]
    note = "sampled in coordinates whitened by the curvature at the mode"
    A = T @ factor_of(root.T).T
    return Reparameterisation(centre, A, True, (note,))


def _by_moments(model: Model) -> Reparameterisation | None:
    """Return the normal of beta at a sigma near the posterior's, and an independent log
    sigma with sd 1 / sqrt(2 n)."""
    normal_model = with_proxy_priors(model)
    sigma = rough_sigma(model)
    moments = model.design.moments
    posterior = posterior_given_sigma(moments, PriorRows.of(normal_model.joint), sigma)
    if posterior.rank.dropped:
        return None
    root = sigma * np.asarray(posterior.root, dtype=float)
    a = len(model.unknown)
    A = np.zeros((len(root) + a, root.shape[1] + a))
    # beta | sigma ~ N(mean, sigma^2 root root'); log sigma has the standard deviation (2 n)^(-1/2) of its Fisher information.
    A[: len(root), : root.shape[1]] = root
    A[len(root) :, root.shape[1] :] = np.eye(a) / np.sqrt(
        2.0 * max(moments.weight, 1.0)
    )
    note = "sampled on the sufficient statistics of the rows, in whitened coordinates"
    centre = np.r_[posterior.mean, np.full(a, np.log(sigma))]
    return Reparameterisation(centre, A, True, (note,))


def reparameterise(model: Model) -> Reparameterisation:
    """Return whitened coordinates if there is a mode, with non-centred blocks for unknown
    scales with weak data."""
    scales = typical_scales(model)
    if not scales:
        return whiten(model)
    normal_model = with_proxy_priors(
        model, {i: s.plain or s.spread for i, s in scales.items()}
    )
    noncentred = [
        _noncentred_block(model, i, s.spread)
        for i, s in scales.items()
        if not s.centred
    ]
    whitened = whiten(normal_model)
    return replace(
        _with_noncentred(model, whitened, tuple(noncentred)),
        whitened=False,
        notes=(*whitened.notes, *(_scale_note(model, i, s) for i, s in scales.items())),
        typical=tuple(scales[i].hyper for i in sorted(scales)),
    )


def _scale_note(model: Model, i: int, typical: "Typical") -> str:
    columns = model.design.describe_columns(model.joint.blocks[i].columns)
    way = "centred" if typical.centred else "non-centred"
    note = f"the unknown scale of {columns} is sampled {way}"
    if typical.share is None:
        return note
    several = len(getattr(model.joint.blocks[i].prior, "effects", ())) > 1
    part = (
        "the coefficients of its least determined effect"
        if several
        else "its coefficients"
    )
    return f"{note}: the data determine {percent(typical.share, 2)} of {part}"


def rough_sigma(model: Model) -> float:
    """Return a sigma near the posterior's: the residual standard deviation, or a value
    from the prior if there are no residuals."""
    if model.noise_held is not None:
        return model.noise_held
    m = model.design.moments
    spare = max(m.weight - m.rank.rank, 1)
    rounding = np.finfo(float).eps * np.sqrt(np.square(m.factor[:, -1]).sum())
    if m.rss > max(1e-12 * m.y_scale**2, rounding**2):
        return float(np.sqrt(m.rss / spare))
    relative = PriorRows.of(with_proxy_priors(model).joint).relative
    if len(relative):  # the distance from a prior in units of sigma is a residual too
        rss = Conditional(merge(m.factor, relative)).rss
        return float(np.sqrt(max(rss, 1e-12 * m.y_scale**2) / spare)) or 1.0
    # The columns reproduce the response, so the density of log sigma is p(sigma)
    # sigma^-(n - rank): its maximum, among
    # values from 1e-12 to 1e12 in steps of 12 %.
    grid = np.geomspace(1e-12, 1e12, 500)
    with np.errstate(divide="ignore", over="ignore"):
        log_p = model.noise_prior.log_prob(grid) + (1.0 - spare) * np.log(grid)
    return float(grid[np.argmax(log_p)])


def _noncentred_block(model: Model, i: int, spread: Any) -> NonCentredBlock:
    block = model.joint.blocks[i]
    m = model.shape[1]
    width = block.width(m)
    location = getattr(unit_prior(block), "location", 0.0)
    index = block.entries(m)
    if _by_groups(block.prior):  # standard normal coordinates, multiplied by the root
        spread = 1.0
    centre = np.repeat(np.broadcast_to(location, len(block.columns)), width).astype(
        float
    )
    return NonCentredBlock(i, index, centre, spread)


def _with_noncentred(
    model: Model,
    coordinates: Reparameterisation,
    noncentred: tuple[NonCentredBlock, ...],
) -> Reparameterisation:
    """Return the other coefficients given the non-centred ones, which are whitened too if
    they share one scale, else in units of their prior."""
    if not noncentred:
        return coordinates
    n = np.concatenate([b.entries for b in noncentred])
    f = np.setdiff1d(np.arange(len(coordinates.centre)), n)
    # The regression of the others f on the non-centred entries n, for a normal with
    # covariance S = A A':
    # E[beta_f | beta_n] = centre_f + regression (beta_n - centre_n), regression = S_fn S_nn^-1,
    # cov(beta_f | beta_n) = (A_f - regression A_n)(A_f - regression A_n)', in roots, because the
    # variance of an intercept far from the rows has no digits for a difference.
    S = coordinates.A @ coordinates.A.T
    size = np.sqrt(np.diagonal(S)[n])
    Q, R = np.linalg.qr((coordinates.A[n] / size[:, None]).T)
    others = coordinates.A[f]
    regression = np.linalg.solve(R, (others @ Q).T).T / size
    for _ in range(2):  # the second time removes the rounding error of the first
        others = others - (others @ Q) @ Q.T
    A = np.zeros_like(S)
    centre = coordinates.centre.copy()
    A[np.ix_(f, f)] = factor_of(others.T).T
    for b in noncentred:
        prior = model.joint.blocks[b.block].prior
        if isinstance(prior, ScaleMixture):
            A[np.ix_(b.entries, b.entries)] = _root(S[np.ix_(b.entries, b.entries)])
        else:
            # Non-centred: z = (theta - location) / sd under the prior at the typical scale.
            A[b.entries, b.entries] = _prior_sd(model, b)
            centre[b.entries] = b.location
    centre[f] += regression @ (centre[n] - coordinates.centre[n])
    return replace(
        coordinates,
        A=A[:, A.any(0)],
        centre=centre,
        noncentred=noncentred,
        regression=regression,
    )


def _by_groups(prior: Prior) -> bool:
    """Whether the effects by group are multiplied by a root."""
    return isinstance(prior, HierarchicalPrior) and bool(prior.hyper_labels)


def _prior_sd(model: Model, b: NonCentredBlock) -> Array:
    prior: Any = model.joint.blocks[b.block].prior
    unit = 1.0
    if prior.sigma_units:
        unit = model.noise_held or model.design.moments.y_scale
    sd = np.broadcast_to(prior.base.scales, len(model.joint.blocks[b.block].columns))
    return (
        np.repeat(sd * b.spread, model.joint.blocks[b.block].width(model.shape[1]))
        * unit
    )


def _root(S: Array) -> Array:
    """L with L L' = S, computed at unit diagonal; a small multiple of the diagonal
    covers lost digits."""
    d = np.sqrt(np.diagonal(S))
    # S = D C D with C of unit diagonal: L = D chol(C).
    C = S / np.outer(d, d) + 1e-12 * np.eye(len(S))
    return d[:, None] * np.linalg.cholesky(C)


# ---- typical scales ----------------------------------------------------------------------------------------------------


class Typical(NamedTuple):
    """A typical value of a block's spread in the posterior, one number or one for each
    column, and whether to centre there."""

    spread: Any
    centred: bool
    # of the coefficients that the data determine, the smallest of several effects; None if unknown
    share: float | None
    hyper: Mapping[str, float]  # at that spread
    plain: Prior | None = None  # the prior at this value, for effects by group


def typical_scales(model: Model) -> dict[int, Typical]:
    """Return one entry for each block with hyperparameters."""
    blocks = model.joint.blocks
    optima: Iterator[Any] = iter(())
    if any(isinstance(b.prior, LatentPrior) for b in blocks):
        optima = iter(_by_evidence(model) or ())
    typical = {}
    for i, b in enumerate(blocks):
        prior: Any = b.prior
        if isinstance(prior, LatentPrior):
            values, share = next(optima, None) or (_medians(prior), None)
            grouped = _by_groups(prior)
            plain = None
            if grouped:
                values = _without_zero_scales(prior, values)
                plain = prior.given(**values)
            # centred if the data determine more than half of the coefficients of each effect
            centred = (share or 0.0) > 0.5 and (prior.scalar or grouped)
            typical[i] = Typical(prior.spread(**values), centred, share, values, plain)
        elif isinstance(prior, HierarchicalPrior):
            spread = prior.spread(**dict.fromkeys(prior.hyper, 1.0))
            typical[i] = Typical(spread, False, None, _medians(prior))
    return typical


def _medians(prior: HierarchicalPrior) -> dict[str, float]:
    return {
        name: float(np.median(h.prior.sample(np.random.default_rng(0), 1001)))
        for name, h in prior.hyper.items()
    }


def _without_zero_scales(
    prior: LatentPrior, values: Mapping[str, float]
) -> dict[str, float]:
    """Replace a standard deviation of zero by a small one, so that a sampler can start
    there."""
    # relative to the median of the prior: smallest standard deviation of effects at the start of chains
    smallest = {name: 0.05 * v for name, v in _medians(prior).items()}
    return {
        name: max(v, smallest[name]) if scale else v
        for (name, v), scale in zip(values.items(), prior.scales)
    }


def _by_evidence(model: Model) -> list[tuple[dict[str, float], float]] | None:
    """Return (hyperparameters, share of the coefficients determined by the data) of
    each latent prior at the maximum of the evidence.

    Other priors are replaced by normal ones. None if there is no maximum.
    """
    latent = dict[int, Prior]()
    for i, b in enumerate(model.joint.blocks):
        if isinstance(b.prior, ScaleMixture):
            latent[i] = ScaleMixture(_normal(b.prior.base), b.prior.tau)
        elif isinstance(b.prior, LatentPrior):
            latent[i] = b.prior
    normal_model = with_proxy_priors(model, latent)
    if Evidence().obstacle(normal_model) is not None:
        return None
    problem = EvidenceProblem(normal_model)
    try:
        top = problem.maximise(100)
    except (Incompatible, NotConverged, np.linalg.LinAlgError):
        return None
    hyper = np.exp(top.theta[: len(problem.groups.priors)])
    # gamma_k / n_k, the share of the block's coefficients determined by the data
    # (MacKay 1992).
    return [
        (
            dict(zip(g.hyper, hyper[place].tolist())),
            _share_settled(g, top.at.effective[place], g.width(model.shape[1])),
        )
        for g, place in problem.groups.with_hyper[: len(problem.unknown)]
    ]


def _share_settled(group: LatentGroup, effective: Array, predictors: int) -> float:
    """Return the share of a group's coefficients that the data determine, the smallest share of several effects: where the data hardly
    determine an effect its sd comes near zero, where centred chains mix badly."""
    if group.prior is None or not group.prior.hyper_labels:
        return float(effective[0]) / (len(group.columns) * predictors)
    scales = np.array(group.prior.scales)
    effects_per_scale = len(group.columns) / len(group.prior.effects) * predictors  # type: ignore[attr-defined]
    return float(effective[scales].min(initial=effects_per_scale) / effects_per_scale)


# ---- normal priors in place of others ----------------------------------------------------------------------------------


def with_proxy_priors(model: Model, spreads: Mapping[int, Any] | None = None) -> Model:
    """Return the model with normal priors of the same centre and scale in place of others, for coordinates only.

    `spreads` are the spreads of blocks with hyperparameters, or the priors in their place.
    """
    spreads = spreads or {}
    normal = [
        replace(b, prior=_normal(b.prior, spreads.get(i)))
        for i, b in enumerate(model.joint.blocks)
    ]
    return replace(model, prior=mapping_of(normal, model.design.columns))


def _normal(prior: Prior, spread: Any = None) -> Prior:
    if isinstance(spread, Prior):
        return spread
    if isinstance(prior, Flat | GaussianPrior | WholePrior):
        return prior
    if isinstance(prior, HierarchicalPrior):
        if spread is None:
            spread = prior.spread(**dict.fromkeys(prior.hyper, 1.0))
        return _normal(prior.base.times(spread))
    this: Any = prior
    factor = 1.0
    # Var(r) = Gamma(3/q) / Gamma(1/q) for p(r) proportional to exp(-|r|^q).
    # its standard deviation, far from its scale for small q
    if isinstance(prior, ExponentialPower):
        factor = float(np.exp(0.5 * (gammaln(3.0 / prior.q) - gammaln(1.0 / prior.q))))
    scale: Any = np.asarray(this.scale) * factor
    return Normal(scale, location=this.location, sigma_units=this.sigma_units)

"""Coordinates in which a posterior is nearly round, so that a sampler takes long steps and short tuning suffices.

Where a scale tau is unknown, coefficients that the data settle are sampled as they are (centred), in coordinates whitened by
the curvature; others as theta with beta = location + (theta - location) tau / tau0 (non-centred), theta having the prior of
tau0, since beta given tau is then nearly the prior and its width follows tau (Papaspiliopoulos et al. 2007). Which of the two
is decided at the tau of most evidence: centred where the data settle more than half of the coefficients. The other
coefficients follow the loose ones by their regression, so that a correlated intercept costs nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from probreg.errors import Incompatible
from probreg.inference.base import Array, Status
from probreg.inference.covariance import root_of_curvature
from probreg.inference.exact.evidence import Evidence
from probreg.inference.exact.evidence_problem import EvidenceProblem
from probreg.inference.exact.latent_groups import LatentGroup
from probreg.inference.modes.closed_form import (
    Conditional,
    PriorRows,
    posterior_given_sigma,
)
from probreg.inference.penalized.piecewise_linear import any_mode
from probreg.likelihoods import DifferentiableLikelihood, ProximalLikelihood
from probreg.model.model import Model
from probreg.model.pymc_graph import unit_prior
from probreg.numerics.frame import map_of_columns, with_aux
from probreg.numerics.linalg import factor_of, merge
from probreg.priors import (
    BlockPrior,
    ExponentialPower,
    Flat,
    GaussianPrior,
    HierarchicalPrior,
    LatentPrior,
    Normal,
    Prior,
    Reference,
    ScaleMixture,
    WholePrior,
)
from probreg.priors.joint import Key, mapping_of
from probreg.system.terminal import percent

_CUSP = "a prior with a cusp is sampled as a scale mixture of uniforms, which is smooth in its own coordinates"
_STEPS = 14  # of Newton's method, past which the mode is too far away for its curvature to describe the posterior
_FAR = 4.0  # posterior standard deviations
_LEAST = 0.05  # of the median of its prior: the standard deviation of effects at which chains start
_SETTLED = 0.5  # of a block's coefficients by the data: above it the block is centred


class AffineMap(NamedTuple):
    """(vec beta, log aux) = centre + A z; `whitened` says whether z is nearly standard normal."""

    centre: Array
    A: Array
    whitened: bool
    note: str


class StretchedBlocks(NamedTuple):
    """A block in non-centred coordinates: beta = location + (theta - location) spread(hyperparameters) / spread; with a cusp
    it has no theta, and is a scale mixture of uniforms."""

    block: int
    entries: Array  # of its entries in vec(beta)
    location: Array  # (q m,)
    spread: Any  # one number, or one of each column
    cusp: bool = False


@dataclass(frozen=True, eq=False)
class Reparameterisation:
    """vec(theta) = centre + A z, and vec(beta) = vec(theta) where no block is loose. Else the loose ones are stretched, and
    the others follow: beta_f = theta_f + follow (beta_n - centre_n), n the entries of loose blocks in their order."""

    centre: Array  # (p m,)
    A: Array  # (p m, k)
    note: str
    loose: tuple[StretchedBlocks, ...] = ()
    follow: Array = field(default_factory=lambda: np.zeros((0, 0)))  # (f, n)
    words: tuple[str, ...] = ()  # on the unknown scales


def affine_map(model: Model) -> AffineMap:
    """Whitened by the curvature at the mode where there is one, else the standardised columns as they are."""
    if model.likelihood.least_squares:
        found = _by_moments(model)
    else:
        found = _by_mode(model)
    if found is not None:
        return found
    T = map_of_columns(model.design.frame.T, model.shape[1])
    a = len(model.unknown)
    # No curvature to whiten by: beta = T gamma, one z for each entry of gamma and each log aux.
    A = with_aux(T, a)
    if a and model.design.n:
        start = model.likelihood.initial_eta(model.design.observed)[1]
    else:
        start = {}
    centre = np.r_[
        np.zeros(len(T)), [np.log(start.get(name, 1.0)) for name in model.unknown]
    ]
    return AffineMap(
        centre,
        A,
        False,
        f"sampled on standardised columns: no mode to whiten by in {_STEPS} steps",
    )


def _by_mode(model: Model) -> AffineMap | None:
    """The normal at the mode over (vec beta, log aux); None where no mode is near."""
    if not isinstance(model.likelihood, DifferentiableLikelihood):
        return None
    kinked = isinstance(
        model.likelihood, ProximalLikelihood
    )  # its steps are those of an interior point
    if kinked:
        smooth = model.joint.gaussian
    else:
        smooth = model.joint.smooth
    mode = any_mode(
        model if smooth else replace(model, prior=proxy_prior(model)), tol=1e-4
    )
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
    return AffineMap(
        centre,
        T @ np.asarray(factor_of(root.T)).T,
        True,
        "sampled in coordinates whitened by the curvature at the mode",
    )


def _by_moments(model: Model) -> AffineMap | None:
    """The normal of beta at a sigma near the posterior's, and log sigma of standard deviation 1 / sqrt(2 n) beside it."""
    near = replace(model, prior=proxy_prior(model))
    sigma = rough_sigma(model)
    moments = model.design.moments
    given = posterior_given_sigma(moments, PriorRows.of(near.joint), float(sigma))
    if given.rank.dropped:
        return None
    root = sigma * np.asarray(given.root, dtype=float)
    a = len(model.unknown)
    A = np.zeros((len(root) + a, root.shape[1] + a))
    # beta | sigma ~ N(mean, sigma^2 root root'); log sigma has the standard deviation (2 n)^(-1/2) of its Fisher information.
    A[: len(root), : root.shape[1]] = root
    A[len(root) :, root.shape[1] :] = np.eye(a) / np.sqrt(
        2.0 * max(moments.weight, 1.0)
    )
    note = "sampled on the sufficient statistics of the rows, in whitened coordinates"
    return AffineMap(np.r_[given.mean, np.full(a, np.log(sigma))], A, True, note)


def reparameterise(
    model: Model, scales: Mapping[int, "Typical"] | None = None
) -> Reparameterisation:
    """Whitened where there is a mode to whiten by, with loose blocks where a scale is unknown and the data are weak; `scales` are
    those of `typical_scales`, where they are known."""
    if scales is None:
        scales = typical_scales(model)
    near = replace(
        model,
        prior=proxy_prior(model, {i: s.plain or s.spread for i, s in scales.items()}),
    )
    loose = [
        _noncentred_block(model, i, s.spread)
        for i, s in scales.items()
        if not s.centred and not _has_cusp(model, i)
    ]
    at = _whitened(near)
    cusps = [
        _noncentred_block(model, i, 1.0)
        for i in range(len(model.joint.blocks))
        if _has_cusp(model, i) and not _far(model, at, i)
    ]
    at = _with_noncentred(model, at, (*loose, *(b._replace(cusp=True) for b in cusps)))
    words = [s.words for s in scales.values()] + [_CUSP] * bool(cusps)
    return replace(at, words=tuple(words))


def with_blocks_apart(model: Model) -> Model:
    """The same model with a block whose prior has a cusp split: columns that the data hold far from the cusp are
    sampled as they are, and only the others as mixtures of uniforms."""
    if not any(_has_cusp(model, i) for i in range(len(model.joint.blocks))):
        return model
    at = _whitened(replace(model, prior=proxy_prior(model)))
    blocks = list[BlockPrior]()
    for i, b in enumerate(model.joint.blocks):
        if not _has_cusp(model, i) or isinstance(b.prior, HierarchicalPrior):
            blocks.append(b)
            continue
        far = _away(model, at, b)
        for part in (np.flatnonzero(far), np.flatnonzero(~far)):
            if len(part):
                own = tuple(b.columns[k] for k in part)
                blocks.append(
                    replace(b, prior=prior_of_entries(b.prior, part), columns=own)
                )
    return replace(model, prior=mapping_of(blocks, model.design.columns))


def _away(model: Model, at: Reparameterisation, b: BlockPrior) -> Array:
    """(q,) bool: columns of a block whose coefficients the data hold far from their location."""
    # cov(vec beta) = A A': the standard deviation of an entry is the length of its row of A.
    sd = np.linalg.norm(at.A, axis=1).reshape(model.shape)
    location = np.broadcast_to(getattr(unit_prior(b), "location", 0.0), len(b.columns))
    away = np.abs(b.take(at.centre.reshape(model.shape)) - location[:, None])
    return np.asarray((away > _FAR * b.take(sd)).all(1))


def _far(model: Model, at: Reparameterisation, i: int) -> bool:
    b = model.joint.blocks[i]
    return not isinstance(b.prior, HierarchicalPrior) and bool(
        _away(model, at, b).all()
    )


def prior_of_entries(prior: Prior, which: Array) -> Prior:
    """The prior of some of the columns, of a prior of independent columns."""
    fields: dict[str, Any] = {
        k: tuple(v[i] for i in which)
        for k, v in vars(prior).items()
        if isinstance(v, tuple)
    }
    this: Any = prior
    return replace(this, **fields)


def _whitened(near: Model) -> Reparameterisation:
    """The coefficients' part of the affine map: of a Cholesky factor, the leading block is that of the leading block."""
    at = affine_map(near)
    k = near.shape[0] * near.shape[1]
    a = len(near.unknown)
    return Reparameterisation(at.centre[:k], at.A[:k, : at.A.shape[1] - a], at.note)


def rough_sigma(model: Model) -> float:
    """Return a sigma near the posterior's: the residual standard deviation, or what the prior allows where nothing is left over."""
    if model.noise_held is not None:
        return model.noise_held
    m = model.design.moments
    spare = max(m.weight - m.rank.rank, 1)
    rounding = np.finfo(float).eps * np.sqrt(np.square(m.factor[:, -1]).sum())
    if m.rss > max(1e-12 * m.y_scale**2, rounding**2):
        return float(np.sqrt(m.rss / spare))
    relative = PriorRows.of(replace(model, prior=proxy_prior(model)).joint).relative
    if len(relative):  # the distance from a prior in units of sigma is a residual too
        rss = Conditional(merge(m.factor, relative)).rss
        return float(np.sqrt(max(rss, 1e-12 * m.y_scale**2) / spare)) or 1.0
    # The columns reproduce the response, so that p(sigma) sigma^-(n - rank) is left of the density of log sigma: its maximum, among
    # values from 1e-12 to 1e12 in steps of 12 %.
    grid = np.geomspace(1e-12, 1e12, 500)
    with np.errstate(divide="ignore", over="ignore"):
        log_p = model.noise_prior.log_prob(grid) + (1.0 - spare) * np.log(grid)
    return float(grid[np.argmax(log_p)])


def _noncentred_block(model: Model, i: int, spread: Any) -> StretchedBlocks:
    block = model.joint.blocks[i]
    m = model.shape[1]
    each = block.width(m)
    location = getattr(unit_prior(block), "location", 0.0)
    index = block.entries(m)
    if _by_groups(block.prior):  # standard normal coordinates, times the root
        spread = 1.0
    at = np.repeat(np.broadcast_to(location, len(block.columns)), each).astype(float)
    return StretchedBlocks(i, index, at, spread)


def _with_noncentred(
    model: Model, at: Reparameterisation, loose: tuple[StretchedBlocks, ...]
) -> Reparameterisation:
    """The other coefficients given the loose ones, and these as they are: whitened too where one scale serves them all,
    else in units of their prior."""
    if not loose:
        return at
    n = np.concatenate([b.entries for b in loose])
    f = np.setdiff1d(np.arange(len(at.centre)), n)
    # The regression of the others f on the loose entries n, as of a normal with covariance S:
    # E[beta_f | beta_n] = centre_f + follow (beta_n - centre_n), follow = S_fn S_nn^-1,
    # cov(beta_f | beta_n) = S_ff - follow S_nf = A_ff A_ff'.
    S = at.A @ at.A.T
    follow = np.linalg.solve(
        _balanced(S[np.ix_(n, n)]), S[np.ix_(n, f)] / _sizes(S, n)[:, None]
    ).T / _sizes(S, n)
    A = np.zeros_like(S)
    centre = at.centre.copy()
    A[np.ix_(f, f)] = _root(S[np.ix_(f, f)] - follow @ S[np.ix_(n, f)])
    for b in loose:
        prior = model.joint.blocks[b.block].prior
        if b.cusp:
            centre[b.entries] = b.location
        elif isinstance(prior, ScaleMixture):
            A[np.ix_(b.entries, b.entries)] = _root(S[np.ix_(b.entries, b.entries)])
        else:
            # Non-centred: z = (theta - location) / sd under the prior at the typical scale.
            A[b.entries, b.entries] = _prior_sd(model, b)
            centre[b.entries] = b.location
    return replace(at, A=A[:, A.any(0)], centre=centre, loose=loose, follow=follow)


def _by_groups(prior: Prior) -> bool:
    """Effects by group, which a root multiplies."""
    return isinstance(prior, HierarchicalPrior) and bool(prior.hyper_labels)


def _has_cusp(model: Model, i: int) -> bool:
    prior = unit_prior(model.joint.blocks[i])
    return isinstance(prior, ExponentialPower) and prior.q < 1


def _prior_sd(model: Model, b: StretchedBlocks) -> Array:
    prior: Any = model.joint.blocks[b.block].prior
    if prior.sigma_units:
        unit = model.noise_held or model.design.moments.y_scale
    else:
        unit = 1.0
    sd = np.broadcast_to(prior.base.scales, len(model.joint.blocks[b.block].columns))
    return (
        np.repeat(sd * b.spread, model.joint.blocks[b.block].width(model.shape[1]))
        * unit
    )


def _sizes(S: Array, n: Array) -> Array:
    return np.sqrt(np.diagonal(S)[n])


def _balanced(S: Array) -> Array:
    """Scaled to unit diagonal."""
    d = np.sqrt(np.diagonal(S))
    return S / np.outer(d, d)


def _root(S: Array) -> Array:
    """L with L L' = S, through unit diagonal; a lost digit of a difference is made up by a touch of the diagonal."""
    d = np.sqrt(np.diagonal(S))
    # S = D C D with C of unit diagonal: L = D chol(C).
    return d[:, None] * np.linalg.cholesky(_balanced(S) + 1e-12 * np.eye(len(S)))


# ---- typical scales ----------------------------------------------------------------------------------------------------


class Typical(NamedTuple):
    """A value of a block's spread near which the posterior lies, one number or one of each column, and whether to centre there."""

    spread: Any
    centred: bool
    words: str
    hyper: Mapping[str, float]  # of a latent prior, at that spread
    plain: Prior | None = None  # the prior there, of effects by group


def typical_scales(model: Model) -> dict[int, Typical]:
    """One entry for each block with hyperparameters."""
    blocks = model.joint.blocks
    local = [
        i
        for i, b in enumerate(blocks)
        if isinstance(b.prior, HierarchicalPrior)
        and not isinstance(b.prior, LatentPrior)
    ]
    out = {i: _local(blocks[i]) for i in local}
    tuned = [i for i, b in enumerate(blocks) if isinstance(b.prior, LatentPrior)]
    found = _by_evidence(model) if tuned else None
    for k, i in enumerate(tuned):
        prior: Any = blocks[i].prior
        if found:
            values, share = found[k]
        else:
            values = _medians(prior)
            share = 0.0
        grouped = _by_groups(prior)
        values = _no_edge(prior, values) if grouped else values
        spread = prior.spread(**values)
        if share > _SETTLED and (prior.scalar or grouped):
            way = "centred"
        else:
            way = "non-centred"
        columns = model.design.called(blocks[i].columns)
        told = {
            prior.hyper_labels.get(name, name): v
            for name, v in prior.natural(values).items()
        }
        scale = ", ".join(
            f"{v:.3g}" if name == "tau" else f"{name} {v:.3g}"
            for name, v in told.items()
        )
        if found:
            at = f"at the scale of most evidence, {scale}, the data settle {percent(share, 2)} of {columns}"
        else:
            at = columns
        out[i] = Typical(
            spread,
            way == "centred",
            f"the unknown scale is sampled with beta, {way}: {at}",
            values,
            prior.given(**values) if grouped else None,
        )
    return out


def _local(block: BlockPrior) -> Typical:
    prior: Any = block.prior
    ones = dict.fromkeys(prior.hyper, 1.0)
    words = f"the {prior.name} is sampled non-centred, in units of its own scales"
    return Typical(float(prior.spread(**ones)), False, words, {})


def _medians(prior: LatentPrior) -> dict[str, float]:
    return {
        name: float(np.median(h.prior.sample(np.random.default_rng(0), 1001)))
        for name, h in prior.hyper.items()
    }


def _no_edge(prior: LatentPrior, values: Mapping[str, float]) -> dict[str, float]:
    """Hyperparameters a sampler can start at: a standard deviation of zero becomes a small one."""
    least = {name: _LEAST * v for name, v in _medians(prior).items()}
    return {
        name: max(v, least[name]) if scale else v
        for (name, v), scale in zip(values.items(), prior.scales)
    }


def _by_evidence(model: Model) -> list[tuple[dict[str, float], float]] | None:
    """(hyperparameters, share of the coefficients that the data settle) of each latent prior, of a model with normal priors in
    place of others and no edges; None where it has no maximum."""
    near = replace(
        model,
        prior=_all_normal(model),
        aux={**model.aux, **{a: Reference() for a in _edged(model)}},
    )
    if Evidence().obstacle(near) is not None:
        return None
    problem = EvidenceProblem(near, False)
    try:
        top = problem.maximise(100)
    except (Incompatible, np.linalg.LinAlgError):
        return None
    hyper = problem.hyper(top)
    of = problem.groups.group_of
    # gamma_k / n_k, the share of the block's coefficients that the data settle (MacKay 1992).
    return [
        (
            dict(zip(g.hyper, hyper[of == k].tolist())),
            _share_settled(g, top.at.effective[of == k], g.width(model.shape[1])),
        )
        for k, g in enumerate(problem.unknown)
    ]


def _share_settled(group: LatentGroup, effective: Array, predictors: int) -> float:
    """Of the coefficients of a group, from the parameters that the data settle: one number of all, or those of each scale of effects."""
    if group.prior is None or not group.prior.hyper_labels:
        return float(effective[0]) / (len(group.columns) * predictors)
    scales = np.array(group.prior.scales)
    each = len(group.columns) / len(group.prior.effects) * predictors  # type: ignore[attr-defined]
    return float(effective[scales].sum() / (each * max(scales.sum(), 1)))


def _edged(model: Model) -> list[str]:
    return [a for a in model.unknown if model.aux_prior(a).has_bounded_support]


def _all_normal(model: Model) -> dict[Key, Prior]:
    out = list[BlockPrior]()
    for b in model.joint.blocks:
        prior = b.prior
        if isinstance(prior, ScaleMixture):
            prior = ScaleMixture(
                _normal(prior.base),
                Reference() if prior.tau.has_bounded_support else prior.tau,
            )
        out.append(
            replace(
                b, prior=prior if isinstance(prior, LatentPrior) else _normal(prior)
            )
        )
    return mapping_of(out, model.design.columns)


# ---- normal priors in place of others ----------------------------------------------------------------------------------


def proxy_prior(model: Model, spreads: Mapping[int, Any] | None = None) -> Any:
    """Normal priors of the same centre and scale in place of others: they shape coordinates, not the posterior. `spreads` are
    those of blocks with hyperparameters, or the plain priors themselves."""
    spreads = spreads or {}
    normal = [
        replace(b, prior=_normal(b.prior, spreads.get(i)))
        for i, b in enumerate(model.joint.blocks)
    ]
    return mapping_of(normal, model.design.columns)


def _normal(prior: Prior, spread: Any = None) -> Prior:
    if isinstance(spread, Prior):
        return spread
    if isinstance(prior, Flat | GaussianPrior | WholePrior):
        return prior
    if isinstance(prior, HierarchicalPrior):
        typical: Any = (
            spread
            if spread is not None
            else prior.spread(**dict.fromkeys(prior.hyper, 1.0))
        )
        return _normal(prior.base.times(typical))
    this: Any = prior
    factor = 1.0
    # Var(r) = Gamma(3/q) / Gamma(1/q) for p(r) proportional to exp(-|r|^q).
    if isinstance(
        prior, ExponentialPower
    ):  # its standard deviation, far from its scale where q is small
        factor = float(np.exp(0.5 * (gammaln(3.0 / prior.q) - gammaln(1.0 / prior.q))))
    scale: Any = np.asarray(this.scale) * factor
    return Normal(scale, location=this.location, sigma_units=this.sigma_units)

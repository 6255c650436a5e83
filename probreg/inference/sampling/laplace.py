"""The Laplace approximation: a normal at the mode with the curvature's covariance, auxiliary parameters included."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from probreg.arguments.scalars import Count, Positive, check_fields
from probreg.data.rows import minus_offset
from probreg.errors import Incompatible, ProbregError
from probreg.inference.base import (
    METHODS,
    Array,
    Draws,
    Method,
    Routine,
    Solution,
    Status,
    chains_of,
    edges,
    improper,
    kinds,
    sigma_note,
    times_root,
)
from probreg.inference.covariance import NoCovariance
from probreg.inference.modes.closed_form import undetermined
from probreg.inference.modes.newton import Mode, find_mode, solution_at
from probreg.inference.modes.wide import rotated
from probreg.inference.penalized.piecewise_linear import any_mode
from probreg.likelihoods import DifferentiableLikelihood, ProximalLikelihood, SmoothLikelihood
from probreg.model.model import Model
from probreg.priors import Flat, GaussianPrior, Prior, ProximalPrior, SmoothPrior
from probreg.system.terminal import percent

_APART = 1.0  # standard deviations between two modes
_FAR = 3.0  # standard deviations of a candidate from every mode that is known
_LOW = 30.0  # of a log posterior that a candidate may be below the first mode: Newton's method climbs from it
_NO_MASS = 14.0  # of a log: a mode with less than a millionth of the probability of another
_MOST = 4  # further modes
_SUBSETS = (
    30  # exact fits of a few rows: with half of the rows elsewhere and three columns four of them are of one kind
)
_CLOSER = 0.0, 1.5, 3.0  # of a log: rows of one kind have a smaller noise scale of their own


class Peak(NamedTuple):
    """The mode of the log posterior and its curvature, as the map z -> (vec beta, log aux) = centre + root z under which
    the curvature is the identity.

    `root` is the inverse of the upper Cholesky factor of the curvature on the raw columns, so that the same z means the
    same draw in whatever units the columns are, and about whatever zero.
    """

    found: Solution  # the mode with its covariance, which is dense
    centre: Array  # (p m + a,)
    root: Array  # (p m + a, p m + a)
    value: float = np.nan  # of the log posterior over (vec beta, log aux)

    @property
    def log_mass(self) -> float:
        """The log of the probability about this mode by Laplace's approximation, up to a constant that all modes share."""
        return self.value + self.log_det

    def seen_from(self, other: "Peak") -> tuple[Array, Array]:
        """Its centre and root in the coordinates z of another peak."""
        return np.linalg.solve(other.root, self.centre - other.centre), np.linalg.solve(other.root, self.root)

    @property
    def log_det(self) -> float:
        """log |d (vec beta, log aux) / d z|."""
        return float(np.linalg.slogdet(self.root)[1])

    def points(self, z: Array) -> tuple[Array, Array]:
        """beta (S, p, m) and log aux (S, a) at z (S, p m + a)."""
        # (vec beta, log aux) = centre + root z, with covariance root root' = H^-1.
        at, k = self.centre + times_root(z, self.root), self.found.beta.size
        return at[:, :k].reshape(-1, *self.found.beta.shape), at[:, k:]


def peak(model: Model, name: str, *, tol: float, max_steps: int) -> Peak:
    """The mode and its curvature, the expected one where the likelihood has kinks. Incompatible, in the name of a method, where there is none."""
    mode = any_mode(model, tol=tol, max_steps=max_steps)
    found = solution_at(model, mode)
    if found.status is not Status.CONVERGED:
        raise Incompatible(f"{name} has no mode to expand about: {found.status.value} ({found.detail})")
    return _peak_at(mode, found)


def _peak_at(mode: Mode, found: Solution) -> Peak:
    # z = root^-1 (theta - mode) has the curvature 1
    return Peak(found, np.concatenate([found.beta.ravel(), mode.log_aux]), found.scale.raw_root(), mode.local.value)


def peaks(model: Model, name: str, *, tol: float, max_steps: int) -> list[Peak]:
    """The mode that `peak` finds, and the others that Newton's method finds from candidates where there can be several.

    A candidate is tried where it is far from the modes found so far, and not so low that a mode there would have no mass.
    """
    first = peak(model, name, tol=tol, max_steps=max_steps)
    if further_modes(model) is None or not isinstance(model.likelihood, SmoothLikelihood) or not model.design.n:
        return [first]
    found, points = [first], _candidates(model, first)
    k = first.found.beta.size
    with np.errstate(all="ignore"):  # a far candidate overflows to no density
        beta, aux = points[:, :k].reshape(-1, *model.shape), dict(zip(model.unknown, np.exp(points[:, k:].T)))
        value = model.log_posterior(beta, **aux) + points[:, k:].sum(1)
    for i in np.argsort(-value)[: np.count_nonzero(value > first.value - _LOW)]:
        if len(found) > _MOST or any(
            np.linalg.norm(np.linalg.solve(p.root, points[i] - p.centre)) < _FAR for p in found
        ):
            continue
        try:
            start = tuple(map(tuple, beta[i].tolist()))
            mode = find_mode(model, tol=tol, max_steps=max_steps, start=start, log_aux=points[i, k:])
            if mode.status is not Status.CONVERGED:
                continue
            other = _peak_at(mode, solution_at(model, mode))
        except (ProbregError, np.linalg.LinAlgError):  # this candidate leads nowhere
            continue
        if all(np.linalg.norm(other.seen_from(p)[0]) > _APART for p in found):
            found.append(other)
    most = max(p.log_mass for p in found)
    return [first, *(p for p in found[1:] if p.log_mass > most - _NO_MASS)]


def _candidates(model: Model, first: Peak) -> Array:
    """Points (k, p m + a) from which another mode may be found: the centre of the prior, all at once and one coefficient after
    another, the maximum of the likelihood by one step of Newton's method, and of a noise scale the exact fits of as many rows as
    there are columns, with a smaller noise scale too."""
    k, at = first.found.beta.size, first.centre
    centre = np.zeros(model.shape)
    for b in model.joint.blocks:
        centre[list(b.columns)] = np.reshape(getattr(b.prior, "location", 0.0), (-1, 1))
    informed = np.repeat(model.joint.informative, model.shape[1])
    swaps = np.tile(at, (int(informed.sum()) + 2, 1))
    swaps[0, :k][informed] = centre.ravel()[informed]
    for row, j in enumerate(np.flatnonzero(informed)):
        swaps[row + 1, j] = centre.ravel()[j]
    if informed.any():
        aux = dict(zip(model.unknown, np.exp(at[k:]).tolist()))
        local = model.with_prior(Flat()).value_grad_hessian(at[:k].reshape(model.shape), **aux)
        swaps[-1, :k] += np.linalg.lstsq(local.curvature[:k, :k], local.gradient[:k], rcond=1e-10)[0]
    if model.likelihood.noise_scale is None:
        return swaps
    rng, design = np.random.default_rng(0), model.design
    y, size = minus_offset(design.observed, design.offset), min(design.n, model.shape[0])
    rows = [rng.choice(design.n, size, replace=False) for _ in range(_SUBSETS)]
    exact = np.stack([np.linalg.lstsq(np.asarray(design.X[r]), y[r], rcond=None)[0] for r in rows])
    scales = _CLOSER if model.unknown else _CLOSER[:1]
    parts = [np.hstack([exact, np.tile(at[k:] - less, (len(exact), 1))]) for less in scales]
    return np.vstack([swaps, *parts])


def notes_of_modes(model: Model, found: list[Peak]) -> tuple[str, ...]:
    """What a reader must know of several modes; nothing where the posterior can have one only."""
    told = further_modes(model)
    if told is None:
        return ()
    if len(found) == 1:
        return (f"{told}; the search for others found none",)
    mass = np.exp([p.log_mass - max(q.log_mass for q in found) for p in found])
    shares = ", ".join(percent(v, 2) for v in mass / mass.sum())
    return (
        f"the posterior has {len(found)} modes, with about {shares} of the probability; an estimate is the mean over all of them",
    )


def further_modes(model: Model) -> str | None:
    """What about one mode cannot be seen, in words: None where log p is concave in beta, given the nuisance parameters."""
    wide = [b.prior.name for b in model.joint.blocks if not _concave(b.prior)]
    causes = [f"the {name} prior" for name in dict.fromkeys(wide)]
    if not (isinstance(model.likelihood, DifferentiableLikelihood) and model.likelihood.concave):
        causes.insert(0, f"the {model.likelihood.name} likelihood")
    if not causes:
        return None
    return f"{' and '.join(causes)} can give a posterior more modes than one"


def _concave(prior: Prior) -> bool:
    return isinstance(prior, Flat | GaussianPrior) or (isinstance(prior, ProximalPrior) and prior.convex)


@METHODS.register
@dataclass(frozen=True)
class LaplaceApproximation(Method):
    """The normal q(beta, log aux) = N(mode, H^-1), H the negative Hessian of the log posterior at the mode.

    Draws are independent. Each carries log q, its density under the approximation as a density of (beta, aux). Beside
    it stands log p, the log posterior, from which importance weights follow. Exact when the log posterior is quadratic.
    It needs a mode that exists.

    Parameters
    ----------
    draws : int
        Draws of each chain.
    chains : int
        Number of chains, which here are independent draws dealt into groups.
    tol : float
        Of the mode, as in `Newton`.
    max_steps : int
        Of the search for the mode.

    References
    ----------
    Tierney & Kadane 1986; Gelman et al., BDA3, section 4.1.

    Examples
    --------
    >>> from probreg.likelihoods import Bernoulli
    >>> model = Model.from_arrays([0.0, 0.0, 0.0, 1.0, 1.0, 1.0], [0, 0, 1, 0, 1, 1], likelihood=Bernoulli())
    >>> LaplaceApproximation(draws=10).solve(model, np.random.default_rng(0)).draws["beta"].shape
    (4, 10, 2, 1)
    """

    draws: Count = 1000
    chains: Count = 4
    tol: Positive = 1e-7
    max_steps: Count = 100

    name = "laplace"
    likelihood = SmoothLikelihood
    prior = SmoothPrior
    target = "posterior"

    def __post_init__(self) -> None:
        check_fields(self)

    def obstacle(self, model: Model) -> str | None:
        if isinstance(model.likelihood, ProximalLikelihood):
            return (
                f"laplace needs second derivatives at the mode, which the {model.likelihood.name} likelihood does not have on its "
                "kinks: use importance or nuts"
            )
        return kinds(self, model) or edges(self, model) or improper(self, model) or undetermined(model, self.name)

    def solve(self, model: Model, rng: np.random.Generator) -> Solution:
        if model.design.n < model.shape[0] and (wide := rotated(model)) is not None:
            found, unit = self._solve(wide.tilted, rng)
            beta, log_w = wide.draws(found, unit if wide.relative else 1.0, rng)
            draws = found.posterior
            log_q = {"log_q": draws.stats["log_q"] + log_w}
            draws = replace(draws, values={**draws.values, "beta": beta}, stats=log_q, made_of=None)
            return replace(wide.back(found, unit if wide.relative else 1.0), draws=draws)
        return self._solve(model, rng)[0]

    def _solve(self, model: Model, rng: np.random.Generator) -> tuple[Solution, float]:
        """The draws, and sigma at the mode."""
        at = peak(model, self.name, tol=self.tol, max_steps=self.max_steps)
        found = at.found
        # log aux is normal under q, so aux is lognormal; the mode holds its centre and the sd on the log scale.
        variance = {a: (found.aux_sd[a] / v) ** 2 for a, v in found.aux.items()}
        # log aux ~ N(log v, s^2): E aux = v exp(s^2 / 2), sd aux = E aux (exp(s^2) - 1)^(1/2).
        mean_aux = {a: v * float(np.exp(variance[a] / 2)) for a, v in found.aux.items()}
        solution = replace(
            found,
            aux=mean_aux,
            aux_sd={a: v * float(np.sqrt(np.expm1(variance[a]))) for a, v in mean_aux.items()},
            draws=self.draws_again(model, found.beta, {"centre": at.centre, "root": at.root}, rng),
            notes=(
                *sigma_note(
                    model,
                    Routine("sigma is drawn with beta, lognormal with the joint curvature over (beta, log sigma)"),
                ),
                found.notes[-1],
            ),
        )
        return solution, model.likelihood.noise(found.aux, np.nan)

    def draws_again(
        self, model: Model, estimate: Array, made_of: Mapping[str, Array], rng: np.random.Generator
    ) -> Draws:
        """Draws of beta and aux with log q, from the centre (k,) and the root (k, k) of the normal of (vec beta, log aux)."""
        at = Peak(Solution(estimate, NoCovariance.of(*estimate.shape)), made_of["centre"], made_of["root"])
        z = rng.standard_normal((self.chains * self.draws, len(at.centre)))
        beta, log_aux = at.points(z)
        # q(theta) = N(z; 0, I) / |root|; a density of log aux is one of aux times 1 / aux.
        log_q = -0.5 * (z**2).sum(1) - 0.5 * z.shape[1] * np.log(2 * np.pi) - at.log_det
        log_q = log_q - log_aux.sum(1)  # from a density of log aux to one of aux
        aux = {a: chains_of(np.exp(log_aux[:, i]), self.chains) for i, a in enumerate(model.unknown)}
        values, stats = {"beta": chains_of(beta, self.chains)} | aux, {"log_q": chains_of(log_q, self.chains)}
        return Draws(values, stats, elliptical=True, made_of=made_of)

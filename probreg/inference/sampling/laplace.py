"""The Laplace approximation: a normal at the mode with the curvature's covariance, auxiliary parameters included."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from probreg.arguments.scalars import Count, Positive, check_fields
from probreg.inference.base import (
    METHODS,
    Draws,
    Method,
    Solution,
    Status,
    chains_of,
    edges,
    improper,
    kinds,
    sigma_note,
)
from probreg.inference.modes.closed_form import jeffreys_obstacle
from probreg.inference.modes.existence import multimodality_cause
from probreg.inference.modes.peaks import (
    SHARE,
    Peak,
    describe_modes,
    describe_place,
    find_peaks,
    log_density_at,
    probability_shares,
)
from probreg.inference.modes.wide import Tilted, rotated
from probreg.inference.notes import Topic, important_note, routine_note, without_topic
from probreg.likelihoods import ProximalLikelihood, SmoothLikelihood
from probreg.model.model import Model
from probreg.priors import SmoothPrior

_NOTED, _WARNED = (
    0.25,
    0.75,
)  # sd: a 95 % interval of a normal that is shifted so far covers 94 % and 88 %
# sd; of sigma the shift is about (coefficients + 1) times the sd of its log
_NEGLIGIBLE = 0.1
_STEPS = np.linspace(
    -4.0, 4.0, 9
)  # sd of log aux: the trapezoidal rule has the mean of a normal to all digits


def describe_shifts(shifts: Mapping[str, float], least: float) -> str:
    """The nuisance parameters with a marginal mean of the log that is so far from the joint mode; empty where all are near."""
    return "; ".join(
        f"log {name} is {abs(shift):.2g} sd {'below' if shift > 0 else 'above'} its posterior mean"
        if np.isfinite(shift)
        else f"the posterior of log {name} is far from normal"
        for name, shift in shifts.items()
        if not abs(shift) < least
    )


def marginal_shift(model: Model, at: Peak, i: int) -> float:
    """The mean of the marginal posterior of entry i, less the joint mode, in standard deviations of the normal at the mode; nan where
    the log posterior is not concave one standard deviation away.

    log p(theta_i | y) is log p at the mode of the other entries given theta_i, less half of the log determinant of their
    curvature (Tierney & Kadane 1986). The mode is taken along the regression of the others on theta_i, and the log
    determinant as a parabola through three points.
    """
    k = at.found.beta.size
    sd = float(np.linalg.norm(at.root[i]))
    if (k + 1) * sd < _NEGLIGIBLE:
        return 0.0
    direction = at.root @ at.root[i] / sd
    others = np.delete(np.arange(len(at.centre)), i)

    def log_det(step: float) -> float:
        point = at.centre + step * direction
        aux = dict(zip(model.unknown, np.exp(point[k:]).tolist()))
        curvature = model.value_grad_hessian(
            point[:k].reshape(model.shape), **aux
        ).curvature
        sign, value = np.linalg.slogdet(curvature[np.ix_(others, others)])
        return float(value) if sign > 0 else np.nan

    # |H without i| = |H| Var(theta_i), H the curvature over all entries
    low = log_det(-1.0)
    middle = 2.0 * (np.log(sd) - at.log_det)
    high = log_det(1.0)
    parabola = (
        middle
        + _STEPS * (high - low) / 2.0
        + _STEPS**2 * (high + low - 2.0 * middle) / 2.0
    )
    log_p = (
        log_density_at(model, at.centre + _STEPS[:, None] * direction) - parabola / 2.0
    )
    if isinstance(
        prior := model.aux_prior(model.unknown[i - k]), Tilted
    ):  # the integral over what no row sees
        log_p += prior.power * sd * _STEPS
    weight = np.exp(log_p - log_p.max())
    return float(weight @ _STEPS / weight.sum())


@METHODS.register
@dataclass(frozen=True)
class LaplaceApproximation(Method):
    """The normal q(beta, log aux) = N(mode, H^-1), H the negative Hessian of the log posterior at the mode.

    Draws are independent. Each carries log q, its density under the approximation as a density of (beta, aux). Beside
    it stands log p, the log posterior, from which importance weights follow. Exact when the log posterior is quadratic.
    The joint mode of a nuisance parameter does not count the degrees of freedom of the coefficients, and its normal has no skewness.
    A note reports if its mean is therefore a quarter of a standard deviation from that of the marginal posterior, and
    the status of the fit if it is three quarters.

    It needs a mode that exists. Of several modes it takes the one with the most probability; if another has more than one
    percent, that is the status of the fit.

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
        return (
            kinds(self, model)
            or edges(self, model)
            or improper(self, model)
            or jeffreys_obstacle(model, self.name)
        )

    def solve(self, model: Model, rng: np.random.Generator) -> Solution:
        if model.design.n < model.shape[0] and (wide := rotated(model)) is not None:
            found, unit = self._solve(wide.tilted, rng)
            beta, log_w = wide.draws(found, unit if wide.relative else 1.0, rng)
            draws = found.posterior
            log_q = {"log_q": draws.stats["log_q"] + log_w}
            draws = replace(draws, values={**draws.values, "beta": beta}, stats=log_q)
            return replace(
                wide.back(found, unit if wide.relative else 1.0), draws=draws
            )
        return self._solve(model, rng)[0]

    def _solve(self, model: Model, rng: np.random.Generator) -> tuple[Solution, float]:
        """The draws, and sigma at the mode."""
        about = find_peaks(model, self.name, tol=self.tol, max_steps=self.max_steps)
        shares = probability_shares(about)
        at = about[int(shares.argmax())]
        found = at.found
        others = [p for p, share in zip(about, shares) if p is not at and share > SHARE]
        status = found.status
        detail = ""
        if others:
            status = Status.ONE_OF_SEVERAL
            detail = "; ".join(
                f"another at {describe_place(model, p, at)}" for p in others
            )
        shifts = {
            name: marginal_shift(model, at, found.beta.size + i)
            for i, name in enumerate(model.unknown)
        }
        if not others and (far := describe_shifts(shifts, _WARNED)):
            status = Status.UNWEIGHED
            detail = far
        if status is found.status:
            noted = describe_shifts(shifts, _NOTED)
        else:
            noted = ""
        # log aux is normal under q, so aux is lognormal; the mode holds its centre and the sd on the log scale.
        variance = {a: (found.aux_sd[a] / v) ** 2 for a, v in found.aux.items()}
        # log aux ~ N(log v, s^2): E aux = v exp(s^2 / 2), sd aux = E aux (exp(s^2) - 1)^(1/2).
        mean_aux = {a: v * float(np.exp(variance[a] / 2)) for a, v in found.aux.items()}
        solution = replace(
            found,
            status=status,
            detail=detail,
            aux=mean_aux,
            aux_sd={
                a: v * float(np.sqrt(np.expm1(variance[a])))
                for a, v in mean_aux.items()
            },
            draws=self._draw(model, at, rng),
            notes=(
                *sigma_note(
                    model,
                    routine_note(
                        Topic.SIGMA,
                        "sigma is drawn with beta, lognormal with the joint curvature over (beta, log sigma)",
                    ),
                ),
                *without_topic(found.notes, Topic.SIGMA),
                *(
                    [
                        important_note(
                            Topic.SIGMA,
                            f"{noted}, and its interval is off by as much; posterior integrates over it",
                        )
                    ]
                    if noted
                    else []
                ),
                *(
                    [
                        important_note(
                            Topic.MODES,
                            describe_modes(
                                model,
                                about,
                                "the approximation is about the one with the most",
                            ),
                        )
                    ]
                    if multimodality_cause(model)
                    else []
                ),
            ),
        )
        return solution, model.likelihood.noise(found.aux, np.nan)

    def _draw(self, model: Model, at: Peak, rng: np.random.Generator) -> Draws:
        """Draw (vec beta, log aux) from the normal at the mode, with log q."""
        z = rng.standard_normal((self.chains * self.draws, len(at.centre)))
        beta, log_aux = at.points(z)
        # q(theta) = N(z; 0, I) / |root|; a density of log aux is one of aux times 1 / aux.
        log_q = -0.5 * (z**2).sum(1) - 0.5 * z.shape[1] * np.log(2 * np.pi) - at.log_det
        log_q = log_q - log_aux.sum(1)  # from a density of log aux to one of aux
        aux = {
            a: chains_of(np.exp(log_aux[:, i]), self.chains)
            for i, a in enumerate(model.unknown)
        }
        values = {"beta": chains_of(beta, self.chains)} | aux
        stats = {"log_q": chains_of(log_q, self.chains)}
        return Draws(values, stats, elliptical=True)

"""The Laplace approximation: a normal at the mode with the covariance from the curvature, including auxiliary parameters.

Sandwich-corrected intervals of a posterior under a working density (Yang, Wang & He
2016).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator

from probreg.arguments.scalars import Count, Positive
from probreg.inference.base import (
    METHODS,
    Array,
    Draws,
    Method,
    Solution,
    Status,
    chains_of,
    sigma_note,
    split_parameters,
)
from probreg.inference.modes.closed_form import search_obstacle
from probreg.inference.modes.peaks import (
    SHARE,
    Peak,
    describe_place,
    find_peaks,
    log_density_at,
    notes_of_modes,
    probability_shares,
)
from probreg.inference.modes.wide import Tilted, rotate_to_rows
from probreg.inference.status import Topic, important_note, routine_note, without_topic
from probreg.likelihoods import ProximalLikelihood, SmoothLikelihood
from probreg.model.model import Model
from probreg.priors import SmoothPrior
from probreg.special import student_log_density
from probreg.system.terminal import shorten_names


def describe_shifts(shifts: Mapping[str, float], smallest: float) -> str:
    """Describe nuisance parameters with a marginal mean of the log far from the joint
    mode; empty if there are none."""
    reasons = []
    for name, shift in shifts.items():
        if not np.isfinite(shift):
            reasons.append(f"the posterior of log {name} is far from normal")
        elif abs(shift) >= smallest:
            side = "below" if shift > 0 else "above"
            reasons.append(
                f"log {name} is {abs(shift):.2g} sd {side} its posterior mean"
            )
    return "; ".join(reasons)


def marginal_shift(model: Model, peak: Peak, i: int) -> float:
    """Return the marginal posterior mean of entry i minus the joint mode, in standard
    deviations of the normal at the mode.

    nan if the log posterior is not concave one standard deviation away.

    log p(theta_i | y) is log p at the mode of the other entries given theta_i, minus
    half of the log determinant of their curvature (Tierney & Kadane 1986). The mode is
    approximated by the regression of the others on theta_i, and the log determinant by
    a parabola through three points.
    """
    # sd of log aux: the trapezoidal rule is exact for the mean of a normal
    steps = np.linspace(-4.0, 4.0, 9)
    k = peak.found.beta.size
    sd = float(np.linalg.norm(peak.root[i]))
    # sd; the shift of sigma is about (coefficients + 1) times the sd of its log
    if (k + 1) * sd < 0.1:
        return 0.0
    direction = peak.root @ peak.root[i] / sd
    other_entries = np.delete(np.arange(len(peak.centre)), i)

    def log_det(step: float) -> float:
        point = peak.centre + step * direction
        beta, aux = split_parameters(model, point)
        curvature = model.value_grad_hessian(beta, **aux).curvature
        sign, value = np.linalg.slogdet(curvature[np.ix_(other_entries, other_entries)])
        return float(value) if sign > 0 else np.nan

    # |H without i| = |H| Var(theta_i), H the curvature over all entries
    low = log_det(-1.0)
    middle = 2.0 * (np.log(sd) - peak.log_det)
    high = log_det(1.0)
    parabola = (
        middle
        + steps * (high - low) / 2.0
        + steps**2 * (high + low - 2.0 * middle) / 2.0
    )
    log_p = (
        log_density_at(model, peak.centre + steps[:, None] * direction) - parabola / 2.0
    )
    # the integral over unseen coefficients
    if isinstance(prior := model.aux_prior(model.unknown[i - k]), Tilted):
        log_p += prior.power * sd * steps
    weight = np.exp(log_p - log_p.max())
    return float(weight @ steps / weight.sum())


@METHODS.register
@dataclass(frozen=True)
class LaplaceApproximation(Method):
    """The normal q(beta, log aux) = N(mode, H^-1), H the negative Hessian of the log posterior at the mode.

    Draws are independent. Each has log q, its density under the approximation as a
    density of (beta, aux), and log p, the log posterior, which give importance weights.
    Exact if the log posterior is quadratic. The joint mode of a nuisance parameter
    ignores the degrees of freedom of the coefficients, and its normal has no skewness.
    A note reports if the marginal posterior mean is therefore a quarter of a standard
    deviation away, and the status of the fit if it is three quarters.

    It needs a mode. If there are several, it uses the mode with the most probability; if
    another has more than one percent, the status of the fit reports it.

    Parameters
    ----------
    draws : int
        Draws of each chain.
    chains : int
        Number of chains, here groups of independent draws.
    tol : float
        Tolerance of the mode, as in `Newton`.
    max_steps : int
        Maximum number of steps of the search for the mode.

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

    def obstacle(self, model: Model) -> str | None:
        if isinstance(model.likelihood, ProximalLikelihood):
            return (
                f"laplace needs second derivatives at the mode, and {model.likelihood.named} likelihood has kinks without them: "
                "use importance or nuts"
            )
        return search_obstacle(self, model)

    def solve(self, model: Model, rng: Generator) -> Solution:
        wide = rotate_to_rows(model)
        if wide is not None:
            solution, sigma = self._solve(wide.tilted_model, rng)
            unit = wide.unit(sigma)
            beta, log_w = wide.draws(solution, unit, rng)
            draws = solution.posterior
            log_q = {"log_q": draws.stats["log_q"] + log_w}
            draws = replace(draws, values={**draws.values, "beta": beta}, stats=log_q)
            return replace(wide.back(solution, unit), draws=draws)
        return self._solve(model, rng)[0]

    def _solve(self, model: Model, rng: Generator) -> tuple[Solution, float]:
        """Return the draws, and sigma at the mode."""
        peaks = find_peaks(model, self.name, tol=self.tol, max_steps=self.max_steps)
        shares = probability_shares(peaks)
        peak = peaks[int(shares.argmax())]
        mode = peak.found
        other_peaks = [
            p for p, share in zip(peaks, shares) if p is not peak and share > SHARE
        ]
        status = mode.status
        detail = ""
        if other_peaks:
            status = Status.ONE_OF_SEVERAL
            detail = "; ".join(
                f"another at {describe_place(model, p, peak)}" for p in other_peaks
            )
        shifts = {
            name: marginal_shift(model, peak, mode.beta.size + i)
            for i, name in enumerate(model.unknown)
        }
        # sd: a 95 % interval of a normal shifted by a quarter covers 94 %, by three
        # quarters 88 %
        shift_note = describe_shifts(shifts, 0.25)
        far_shifts = describe_shifts(shifts, 0.75)
        if far_shifts and not other_peaks:
            status = Status.UNWEIGHED
            detail = far_shifts
        shift_notes = []
        if shift_note and status is mode.status:
            shift_notes = [
                important_note(
                    Topic.SIGMA,
                    f"{shift_note}, so its interval is shifted by the same amount; posterior integrates over it",
                )
            ]
        # log aux ~ N(log v, s^2): E aux = v exp(s^2 / 2), sd aux = E aux (exp(s^2) - 1)^(1/2).
        variance = np.square(mode.scale.errors()[mode.beta.size :])
        mean_aux = {
            a: v * float(np.exp(s / 2)) for (a, v), s in zip(mode.aux.items(), variance)
        }
        aux_sd = {
            a: v * float(np.sqrt(np.expm1(s)))
            for (a, v), s in zip(mean_aux.items(), variance)
        }
        solution = replace(
            mode,
            status=status,
            detail=detail,
            aux=mean_aux,
            draws=replace(self._draw(model, peak, rng), aux_sd=aux_sd),
            notes=(
                *sigma_note(
                    model,
                    routine_note(
                        Topic.SIGMA,
                        "sigma is drawn with beta, lognormal with the joint curvature over (beta, log sigma)",
                    ),
                ),
                *without_topic(mode.notes, Topic.SIGMA),
                *shift_notes,
                *notes_of_modes(
                    model,
                    peaks,
                    "the approximation is about the mode with the most probability",
                ),
            ),
        )
        return solution, model.likelihood.noise(mode.aux, np.nan)

    def _draw(self, model: Model, peak: Peak, rng: Generator) -> Draws:
        """Draw (vec beta, log aux) from the normal at the mode, with log q."""
        z = rng.standard_normal((self.chains * self.draws, len(peak.centre)))
        theta = peak.at(z)
        beta, aux = split_parameters(model, theta)
        # q(theta) = N(z; 0, I) / |root|; a density of log aux is one of aux times 1 / aux.
        log_q = student_log_density((z**2).sum(1), z.shape[1], np.inf) - peak.log_det
        log_q = log_q - theta[:, model.n_coefficients :].sum(1)
        values = {
            name: chains_of(v, self.chains) for name, v in {"beta": beta, **aux}.items()
        }
        stats = {"log_q": chains_of(log_q, self.chains)}
        return Draws(values, stats, elliptical=True)


def with_corrected_intervals(model: Model, solution: Solution) -> Solution:
    """Return the posterior with a note on its working density and sandwich-corrected
    intervals, if the likelihood is one."""
    likelihood = model.likelihood
    if (
        not isinstance(likelihood, ProximalLikelihood)
        or not likelihood.working
        or not model.design.n
    ):
        return solution
    sd = np.sqrt(sandwich_of_posterior(model, solution))
    beta = solution.beta[:, 0]
    z = 1.959963984540054  # the 97.5 % quantile of the normal distribution
    intervals = [
        f"{c} {b - z * s:.4g} to {b + z * s:.4g}"
        for c, b, s in zip(model.design.columns, beta, sd)
    ]
    return replace(solution, notes=(
        *solution.notes,
        important_note(
            Topic.LIKELIHOOD,
            f"{likelihood.named} likelihood is a working density, so the posterior is not calibrated for the response",
        ),
        important_note(
            Topic.STANDARD_ERRORS,
            f"sandwich-corrected 95 % intervals: {shorten_names(intervals, 6)}",
        ),
    ))  # fmt: skip


def sandwich_of_posterior(model: Model, solution: Solution) -> Array:
    """Return (p,) variances of V M V, V the posterior covariance of the coefficients
    and M the sum of squares of the rows' scores."""
    design = model.design
    likelihood = model.likelihood
    assert isinstance(likelihood, ProximalLikelihood)
    values = likelihood.at_rows({**model.fixed, **solution.aux}, design.precision)
    score = likelihood.score(design.observed, model.eta(solution.beta), **values)[:, 0]
    # M = sum_i w_i u_i^2 x_i x_i', u_i = d log p / d eta_i
    V = solution.covariance
    w = design.row_weights
    # V M V = (V X'D) (V X'D)', D = diag(w^(1/2) u)
    root = (
        V.raw_root()[: V.coefficients]
        @ V.half(design.X * (np.sqrt(w) * score)[:, None]).T
    )
    return np.square(root).sum(1)

"""The Gaussian posterior in closed form: Normal-Inverse-Gamma, its flat limit, and its evidence; and the posterior of any fit as a prior."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln

from probreg.arguments.scalars import Count
from probreg.errors import DataError, Incompatible
from probreg.inference.base import (
    METHODS,
    Array,
    Draws,
    Method,
    Solution,
    chains_of,
    sigma_note,
    times_root,
)
from probreg.inference.covariance import ParameterCovariance
from probreg.inference.modes.closed_form import (
    PriorRows,
    refine_posterior,
    require_full_rank,
    unscaled_covariance,
)
from probreg.inference.modes.wide import Rotated, rotate_to_rows
from probreg.inference.obstacles import VANISHING_NOISE, unsupported_kinds
from probreg.inference.status import Topic, routine_note
from probreg.likelihoods import Gaussian
from probreg.model.model import Model
from probreg.priors import (
    AuxPrior,
    GaussianPrior,
    InverseGamma,
    LogNormal,
    MultivariateNormal,
    Normal,
    Prior,
    Reference,
    Uniform,
)
from probreg.priors.joint import Key


@METHODS.register
@dataclass(frozen=True)
class Conjugate(Method):
    """The exact posterior beta | sigma ~ N(m, sigma^2 V), sigma^2 ~ InvGamma(a, b), with its log evidence.

    V = (X'X + P)^-1 and m = V (P b0 + X'y), a = a0 + (n + q - p)/2, b = b0 + (least penalised RSS)/2, where q columns
    have a proper prior. So beta_j is Student-t on 2a degrees of freedom with scale^2
    (b/a) V_jj. It needs a fixed sigma, or p(sigma) ∝ 1/sigma (with flat priors this
    gives the classical t interval), p(sigma) ∝ 1, or InverseGamma on sigma^2; normal
    priors are then in units of sigma.

    Parameters
    ----------
    draws : int
        Draws of each chain.
    chains : int
        Number of chains, here groups of independent draws.

    References
    ----------
    O'Hagan & Forster 2004, chapter 11.

    Examples
    --------
    >>> from probreg.model.model import Model
    >>> model = Model.from_arrays(np.ones((5, 1)), np.arange(5.0), intercept=False)
    >>> found = Conjugate(draws=1).solve(model, np.random.default_rng(0))
    >>> found.beta.round(12), found.scale.matrix().round(12), found.df  # mean, s^2 / n, n - 1
    (array([[2.]]), array([[0.5]]), 4.0)
    """

    draws: Count = 1000
    chains: Count = 4

    name = "conjugate"
    likelihood = Gaussian
    prior = GaussianPrior
    target = "posterior"

    def obstacle(self, model: Model) -> str | None:
        reason = unsupported_kinds(self, model)
        if reason:
            return reason
        if not model.unknown:
            return None
        if not model.mode_free_of_sigma:
            return "conjugate with unknown sigma needs normal priors in units of sigma (Normal(..., sigma_units=True)). For other priors use quadrature, which is exact too"
        if _inverse_gamma(model.noise_prior) is None:
            return f"conjugate needs a fixed sigma or a reference, uniform or inverse_gamma prior, and this model has {model.noise_prior.name}; use quadrature"
        return None

    def solve(self, model: Model, rng: np.random.Generator) -> Solution:
        # relative to y'y: a residual sum of squares this small is rounding of y
        rounding = (2 * np.finfo(float).eps) ** 2
        wide = rotate_to_rows(model)
        if wide is not None:
            return self._solve_wide(wide, rng)
        moments = model.design.moments
        prior = PriorRows.of(model.joint)
        sigma_held = model.noise()
        given = refine_posterior(model, prior, sigma_held)
        require_full_rank(given, model, self.name)
        power = moments.weight + prior.size - moments.p
        # log p(y | sigma) is this - power log sigma - RSS_P / (2 sigma^2)
        log_evidence = (
            0.5 * moments.log_precision
            - 0.5 * power * np.log(2 * np.pi)
            + prior.log_det(sigma_held)
            - given.log_det_R
        )
        stats = {"n": moments.weight, "rss": moments.rss}
        aux = dict[str, float]()
        aux_sd = dict[str, float]()
        df = note = None
        proper = bool(model.joint.informative.all())
        z = rng.standard_normal((self.chains * self.draws, moments.p))
        if not model.unknown:
            square = sigma_held**2
            sigma = np.full(len(z), sigma_held)
            log_evidence -= power * np.log(sigma_held) + given.rss / (2 * square)
        else:
            prior_of_sigma = _inverse_gamma(model.noise_prior)
            assert prior_of_sigma is not None  # checked in `obstacle`
            a0, b0 = prior_of_sigma
            # sigma^2 | y ~ InvGamma(a0 + (n + q - p)/2, b0 + RSS_P/2), RSS_P = min_beta |y - X beta|^2 + (beta - b)'P(beta
            # - b); a flat column takes one degree of freedom, a proper one none (O'Hagan & Forster 2004, chapter 11).
            a = a0 + power / 2
            b = b0 + given.rss / 2
            # the columns do not reproduce the response (see `improper_noise`), but with the location of their prior they may
            if b <= rounding * float(np.square(moments.factor[:, -1]).sum()):
                raise Incompatible(
                    f"conjugate: the posterior is improper. The locations of the priors reproduce the response exactly, "
                    f"{VANISHING_NOISE.format(model.noise_scale)}"
                )
            square = float(b / a)
            # sigma^2 = b / G with G ~ Gamma(a, 1).
            sigma = np.sqrt(b / rng.gamma(a, 1.0, len(z)))
            # beta_j - m_j = (b/a V_jj)^(1/2) t with t Student-t on 2 a degrees of freedom.
            df = 2 * a
            mean, sd = _moments_of_sigma(a, b)
            aux[model.noise_scale], aux_sd[model.noise_scale] = mean, sd
            stats["sigma2_scale"] = square
            if not prior.size and given.exact is not None:
                stats["rss"] = given.rss
            proper = proper and model.noise_prior.proper
            if proper:
                log_evidence += a0 * np.log(b0) - gammaln(a0) + gammaln(a)
                log_evidence -= a * np.log(b)
            note = routine_note(
                Topic.SIGMA,
                "sigma^2 ~ InverseGamma({a:.6g}, {b:.6g}) exactly, integrated out of the intervals of beta",
                a=a,
                b=b,
            )
        if proper:
            stats["log_evidence"] = float(log_evidence)
        # beta | sigma = m + sigma R^-1 z, cov = sigma^2 (R'R)^-1.
        root = np.asarray(given.root, dtype=float)
        beta = given.mean + sigma[:, None] * times_root(z, root)
        values = {"beta": chains_of(beta[..., None], self.chains)}
        values |= {name: chains_of(sigma, self.chains) for name in model.unknown}
        return Solution(
            beta=given.mean[:, None],
            scale=unscaled_covariance(given, model.design).scale_by(square),
            aux=aux,
            df=df,
            draws=Draws(values, elliptical=True, aux_sd=aux_sd),
            stats=stats,
            notes=sigma_note(model, note),
        )

    def _solve_wide(self, wide: Rotated, rng: np.random.Generator) -> Solution:
        """Return the posterior of a model with more columns than rows."""
        solution = self.solve(wide.model, rng)
        draws = solution.posterior
        unit = 1.0
        sigma: Any = 1.0
        if wide.relative:
            unit = solution.stats["sigma2_scale"] ** 0.5
            sigma = draws[wide.model.noise_scale]
        values = {**draws.values, "beta": wide.draws(solution, sigma, rng)[0]}
        return replace(wide.back(solution, unit), draws=replace(draws, values=values))


def _inverse_gamma(prior: AuxPrior) -> tuple[float, float] | None:
    """(a0, b0) with p(sigma) d sigma ∝ (sigma^2)^(-a0-1) exp(-b0/sigma^2) d sigma^2."""
    if isinstance(prior, InverseGamma):
        return prior.shape, prior.scale
    if isinstance(prior, Reference):
        return 0.0, 0.0
    if isinstance(prior, Uniform) and prior.low == 0 and not prior.proper:
        return -0.5, 0.0
    return None


def _moments_of_sigma(a: float, b: float) -> tuple[float, float]:
    """Mean and sd of sigma if sigma^2 ~ InvGamma(a, b); the mean needs a > 1/2, the sd a > 1."""
    # E[sigma] = b^(1/2) Gamma(a - 1/2) / Gamma(a), E[sigma^2] = b / (a - 1).
    mean = sd = np.inf
    if a > 0.5:
        mean = float(np.sqrt(b) * np.exp(gammaln(a - 0.5) - gammaln(a)))
    if a > 1:
        sd = float(np.sqrt(b / (a - 1) - mean**2))
    return mean, sd


class PosteriorAsPrior(NamedTuple):
    """A posterior written as priors, with a note on the conversion."""

    prior: Prior | dict[Key, Prior]
    aux: dict[str, float | AuxPrior]
    note: str

    def updated_model(self, before: Model, larger: Model) -> Model:
        """Return a model of new rows with these priors. DataError if its columns or its likelihood differ."""
        if (larger.design.columns, larger.likelihood) != (
            before.design.columns,
            before.likelihood,
        ):
            raise DataError(
                "an update needs a model of the same columns and the same likelihood, levels included"
            )
        kind_before = before.design.weight_kind
        kind_now = larger.design.weight_kind
        if kind_before != kind_now:
            raise DataError(
                f"an update needs weights of one kind: {kind_before} before and {kind_now} now (rows without weights are frequencies). "
                "Give both sets of rows the same kind"
            )
        return replace(larger, prior=self.prior, aux=self.aux)


def posterior_as_prior(
    model: Model, method: Method, solution: Solution
) -> PosteriorAsPrior:
    """Return the posterior of a fit as a prior.

    Exact for `conjugate` (a normal in units of sigma, an inverse gamma of sigma^2); for
    draws a normal with their mean and covariance, and an independent lognormal sigma.
    Incompatible for a mode.
    """
    if method.target != "posterior":
        raise Incompatible(
            f"{method.name} gives a point estimate, which is not a posterior: fit with conjugate, laplace or nuts and update that fit"
        )
    model.design.need_columns_elsewhere("an update by other rows")
    if solution.draws is not None and (unknown := _unknown_groups(model)):
        raise Incompatible(
            f"an update would lose the standard deviations of {', '.join(unknown)}, which a normal prior of the coefficients cannot represent: "
            "fit all rows together"
        )
    aux: dict[str, float | AuxPrior] = dict(model.fixed)
    if isinstance(method, Conjugate):
        scale = solution.scale
        shape = "with fixed sigma"
        if model.unknown:
            # sigma^2 | y ~ InvGamma(a, b) with 2 a = df and b = a (b/a); beta | sigma, y ~ N(m, sigma^2 V), V = scale / (b/a).
            assert solution.df is not None  # Student-t marginals
            a = solution.df / 2.0
            square = solution.stats["sigma2_scale"]
            aux[model.noise_scale] = InverseGamma(a, a * square)
            scale = scale.scale_by(1.0 / square)
            shape = "times inverse gamma"
        return PosteriorAsPrior(
            _normal(
                model,
                solution.beta,
                scale.precision(),
                sigma_units=bool(model.unknown),
            ),
            aux,
            f"the posterior before is the prior here, exactly: normal {shape}",
        )
    P = _covariance(solution).precision()
    for name in model.unknown:
        log_v = np.log(solution.posterior[name])
        aux[name] = LogNormal(float(log_v.std()), location=float(log_v.mean()))
    others = ""
    if model.unknown:
        others = f", {', '.join(model.unknown)} lognormal and independent of it"
    hyper = solution.posterior.hyper
    if hyper:
        others += f"; {', '.join(hyper)} is in its covariance and not carried on"
    return PosteriorAsPrior(
        _normal(model, solution.beta, P),
        aux,
        f"the posterior before ({method.name}) is the prior here approximately: normal with its mean and covariance{others}",
    )


def _unknown_groups(model: Model) -> list[str]:
    """Return the terms of effects that vary by a group with unknown hyperparameters."""
    return [
        term.key
        for b, _ in model.joint.hierarchical
        if (term := model.design.grouped_of(b.columns)) is not None
    ]


def _covariance(solution: Solution) -> ParameterCovariance:
    df = solution.df
    if df is not None and df <= 2:
        raise DataError(
            f"this posterior has {df:g} degrees of freedom and no covariance, so it cannot become a prior"
        )
    return solution.covariance


def _normal(
    model: Model, mean: Array, P: Array, *, sigma_units: bool = False
) -> Prior | dict[Key, Prior]:
    """Return one normal prior of every column, including the intercept."""
    if model.shape[1] > 1 or model.likelihood.outcomes:
        return MultivariateNormal(
            tuple(map(tuple, mean.tolist())), precision=tuple(map(tuple, P.tolist()))
        )
    location = tuple(mean[:, 0].tolist())
    prior = Normal(
        location=location,
        precision_matrix=tuple(map(tuple, P.tolist())),
        sigma_units=sigma_units,
    )
    return {tuple(model.design.columns): prior}

"""One rung: a method that is run and timed, with the moments it reports and what its Monte Carlo error is."""

import time
import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from probreg.errors import ProbregError, ProbregWarning
from probreg.fits.fit import Fit, fit
from probreg.fits.inference_data import reported_coefficients
from probreg.inference import NUTS, Conjugate, Importance, LaplaceApproximation, Method, Quadrature, Status
from probreg.inference.base import markov
from probreg.model.model import Model

Array = np.ndarray
EXACT = ("conjugate", "quadrature")


class PosteriorMoments(NamedTuple):
    """Of the reported coefficients, column first, then outcome, and of the nuisance parameters."""

    mean: Array  # (k,)
    sd: Array  # (k,)
    mean_error: Array  # (k,) Monte Carlo standard errors of the means
    sd_error: Array  # (k,) those of the standard deviations, in proportion


@dataclass(frozen=True, eq=False)
class Rung:
    """A method's answer: no fit and no moments where it refused, and `status` says why."""

    method: Method
    status: str
    fit: Fit | None = None
    moments: PosteriorMoments | None = None
    seconds: float = np.nan
    k_hat: float = np.nan
    ess: float = np.nan

    @property
    def name(self) -> str:
        return self.method.name

    @property
    def good(self) -> bool:
        """It ended well, by its own word."""
        return self.fit is not None and self.fit.solution.status.good

    @property
    def refused(self) -> bool:
        """There is no answer, or one that importance sampling gives only because an audit asks to see it."""
        return self.fit is None or self.fit.solution.status is Status.UNSETTLED


def methods(model: Model, draws: int, chains: int) -> list[Method]:
    """The rungs, cheapest first: of the exact methods the first that applies, or else both with their reasons."""
    exact: list[Method] = [k for k in (Conjugate(draws, chains), Quadrature(draws, chains)) if not k.obstacle(model)]
    rest = [LaplaceApproximation(draws, chains), Importance(draws, chains, max_k=np.inf), NUTS(draws, chains=chains)]
    return [*exact[:1], *rest]


def run_rung(model: Model, method: Method, seed: int) -> Rung:
    """The method on the model, timed; a refusal is an answer."""
    start = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ProbregWarning)  # the status says it
            made = fit(model, method, seed=seed)
    except (ProbregError, np.linalg.LinAlgError) as error:
        return Rung(method, _reason(str(error)), seconds=time.perf_counter() - start)
    seconds = time.perf_counter() - start
    k_hat, ess = _worth(made, seed)
    return Rung(method, made.described["status"], made, _moments(made), seconds, k_hat, ess)


def _reason(message: str) -> str:
    """Without the list of methods that would do, which are the other rungs."""
    return message.split(" These can fit this model")[0].removesuffix(".")


def _worth(made: Fit, seed: int) -> tuple[float, float]:
    """k-hat, where there are weights, and the draws of the posterior that these are worth: of a chain the least effective
    sample size of any parameter, bulk or tail."""
    method, stats = made.method, made.solution.stats
    if isinstance(method, LaplaceApproximation):  # its draws as those of importance sampling
        as_proposal = Importance(method.draws, method.chains, df=np.inf, max_k=np.inf)
        found = as_proposal.weigh(made.model, np.random.default_rng(seed))
        return found.k_hat, found.ess * method.draws / as_proposal.points
    if isinstance(method, Importance):
        return stats["k_hat"], stats["ess"] * method.draws / method.points
    if method.name in EXACT:
        return np.nan, float(made.solution.posterior.count)
    from arviz_stats.base import array_stats

    each = np.moveaxis(_draws(made), -1, 0)
    tails = [array_stats.ess(v, method="tail", prob=(0.05, 0.95)) for v in each]
    return np.nan, float(min(*tails, *(array_stats.ess(v, method="bulk") for v in each)))


def _draws(made: Fit) -> Array:
    """(chain, draw, k) of the reported coefficients and nuisance parameters."""
    draws = made.solution.posterior
    beta = reported_coefficients(made.model, draws["beta"])
    flat = beta.reshape(*beta.shape[:2], -1)
    return np.concatenate([flat, *(draws[a][..., None] for a in made.model.unknown)], -1)


def _moments(made: Fit) -> PosteriorMoments:
    s, unknown = made.solution, made.model.unknown
    mean = np.append(made.coef.values.ravel(), [s.aux[a] for a in unknown])
    sd = np.append(made.std_error.values.ravel(), [s.aux_sd[a] for a in unknown])
    none = np.zeros_like(mean)
    if isinstance(made.method, Importance):
        return PosteriorMoments(mean, sd, s.stats["mcse_mean"] * sd, none + s.stats["mcse_sd"])
    if not markov(made.method, made.solution):  # moments by a formula
        return PosteriorMoments(mean, sd, none, none)
    from arviz_stats.base import array_stats

    each = np.moveaxis(_draws(made), -1, 0)
    of_mean, of_sd = (np.array([float(array_stats.mcse(v, method=m)) for v in each]) for m in ("mean", "sd"))
    return PosteriorMoments(mean, sd, of_mean, of_sd / sd)


def parameter_names_of(model: Model) -> list[str]:
    """The parameters that rungs are compared by."""
    outcomes = model.likelihood.outcomes
    columns = model.design.head_columns
    return [*([f"{c}: {o}" for c in columns for o in outcomes] if outcomes else columns), *model.unknown]

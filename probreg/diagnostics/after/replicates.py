"""Null distribution of a statistic of a fit: data drawn from the fitted model, the fit repeated in one step.

In the coordinates phi of `local.py`, in which the curvature of the log posterior is I at the estimate, a replicate and its
estimate are

    y* ~ p(y | eta_0, aux),    phi* = sum_i Z_i' s_i(y*, eta_0) + grad log prior,    eta* = eta_0 + Z phi*,

one step of Fisher scoring from the fit, which is as good as the estimate itself to first order (Lehmann & Casella 1998,
section 6.4); for a Gaussian it is the estimate. Nuisance parameters are fixed. A p-value is the share of replicates with
a statistic at least as large as in the data (Davison & Hinkley 1997, section 4.2).
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from probreg.diagnostics.after.base import require_counts
from probreg.diagnostics.after.local import Local, local
from probreg.diagnostics.findings import HypothesisTest, NotApplicable
from probreg.fits.fit import Fit
from probreg.fits.inference_data import observation_rows
from probreg.fits.residuals import canonical_order

Array = np.ndarray
StatisticOfDataSets = Callable[[Local], Array]  # of S data sets, (S,)
FEW = 500  # observations up to which null distributions are drawn; with more the asymptotic ones apply
# after so many data sets (the data among them), enough exceed the statistic
_LOOKS = ((200, 20), (2000, 20), (5000, 0))
LEAST = 1.0 / _LOOKS[-1][0]  # the smallest share that draws can resolve
_AT_ONCE = 2_000_000  # numbers of one block of replicates


def with_simulated_p(
    fit: Fit,
    test: HypothesisTest,
    statistic: StatisticOfDataSets,
    *,
    ordered: bool = False,
) -> HypothesisTest:
    """Return the test with a simulated p-value if there are few observations; p-values below 1 in 5,000 stay asymptotic."""
    p = simulated_p_value(fit, statistic, test.p_value, ordered=ordered)
    if p is None:
        return test._replace(how=", asymptotic")
    how = ", simulated" if p >= LEAST else ", asymptotic"
    return test._replace(p_value=p, how=how)


def simulated_p_value(
    fit: Fit,
    statistic: StatisticOfDataSets,
    beyond: float = 1.0,
    *,
    ordered: bool = False,
) -> float | None:
    """P(T* >= T) for the statistic T of the data and T* of data drawn from the fitted model, by the seed of the fit.

    None for more than 500 observations, and if they cannot be counted one by one.

    Drawing stops early if the probability is clearly not small. If no data set reaches T, the result is the
    smaller of one in their number and `beyond`, the asymptotic p-value. `ordered`: the statistic depends on the order of
    rows; otherwise the result does not depend on it.
    """
    design = fit.model.design
    if design.weight_kind == "sampling" or design.total * fit.model.shape[1] > FEW:
        return None
    try:
        require_counts(fit, 1)
        pieces = fit.once(local)
    except NotApplicable:
        return None
    rows = observation_rows(fit.model)[0]
    if not ordered:
        rows = rows[canonical_order(design.take(rows))]
    observed = take_observations(pieces, rows)
    rng = np.random.default_rng([fit.seed, 5])
    observed_statistic = statistic(observed)[0]
    over = 1
    done = 1
    for target, enough in _LOOKS:
        for replicates in draw_replicates(fit, observed, rng, target - done):
            simulated = statistic(replicates)
            over += int((~(simulated < observed_statistic * (1 - 1e-9))).sum())
        done = target
        if over >= enough:
            break
    if over == 1:
        return min(1.0 / done, beyond)
    return over / done


def take_observations(pieces: Local, rows: Array) -> Local:
    """Return the observed data as one data set of the observations in these rows."""
    aux = {k: v[rows] if np.ndim(v) else v for k, v in pieces.aux.items()}
    return replace(
        pieces,
        aux=aux,
        y=pieces.y[:, rows],
        eta=pieces.eta[:, rows],
        score=pieces.score[:, rows],
        W=pieces.W[:, rows],
        Z=pieces.Z[rows],
        w=np.ones(len(rows)),
    )


def draw_replicates(
    fit: Fit, observed: Local, rng: np.random.Generator, count: int
) -> Iterator[Local]:
    """Yield blocks of data sets drawn from the model at its estimates."""
    n, m, k = observed.Z.shape
    likelihood = observed.likelihood
    # the gradient of the log prior over phi at the estimate
    beta = fit.solution.beta
    joint = fit.model.joint
    precision = joint.precision_of_entries(fit.model.shape[1], fit.model.noise(fit.aux))
    slope = -precision @ (beta - joint.center[:, None]).ravel()
    prior = np.einsum("pmk,pm->k", observed.back, slope.reshape(beta.shape))
    step = max(1, _AT_ONCE // (n * m * max(k, 4)))
    for start in range(0, count, step):
        eta = np.broadcast_to(observed.eta, (min(step, count - start), n, m))
        y = likelihood.sample(rng, eta, **observed.aux)
        score = likelihood.score(y, eta, **observed.aux)
        phi = np.einsum("nak,sna->sk", observed.Z, score, optimize=True) + prior
        eta = eta + np.einsum("nak,sk->sna", observed.Z, phi, optimize=True)
        score = likelihood.score(y, eta, **observed.aux)
        W = likelihood.information(eta, **observed.aux)
        W = np.broadcast_to(W, (*eta.shape, m))
        yield replace(observed, y=y, eta=eta, score=score, W=W)

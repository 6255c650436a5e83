"""Ridge tuned by evidence against scikit-learn's BayesianRidge, on true scales from 1e-5 to 1e7: `python benchmarks/evidence.py`.

Both maximise the evidence over the scales of the noise and of the weights: scikit-learn by MacKay's fixed point, stopped by
default where the coefficients change by less than 1e-3 in sum, whatever their unit, and under gamma hyperpriors (1e-6, 1e-6)
on the precisions, which are weak only where the data have unit scale: at 1e7 they hold the precision of the weights near 1, and
every coefficient is lost. With flat hyperpriors and iterated to the end it finds the maximum, but for the intercept, which it
does not count as a parameter (n for n - 1). The distance is that of log tau from ours.
"""

import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from side_by_side import OURS, in_turn, installed, machine

import probreg as pr
from probreg.inference import Evidence

SIZES = {(200, 10): 9, (10_000, 100): 3, (500, 400): 3}  # (n, p): rounds
SCALES = (1e-5, 1e-2, 1.0, 1e3, 1e7)

Fitted = tuple[float, float]  # tau, sigma
Way = Callable[[np.ndarray, np.ndarray], Fitted]


def data(n: int, p: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Standard normal columns; weights of standard deviation `scale` and noise of half the signal's."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, p))
    return X, X @ (scale * rng.standard_normal(p)) + 0.5 * scale * np.sqrt(
        p
    ) * rng.standard_normal(n)


def ours(X: np.ndarray, y: np.ndarray) -> Fitted:
    fit = pr.fit(
        pr.Model.from_arrays(X, y, prior=pr.Normal(pr.priors.Reference())), Evidence()
    )
    return float(fit.model.joint.blocks[-1].prior.scale), fit.aux["sigma"]


def bayesian_ridge(X: np.ndarray, y: np.ndarray) -> Fitted:
    """As it comes."""
    from sklearn.linear_model import BayesianRidge

    found = BayesianRidge().fit(X, y)
    return float(found.lambda_**-0.5), float(found.alpha_**-0.5)


def bayesian_ridge_to_the_end(X: np.ndarray, y: np.ndarray) -> Fitted:
    """Its gamma hyperpriors flat, iterated until it stands still."""
    from sklearn.linear_model import BayesianRidge

    with warnings.catch_warnings():
        # that it stopped at the limit, and divisions by what has vanished
        warnings.simplefilter("ignore")
        found = BayesianRidge(
            alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0, tol=1e-14, max_iter=5000
        ).fit(X, y)
    return float(found.lambda_**-0.5), float(found.alpha_**-0.5)


def ways() -> dict[str, Way]:
    found: dict[str, Way] = {OURS: ours}
    if installed("sklearn"):
        found["BayesianRidge()"] = bayesian_ridge
        found["BayesianRidge, flat, to the end"] = bayesian_ridge_to_the_end
    return found


def main() -> None:
    print(f"Ridge with its scale by evidence. {machine('scikit-learn')}")
    for way in ways().values():
        way(*data(50, 3, 1.0))  # imports
    for (n, p), rounds in SIZES.items():
        print(f"\nn = {n:,}, p = {p}")
        print(
            f"  {'true scale':<12}{'':<34}{'seconds':>9}{'ours/peer':>11}{'tau':>12}{'sigma':>12}{'|log tau - ours|':>18}"
        )
        for scale in SCALES:
            X, y = data(n, p, scale)
            timed = in_turn({k: partial(w, X, y) for k, w in ways().items()}, rounds)
            first = timed[OURS]
            for name, t in timed.items():
                tau, sigma = t.result
                away = abs(np.log(tau) - np.log(first.result[0]))
                print(
                    f"  {scale:<12g}{name:<34}{t.median:>9.4f}{first.median / t.median:>11.2f}{tau:>12.4g}{sigma:>12.4g}{away:>18.1e}"
                )


if __name__ == "__main__":
    main()

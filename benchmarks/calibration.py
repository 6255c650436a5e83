"""Calibration of response distributions: `python benchmarks/calibration.py sbc|coverage [case ...]`; all cases without a name.

sbc: NUTS on 1,000 data sets of 50 rows, drawn from proper priors of all parameters; the ranks of the true values must be uniform.
coverage: 95 % intervals of the coefficients at known parameters, at 50 and at 500 rows: Wald after maximum likelihood, and
equal-tailed intervals of the posterior under Normal(0, 2.5).
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from time import process_time
from typing import Any

import numpy as np
from side_by_side import machine

import probreg as pr
from probreg.priors import AuxPrior, Gamma, HalfNormal

# draws of each data set in `sbc`; ranks are among 99 of them
SAMPLER = pr.NUTS(draws=400, tune=200, chains=1)
SIZES = (50, 500)
BETA = (0.5, 0.4)
N = SIZES[-1]
ZERO_TO_TWO = np.arange(N) % 3.0


@dataclass(frozen=True)
class Case:
    """A model, the true values of its parameters, and proper priors of its nuisance parameters.

    The values of the response only give the model its rows: their number of trials and their limits of censoring.
    """

    likelihood: Any
    response: Mapping[str, Any]
    formula: Any = "y ~ x"
    beta: tuple[float, ...] = BETA
    aux: Mapping[str, float] = field(default_factory=dict)
    aux_priors: Mapping[str, AuxPrior] = field(default_factory=dict)

    def model(self, scale: float | None = None) -> pr.Model:
        """The model under flat priors, or under Normal(0, scale) of the coefficients and proper priors of the nuisance parameters."""
        x = np.random.default_rng(1).normal(size=N)
        data = {k: v[:N] for k, v in {**self.response, "x": x}.items()}
        columns = ["Intercept", "x"]
        if isinstance(self.formula, dict):
            columns += [f"log sigma: {c}" for c in columns]
        prior: Any = pr.Flat()
        aux: Mapping[str, AuxPrior] = {}
        if scale is not None:
            prior = dict.fromkeys(columns, pr.Normal(scale))
            aux = self.aux_priors
        return pr.Model.from_formula(
            self.formula, data, likelihood=self.likelihood, prior=prior, aux=aux
        )


COUNTS = {"y": ZERO_TO_TWO}
POSITIVE = {"y": 1.0 + ZERO_TO_TWO}
SHARES = {"y": 0.25 + 0.25 * ZERO_TO_TWO}
LOCATION_SCALE = {"y": "y ~ x", "log sigma": "~ x"}
CASES = {
    "gamma": Case(
        pr.Gamma(), POSITIVE, aux={"phi": 0.5}, aux_priors={"phi": HalfNormal(1.0)}
    ),
    "log_normal": Case(
        pr.LogNormal(),
        POSITIVE,
        aux={"sigma": 0.7},
        aux_priors={"sigma": HalfNormal(1.0)},
    ),
    "beta": Case(
        pr.Beta(), SHARES, aux={"phi": 6.0}, aux_priors={"phi": Gamma(3.0, 0.3)}
    ),
    "beta_binomial": Case(
        pr.BetaBinomial(),
        {"k": COUNTS["y"], "n": np.full(N, 8)},
        "p(k, n) ~ x",
        aux={"phi": 6.0},
        aux_priors={"phi": Gamma(3.0, 0.3)},
    ),
    "ordinal": Case(
        pr.Ordinal(levels=(0, 1, 2)),
        COUNTS,
        aux={"gap_2": 1.2},
        aux_priors={"gap_2": HalfNormal(1.5)},
    ),
    "zero_inflated": Case(
        pr.ZeroInflated(pr.Poisson()),
        COUNTS,
        aux={"zero_odds": 0.4},
        aux_priors={"zero_odds": HalfNormal(1.0)},
    ),
    "hurdle": Case(
        pr.Hurdle(pr.Poisson()),
        COUNTS,
        aux={"zero_odds": 0.4},
        aux_priors={"zero_odds": HalfNormal(1.0)},
    ),
    "nb1": Case(
        pr.NegativeBinomial(variance="nb1"),
        COUNTS,
        aux={"alpha": 0.8},
        aux_priors={"alpha": HalfNormal(1.0)},
    ),
    "censored_weibull": Case(
        pr.Weibull(),
        {"t": np.full(N, 2.0), "event": np.arange(N) == 0},
        "cens(t, event) ~ x",
        aux={"scale": 0.7},
        aux_priors={"scale": HalfNormal(1.0)},
    ),
    "student": Case(
        pr.StudentT(nu=4.0),
        COUNTS,
        aux={"sigma": 0.7},
        aux_priors={"sigma": HalfNormal(1.0)},
    ),
    "location_scale": Case(
        pr.Gaussian(), COUNTS, LOCATION_SCALE, beta=(0.5, 0.4, -0.3, 0.3)
    ),
}


def sbc(name: str) -> None:
    """Ranks of 1,000 data sets of 50 rows."""
    model = CASES[name].model(scale=0.7)
    few = replace(model, design=model.design.take(np.arange(SIZES[0])))
    start = process_time()
    result = pr.sbc(few, SAMPLER, 1000, seed=11)
    print(
        f"\n{name}, {process_time() - start:.0f} s of processor time\n{result}",
        flush=True,
    )


def coverage(name: str) -> None:
    """The share of intervals that contain the true coefficient, with its Monte Carlo error."""
    case = CASES[name]
    truth = pr.Truth(list(case.beta), dict(case.aux))
    for n in SIZES:
        start = process_time()
        tables = []
        for model, kind, reps in (
            (case.model(), "wald", 500),
            (case.model(2.5), "eti", 200),
        ):
            result = pr.coverage(model, truth, kinds=[kind], reps=reps, n=n, seed=1)
            tables.append(result)
        print(
            f"\n{name}, n = {n}, {process_time() - start:.0f} s of processor time",
            *tables,
            sep="\n",
            flush=True,
        )


def main() -> None:
    print(f"Calibration of response distributions. {machine()}")
    task, names = sys.argv[1], sys.argv[2:]
    for name in names or CASES:
        {"sbc": sbc, "coverage": coverage}[task](name)


if __name__ == "__main__":
    main()

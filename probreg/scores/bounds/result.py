"""The parts of a bound on the risk, and its assumptions about rows and losses.

The risk R of a predictor is the mean of its loss on new rows, the empirical risk R^ is the mean on the m observed rows. A bound is
R <= R^ + complexity + deviation with probability 1 - delta over the rows.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from probreg.errors import DataError
from probreg.scores.assumptions import Assumption
from probreg.scores.reading import finite_numbers, refuse_values
from probreg.system.terminal import clean_lines

Array = np.ndarray

INDEPENDENT = Assumption("rows are independent draws of one distribution", None, None)
_MOST = {"risk": "the largest loss", "complexity": "its closed form"}
FIXED = Assumption(
    "the class and its constants were fixed before the rows were seen", None, None
)


@dataclass(frozen=True)
class Bound:
    """An upper limit of the risk, valid with probability 1 - delta over the rows; the result of the functions of `pr.bounds`.

    Parameters
    ----------
    value : float
        The limit, in units of the loss: empirical + complexity + deviation.
    empirical : float
        The mean loss on the rows at hand.
    complexity : float
        The cost of the size of the class, or of the freedom of the fit.
    deviation : float
        The cost of the random sample of rows.
    assumptions : tuple of Assumption
        The conditions of the theorem, and whether they are met.
    source : str
        The authors of the proof.
    vacuous : bool
        Whether the limit is at least the largest possible loss.
    theorem : str
        The bound by name.
    delta : float
        The largest probability that it fails.
    most : float
        The largest possible loss.
    quantity : str
        The bounded quantity, "risk" or "complexity".

    Examples
    --------
    >>> from probreg import bounds
    >>> print(bounds.finite(risk=0.1, n=1000, classes=100, delta=0.05))
    finite class: the risk is at most 0.1616, with probability 0.95 (Hoeffding 1963)
      empirical 0.1, complexity 0.02295, deviation 0.0387
      cannot be checked: rows are independent draws of one distribution
      cannot be checked: the class and its constants were fixed before the rows were seen
    """

    value: float
    empirical: float
    complexity: float
    deviation: float
    assumptions: tuple[Assumption, ...]
    source: str
    vacuous: bool
    theorem: str = "bound"
    delta: float = 0.05
    most: float = 1.0
    quantity: str = "risk"

    @property
    def verdict(self) -> str:
        """The bound in one line."""
        if self.vacuous:
            return f"{self.theorem}: says nothing, {self.value:.4g} is not below {_MOST[self.quantity]} {self.most:.4g}"
        return f"{self.theorem}: the {self.quantity} is at most {self.value:.4g}, with probability {1 - self.delta:.4g}"

    def __str__(self) -> str:
        parts = f"  empirical {self.empirical:.4g}, complexity {self.complexity:.4g}, deviation {self.deviation:.4g}"
        return clean_lines(
            f"{self.verdict} ({self.source})",
            parts,
            *(f"  {a}" for a in self.assumptions),
        )


def bound_of(
    theorem: str,
    source: str,
    *,
    risk: float,
    complexity: float,
    deviation: float,
    most: float,
    delta: float,
    assumptions: tuple[Assumption, ...] = (INDEPENDENT, FIXED),
) -> Bound:
    """The sum of its three parts. DataError for an empirical risk above the largest loss."""
    if risk > most * (1 + 1e-12):
        raise DataError(
            f"risk is the mean of losses of at most {most:g}, got {risk:g}: state the largest loss there is"
        )
    value = risk + complexity + deviation
    return Bound(
        value,
        risk,
        complexity,
        deviation,
        assumptions,
        source,
        value >= most,
        theorem,
        delta,
        most,
    )


def spread_of_mean(n: int, delta: float) -> float:
    """(log(1/delta) / 2n)^(1/2), a bound of the deviation of the mean of n independent numbers in [0, 1] from its expectation.

    >>> round(spread_of_mean(1000, 0.05), 6)
    0.038702
    """
    return float(np.sqrt(np.log(1 / delta) / (2 * n)))


def read_losses(losses: Any, most: float) -> Array:
    """Losses (n,) in [0, most]. DataError names the row and the loss that is not, and needs two rows."""
    values = finite_numbers(losses, "the loss")
    if values.ndim != 1 or len(values) < 2:
        raise DataError(
            f"losses are one number per row of two or more rows, got shape {values.shape}"
        )
    bad = (values < 0) | (values > most * (1 + 1e-12))
    refuse_values(bad, f"losses lie between 0 and {most:g}", "the loss", values)
    return values

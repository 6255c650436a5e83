"""What a theorem says of one run, as an object: what it assumes, what was met, what it promises, what was suffered.

Also the steps that theorems choose. The theorems themselves are in `theorems`.
"""

from dataclasses import dataclass

import numpy as np

from probreg.online.parts import Array


@dataclass(frozen=True)
class Assumption:
    """One condition of a theorem, the value met so far, and whether it held."""

    statement: str
    met: float
    holds: bool


@dataclass(frozen=True, eq=False)
class Guarantee:
    """A theorem's promise for the rounds of one run: `suffered` <= `bound` whenever it `applies`."""

    theorem: str
    source: str
    quantity: str
    suffered: float
    bound: float
    rounds: int
    assumptions: tuple[Assumption, ...]
    comparator: Array | None = None
    comparator_loss: float = np.nan

    @property
    def applies(self) -> bool:
        """Whether every assumption held in every round so far."""
        return all(a.holds for a in self.assumptions)

    @property
    def kept(self) -> bool:
        """Whether what was suffered is within the bound, rounding apart."""
        return self.suffered <= self.bound * (1 + 1e-9) + 1e-9

    @property
    def risk(self) -> float:
        """bound / rounds: on an i.i.d. sample its mean bounds the expected risk of `Path.average()` (online to batch)."""
        return self.bound / self.rounds

    def __str__(self) -> str:
        lines = [f"{self.theorem} ({self.source}): {self.quantity} {self.suffered:.6g}, bound {self.bound:.6g}"]
        lines += [f"  {'met' if a.holds else 'NOT MET'}: {a.statement} (so far {a.met:.4g})" for a in self.assumptions]
        return "\n".join([*lines, f"  the bound {'applies' if self.applies else 'does not apply'}"])


def additive_step(x_norm: float, u_norm: float, u_loss: float | None = None) -> float:
    """The step that minimises L_u / (1 - step r^2) + ||u||^2 / step, Widrow-Hoff's bound: its least value is
    (sqrt(L_u) + ||u|| r)^2. Without u_loss, step = 1 / (2 r^2).

    >>> additive_step(1.0, 2.0, 4.0)
    0.5
    """
    return _share(u_norm * x_norm, u_loss) / x_norm**2


def multiplicative_step(spread: float, entropy: float, u_loss: float | None = None) -> float:
    """The step that minimises L_u / (1 - step R^2 / 4) + 2 d / step, the bound of exponentiated gradient.

    >>> multiplicative_step(2.0, 2.0, 4.0)
    0.5
    """
    return 4 * _share(spread * np.sqrt(entropy / 2), u_loss) / spread**2


def _share(b: float, u_loss: float | None) -> float:
    """The z that minimises L_u / (1 - z) + b^2 / z, kept below 1."""
    return 0.5 if u_loss is None else float(min(b / (np.sqrt(u_loss) + b), 1 - 1e-6)) if b > 0 else 0.5


def risk_bound(step: float, rounds: int, *, x_norm: float, u_norm: float, u_risk: float) -> float:
    """Online to batch: E[risk of the averaged weights] <= R_u / (1 - step r^2) + ||u||^2 / (step rounds), LMS, any u.

    >>> risk_bound(0.5, 100, x_norm=1.0, u_norm=1.0, u_risk=0.25)
    0.52
    """
    z = step * x_norm**2
    return np.inf if z >= 1 else u_risk / (1 - z) + u_norm**2 / (step * rounds)

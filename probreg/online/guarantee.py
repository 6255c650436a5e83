"""What a theorem says of one run, as an object: what it assumes, what was met, what it promises, what was suffered.

Also the steps that theorems choose. The theorems themselves are in `theorems`.
"""

from dataclasses import dataclass

import numpy as np

from probreg.arguments.scalars import Count, NonNegative, Positive, check_arguments
from probreg.errors import DataError, Incompatible
from probreg.online.parts import Array
from probreg.scores.assumptions import Assumption
from probreg.system.terminal import clean_lines

CONVEX = Assumption("the loss is convex in the weights", None, True)
OF_LOSS = Assumption("the bounded quantity is the learner's loss", None, True)
NOT_OF_LOSS = Assumption(OF_LOSS.statement, None, False)


@dataclass(frozen=True, eq=False)
class Guarantee:
    """A theorem's promise for the rounds of one run: `suffered` <= `bound` whenever it `applies`.

    What it says of a new row (online to batch) assumes more, and that stands in `sampling`: rows seen once and drawn
    independently, constants fixed before them. `convex` is whether the loss is convex in the weights, which the averaged
    weights need; mistakes are not, and have the vote and a weight vector drawn at random instead. `of_loss` is whether the
    bounded quantity is the loss that the learner reports: a bound of another quantity is no bound of the risk.
    """

    theorem: str
    source: str
    quantity: str
    suffered: float
    bound: float
    rounds: int
    assumptions: tuple[Assumption, ...]
    comparator: Array | None = None
    comparator_loss: float = np.nan
    sampling: tuple[Assumption, ...] = ()
    convex: Assumption = CONVEX
    of_loss: Assumption = OF_LOSS

    @property
    def applies(self) -> bool:
        """Whether no assumption failed in any round so far; `assumptions` say which of them cannot be checked."""
        return all(a.holds is not False for a in self.assumptions)

    @property
    def kept(self) -> bool:
        """Whether what was suffered is within the bound, rounding apart."""
        return self.suffered <= self.bound * (1 + 1e-9) + 1e-9

    @property
    def risk(self) -> float:
        """bound / rounds, whose mean over samples bounds the mean loss of `Run.average()` on a new row.

        Source: Cesa-Bianchi, Conconi & Gentile 2004, by Jensen's inequality. Incompatible where an assumption fails: rows
        seen more than once, or a loss that is not convex, as mistakes are not (see `random_risk`, `vote_risk`).
        """
        return self._on_new_rows("the averaged weights", 1.0, self.convex)

    @property
    def random_risk(self) -> float:
        """bound / rounds, whose mean bounds the mean loss on a new row of `Run.draw()`, weights of a round drawn at random.

        The loss need not be convex. Incompatible where an assumption fails.
        """
        return self._on_new_rows("weights drawn at random", 1.0)

    @property
    def vote_risk(self) -> float:
        """2 bound / rounds, whose mean bounds the probability that `Run.vote` errs on a new row.

        The vote errs only where half of the weight vectors do (Freund & Schapire 1999). Incompatible for other
        quantities than mistakes, and where an assumption fails.
        """
        if self.quantity != "mistakes":
            raise Incompatible(
                f"a vote errs or does not, and this bound is of the {self.quantity}: see `risk`"
            )
        return self._on_new_rows("the vote", 2.0)

    def random_risk_limit(self, delta: float = 0.05) -> float:
        """suffered / rounds + sqrt(log(1/delta) / (2 rounds)): mistakes on a new row of `Run.draw()`, in the mean over its
        draw, with probability 1 - delta over samples; twice that for the vote.

        The theorem itself is not used, only the rows: Hoeffding-Azuma for losses in [0, 1] (Cesa-Bianchi, Conconi &
        Gentile 2004). Incompatible for other quantities than mistakes, and for rows seen more than once.
        """
        if self.quantity != "mistakes":
            raise Incompatible(
                f"the limit is for losses between 0 and 1, and this is the {self.quantity}"
            )
        if not 0 < delta < 1:
            raise DataError(f"delta is {delta!r}: need a probability, between 0 and 1")
        self._require_assumptions("weights drawn at random", self.sampling)
        # Hoeffding-Azuma: P(mean risk - mean loss >= t) <= exp(-2 T t^2) for losses in [0, 1], solved for t at delta.
        return self.suffered / self.rounds + float(
            np.sqrt(np.log(1 / delta) / (2 * self.rounds))
        )

    def _on_new_rows(self, what: str, factor: float, *more: Assumption) -> float:
        self._require_assumptions(
            what, (*self.assumptions, *self.sampling, self.of_loss, *more)
        )
        return factor * self.bound / self.rounds

    def _require_assumptions(self, what: str, needed: tuple[Assumption, ...]) -> None:
        if not self.sampling:
            raise Incompatible(
                f"no bound for {what} on a new row: these rounds are those of a fit, not of one run"
            )
        failed = [str(a) for a in needed if a.holds is False]
        if failed:
            raise Incompatible(f"no bound for {what} on a new row: {'; '.join(failed)}")

    def __str__(self) -> str:
        lines = [
            f"{self.theorem} ({self.source}): {self.quantity} {self.suffered:.6g}, bound {self.bound:.6g}"
        ]
        lines += [f"  {a}" for a in self.assumptions]
        unknown = any(a.holds is None for a in self.assumptions)
        if self.applies:
            verdict = "applies" + " where what cannot be checked holds" * unknown
        else:
            verdict = "does not apply"
        return clean_lines(*lines, f"  the bound {verdict}", *self._said_of_new_rows())

    def _said_of_new_rows(self) -> list[str]:
        if not self.sampling:
            return []
        try:
            if self.quantity == "mistakes":
                shares = [
                    f"{v:.4g}" if v < 1 else "1 (says nothing)"
                    for v in (self.random_risk, self.vote_risk)
                ]
                said = f"weights drawn at random err at most {shares[0]} of the time, their vote {shares[1]}"
            else:
                said = f"the averaged weights have a mean {self.quantity.removeprefix('cumulative ')} of at most {self.risk:.4g}"
        except Incompatible as why:
            return [f"  {why}"]
        open_ = [f"    {a}" for a in (*self.sampling, self.convex) if a.holds is None]
        return [f"  on a new row, in the mean over samples, {said}", *open_]


@check_arguments
def additive_step(
    x_norm: Positive, u_norm: NonNegative, u_loss: NonNegative | None = None
) -> float:
    """The step that minimises Widrow-Hoff's bound L_u / (1 - step r^2) + ||u||^2 / step.

    Its least value is (sqrt(L_u) + ||u|| r)^2. Without u_loss, step = 1 / (2 r^2).

    Parameters
    ----------
    x_norm : float
        A bound r on ||x|| of every row.
    u_norm : float
        The norm of the comparator u.
    u_loss : float, optional
        The loss L_u of a comparator over the rounds.

    Returns
    -------
    float
        The step.

    Examples
    --------
    >>> additive_step(1.0, 2.0, 4.0)
    0.5
    """
    # z = step r^2: the bound is L_u / (1 - z) + (|u| r)^2 / z.
    return _best_split(u_norm * x_norm, u_loss) / x_norm**2


@check_arguments
def multiplicative_step(
    spread: Positive, entropy: NonNegative, u_loss: NonNegative | None = None
) -> float:
    """The step that minimises L_u / (1 - step R^2 / 4) + 2 d / step, the bound of exponentiated gradient.

    Parameters
    ----------
    spread : float
        R, within which the values of a row lie.
    entropy : float
        d, the relative entropy of the comparator to the start.
    u_loss : float, optional
        The loss L_u of a comparator over the rounds.

    Returns
    -------
    float
        The step.

    Examples
    --------
    >>> multiplicative_step(2.0, 2.0, 4.0)
    0.5
    """
    # z = step R^2 / 4: the bound is L_u / (1 - z) + (R^2 d / 2) / z.
    return 4 * _best_split(spread * np.sqrt(entropy / 2), u_loss) / spread**2


def _best_split(b: float, u_loss: float | None) -> float:
    """Return the z that minimises L_u / (1 - z) + b^2 / z, kept below 1."""
    # d/dz [L / (1 - z) + b^2 / z] = 0 at z = b / (L^(1/2) + b).
    if u_loss is None:
        return 0.5
    if b > 0:
        return float(min(b / (np.sqrt(u_loss) + b), 1 - 1e-6))
    return 0.5


@check_arguments
def risk_bound(
    step: Positive,
    rounds: Count,
    *,
    x_norm: NonNegative,
    u_norm: NonNegative,
    u_risk: NonNegative,
) -> float:
    """Online to batch, LMS, any u: E[risk of the averaged weights] <= R_u / (1 - step r^2) + ||u||^2 / (step rounds).

    It assumes one pass over rows drawn independently, ||x|| <= x_norm for every row there can be, and a step, x_norm
    and u fixed before the rows were seen. Nothing here can check that.

    Parameters
    ----------
    step : float
        Positive.
    rounds : int
        Rows of the pass.
    x_norm : float
        A bound r on ||x|| of every row.
    u_norm : float
        The norm of the comparator u.
    u_risk : float
        Its risk R_u.

    Returns
    -------
    float
        The bound; inf where step r^2 reaches 1.

    Examples
    --------
    >>> risk_bound(0.5, 100, x_norm=1.0, u_norm=1.0, u_risk=0.25)
    0.52
    """
    # Widrow-Hoff's bound over T rounds, over T; by Jensen the averaged weights lose no more.
    z = step * x_norm**2
    if z >= 1:
        return np.inf
    return u_risk / (1 - z) + u_norm**2 / (step * rounds)

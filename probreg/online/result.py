"""The result of a run: predictions, losses, recorded weights, averages, regret, guarantee."""

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike

from probreg.arguments.arrays import floats
from probreg.arguments.scalars import Number, Seed, check_arguments
from probreg.errors import DataError, Incompatible
from probreg.online.guarantee import Guarantee
from probreg.online.learner import largest_entry
from probreg.online.rounds import Rounds
from probreg.online.theorems import guarantee_of
from probreg.online.updates import Array
from probreg.system.terminal import clean_lines, shorten_names
from probreg.tables.render import notebook_html

# a share of the rounds
Share = Annotated[float, Number(0.0, 1.0, (1.0,), "a number above 0 and at most 1")]


@dataclass(frozen=True, eq=False)
class Regret:
    """The regret of a run: its cumulative loss minus the loss of one fixed comparator u over the same rounds.

    Parameters
    ----------
    value : float
        The difference.
    loss : float
        Of the run.
    comparator_loss : float
        Of u.
    comparator : array (p,)
        u.

    Examples
    --------
    >>> Regret(1.5, 2.0, 0.5, np.zeros(1)).value
    1.5
    """

    value: float
    loss: float
    comparator_loss: float
    comparator: Array


@dataclass(frozen=True, eq=False)
class Run(Rounds):
    """The rounds of one run, with averaged weights, votes, regret and guarantee."""

    def __repr__(self) -> str:
        return clean_lines(*self._summary_lines())

    def _repr_html_(self) -> str:
        head, *lines = self._summary_lines()
        return notebook_html([head], lines)

    def _summary_lines(self) -> list[str]:
        """Return the printed lines: learner, rounds, losses and last weights."""
        T = self.totals.rounds
        w = np.ravel(self.state.w)
        loss = self.learner.loss
        title = f"run of {self.learner.title}, {T} rounds"
        if self.passes > 1:
            title += f" in {self.passes} passes"
        losses = (
            f"{loss.name} loss {self.loss:.5g}, {self.loss / max(T, 1):.4g} per round"
        )
        if loss.labels.kind == "sign":
            losses += f"; {self.mistakes} mistakes"
        weights = shorten_names([f"{v:.4g}" for v in w], 6) or "none"
        return [
            f"{title}: {self.status.value}",
            losses,
            f"last weights: {weights}",
            "see also: predictions, losses, weights, average(), regret(), guarantee()",
        ]

    @check_arguments
    def average(self, last: Share = 1.0) -> Array:
        """Return the mean of the weights that made the predictions of the last share of the rounds: online to batch.

        `last` below 1 is suffix averaging (Rakhlin, Shamir & Sridharan 2012), from the nearest recorded time.

        >>> from probreg.online import lms, run
        >>> run(lms(0.5), [[1.0], [1.0], [1.0], [1.0]], [1.0, 1.0, 1.0, 1.0]).average(last=0.5)
        array([0.8125])
        """
        start = (1 - last) * self.totals.rounds
        first = int(np.argmin(np.abs(self.times[:-1] - start)))
        total = self.sums[-1] - self.sums[first]
        return total / (self.totals.rounds - self.times[first])

    @check_arguments
    def draw(self, seed: Seed) -> Array:
        """Return the weights of a random round, for which `Guarantee.random_risk` is a bound.

        DataError unless the weights of every round were recorded, by `run(..., record=Record(every=1))`.

        >>> from probreg.online import Record, perceptron, run
        >>> path = run(perceptron(), [[1.0], [1.0]], [1.0, 1.0], record=Record(every=1))
        >>> path.draw(seed=0)
        array([1.])
        """
        return np.array(
            self._weights_before_rounds()[
                np.random.default_rng(seed).integers(self.totals.rounds)
            ]
        )

    def vote(self, X: ArrayLike) -> Array:
        """Return the majority class -1 or +1 of the weights of all rounds for each row of X (n, p); 0 for a tie.

        DataError unless the weights of every round were recorded, as for `draw`. Source: the voted perceptron of Freund &
        Schapire 1999.

        >>> from probreg.online import Record, perceptron, run
        >>> path = run(perceptron(), [[1.0], [2.0], [-1.0]], [1.0, 1.0, -1.0], record=Record(every=1))
        >>> path.vote([[3.0], [-3.0]])
        array([ 1., -1.])
        """
        if self.learner.loss.labels.kind != "sign":
            raise Incompatible(
                f"vote() needs the classes -1 and +1, not the {self.learner.loss.name} loss"
            )
        A = floats(X, "X")
        if A.ndim != 2:
            raise DataError(f"X is a matrix (rows, columns), got shape {A.shape}")
        votes = np.zeros(len(A))
        for w in self._weights_before_rounds():
            votes += np.sign(self.learner.predict(replace(self.state, w=w), A))
        return np.sign(votes)

    def _weights_before_rounds(self) -> Array:
        if len(self.times) != self.totals.rounds + 1:
            raise DataError(
                "the weights of every round are needed: run arrays with record=Record(every=1)"
            )
        return self.weights[:-1]

    def _check_comparator(self, comparator: ArrayLike) -> Array:
        u = floats(comparator, "comparator", copy=False)
        if self.learner.grows:
            shape = (len(self.rows()[1]),)
            entry = "coefficient b_i of f = sum_i b_i k(x_i, .) per row"
        else:
            shape = self.weights.shape[1:]
            entry = "weight per column"
        if u.shape != shape:
            raise DataError(
                f"comparator has shape {u.shape}: expected one {entry}, {shape}"
            )
        if not np.isfinite(u).all():
            i = largest_entry(u)
            raise DataError(f"comparator[{i}] is {u[i]:g}: expected a finite number")
        return u

    def regret(self, comparator: ArrayLike | None = None) -> Regret:
        """Return the loss minus the loss of `comparator`, or of the best fixed weights in hindsight.

        These are the best weights that the learner can reach: on the simplex for EG, in its ball for a projected learner.
        Exact for the squared loss of any stream; other losses need arrays. A learner of functions needs a comparator, the
        b_i of f = sum_i b_i k(x_i, .) at its rows.

        >>> from probreg.online import lms, run
        >>> round(run(lms(0.5), [[1.0], [1.0]], [1.0, 2.0]).regret().value, 6)
        2.75
        """
        if comparator is None:
            u = self.best()
        else:
            u = self._check_comparator(comparator)
        theirs = self.loss_of(u)
        return Regret(self.loss - theirs, self.loss, theirs, u)

    def guarantee(self, comparator: ArrayLike | None = None) -> Guarantee:
        """Return the bound of the learner's theorem for these rounds; see `Guarantee`.

        The comparator is one weight per column; of a learner of functions, the b_i of f = sum_i b_i k(x_i, .) at its rows.
        """
        if comparator is None:
            return guarantee_of(self, None)
        return guarantee_of(self, self._check_comparator(comparator))

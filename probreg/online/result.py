"""What a run leaves behind: predictions, losses, weights at chosen times, averages, regret."""

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike

from probreg.arguments.arrays import floats
from probreg.arguments.scalars import Number, Seed, check_arguments
from probreg.errors import DataError, Incompatible
from probreg.online.functions import promise_of
from probreg.online.guarantee import Guarantee
from probreg.online.parts import Array
from probreg.online.rounds import Rounds
from probreg.system.notebook import notebook_html
from probreg.system.terminal import clean_lines

_SHOWN = 6  # weights in a print
Recent = Annotated[
    float, Number(0.0, 1.0, closed=(False, True))
]  # a share of the rounds, the last ones


@dataclass(frozen=True, eq=False)
class Regret:
    """The regret of a run: its cumulative loss minus that of one fixed comparator u over the same rounds.

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
    """The rounds of one run, and what follows from them: averaged weights, votes, regret, guarantees."""

    def __repr__(self) -> str:
        return clean_lines(*self._summary_lines())

    def _repr_html_(self) -> str:
        head, *rest = self._summary_lines()
        return notebook_html([head], rest)

    def _summary_lines(self) -> list[str]:
        """Return the lines of its print: learner, rounds, losses and last weights."""
        T = self.totals.rounds
        w = np.ravel(self.state.w)
        if self.passes > 1:
            often = f" in {self.passes} passes"
        else:
            often = ""
        loss = self.learner.loss
        if T:
            lost = f"{loss.name} loss {self.loss:.5g}, {self.loss / T:.4g} a round"
        else:
            lost = "no loss"
        if loss.labels.kind == "sign":
            wrong = f"; {self.mistakes} mistakes"
        else:
            wrong = ""
        ends = ", ".join(f"{v:.4g}" for v in w[:_SHOWN]) + (
            f" and {len(w) - _SHOWN} more" if len(w) > _SHOWN else ""
        )
        return [
            f"run of {self.learner.title}, {T} rounds{often}: {self.status.value}",
            lost + wrong,
            f"last weights: {ends or 'none'}",
            "predictions, losses, weights, average(), regret() and guarantee() have the rest",
        ]

    @property
    def cumulative_loss(self) -> Array:
        """The loss suffered up to each round (T,)."""
        return np.cumsum(self.losses)

    @property
    def norms(self) -> Array:
        """||w|| at `times` (K,); ||f|| of a learner of functions."""
        return self.learner.norms(self.state, self._require_snapshots(self.weights))

    def _require_snapshots(self, snapshots: Array) -> Array:
        """Return recorded weights or sums of weights. Raise Incompatible where they belong to anchors that a budget dropped."""
        if not len(snapshots):
            dropped = float(self.state.memory["dropped"])
            raise Incompatible(
                f"the budget dropped {dropped:g} anchors, and with them the weights of earlier rounds: there is no mean of them; "
                "take path.state, or a larger budget"
            )
        return snapshots

    @check_arguments
    def average(self, last: Recent = 1.0) -> Array:
        """The mean of the weights that made the predictions of the last share of the rounds: online to batch.

        `last` below 1 is suffix averaging (Rakhlin, Shamir & Sridharan 2012), from the recorded time nearest to it.

        >>> from probreg.online import lms, run
        >>> run(lms(0.5), [[1.0], [1.0], [1.0], [1.0]], [1.0, 1.0, 1.0, 1.0]).average(last=0.5)
        array([0.8125])
        """
        sums = self._require_snapshots(self.sums)
        first = int(
            np.argmin(np.abs(self.times[:-1] - (1 - last) * self.totals.rounds))
        )
        return (sums[-1] - sums[first]) / (self.totals.rounds - self.times[first])

    @check_arguments
    def exponential_average(self, share: Recent = 0.1) -> Array:
        """The mean of the predicting weights with weights falling by e^-1 over the last `share` of the rounds.

        Within a stretch between two recorded times all rounds weigh the same.
        """
        sums = self._require_snapshots(self.sums)
        lengths = np.diff(self.times)
        age = (self.totals.rounds - (self.times[1:] + self.times[:-1]) / 2) / (
            share * self.totals.rounds
        )
        means = np.diff(sums, axis=0) / lengths.reshape(-1, *[1] * (sums.ndim - 1))
        return np.average(means, axis=0, weights=lengths * np.exp(-age))

    @check_arguments
    def draw(self, seed: Seed) -> Array:
        """The weights of one round drawn at random, each round as likely: what `Guarantee.random_risk` speaks of.

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
        """-1 or +1 for each row of X (n, p): what most weight vectors that predicted say, each round one vote; 0 for a tie.

        A sign of 0 is no vote. DataError unless the weights of every round were recorded, as for `draw`. Source: the
        voted perceptron of Freund & Schapire 1999.

        >>> from probreg.online import Record, perceptron, run
        >>> path = run(perceptron(), [[1.0], [2.0], [-1.0]], [1.0, 1.0, -1.0], record=Record(every=1))
        >>> path.vote([[3.0], [-3.0]])
        array([ 1., -1.])
        """
        if self.learner.loss.labels.kind != "sign":
            raise Incompatible(
                f"a vote is of two classes, -1 and +1, and the {self.learner.loss.name} loss has none"
            )
        if self.learner.loss.name == "perceptron":
            threshold = self.learner.loss.c
        else:
            threshold = 0.0
        A = np.asarray(X, dtype=float)
        votes = np.zeros(len(A))
        for w in self._weights_before_rounds():
            votes += np.sign(
                self.learner.predict(replace(self.state, w=w), A) - threshold
            )
        return np.sign(votes)

    def _weights_before_rounds(self) -> Array:
        if len(self.times) != self.totals.rounds + 1:
            raise DataError(
                f"the weights of {len(self.times) - 1} of {self.totals.rounds} rounds were recorded, and all are needed: "
                "run with record=Record(every=1)"
            )
        return self._require_snapshots(self.weights)[:-1]

    def _check_comparator(self, comparator: ArrayLike) -> Array:
        u = floats(comparator, "comparator", copy=False)
        if self.learner.grows:
            if u.shape != (n := len(self.rows()[1]),):
                raise DataError(
                    f"comparator holds the b of f = sum_i b_i k(x_i, .), one per row ({n},), got shape {u.shape}"
                )
        elif u.shape != self.weights.shape[1:]:
            if self.learner.linear:
                per = "column"
            else:
                per = "learner"
            raise DataError(
                f"comparator is one weight per {per}, shape {self.weights.shape[1:]}, got shape {u.shape}"
            )
        return u

    def regret(self, comparator: ArrayLike | None = None) -> Regret:
        """The loss suffered minus that of `comparator`, or of the best fixed weights in hindsight.

        These are the best the learner could hold: on the simplex for EG, in its ball for a projected learner. Exact
        for the squared loss of any stream; other losses need the rows, so arrays. A learner of functions needs a
        comparator, the b_i of f = sum_i b_i k(x_i, .) at its rows; for an aggregate it is the best of its learners.

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
        """What the learner's theorem promises for these rounds, against what was suffered; see `Guarantee`.

        The comparator is one weight per column; of a learner of functions, the b_i of f = sum_i b_i k(x_i, .) at its rows.
        """
        return promise_of(
            self, None if comparator is None else self._check_comparator(comparator)
        )

    def to_dataset(self) -> Any:
        """An xarray Dataset: prediction, loss, cumulative_loss over `round`, weights and norm over `time`."""
        import xarray as xr

        coef = ("time", "coef", "level")[: self.weights.ndim]
        extra = ("round", "level")[: self.predictions.ndim]
        content = {}
        if len(self.weights):  # none where a budget dropped what they belong to
            content = {
                "weights": (coef, self.weights),
                "norm": ("time", self.norms),
                "average": (coef[1:], self.average()),
            }
        if len(self.losses):
            content |= {
                "prediction": (extra, self.predictions),
                "loss": ("round", self.losses),
                "cumulative_loss": ("round", self.cumulative_loss),
            }
        times = {"time": self.times} | (
            {"round": np.arange(1, len(self.losses) + 1)} if len(self.losses) else {}
        )
        about = {
            "learner": repr(self.learner),
            "status": self.status.value,
            "mistakes": self.mistakes,
        }
        return xr.Dataset(content, coords=times, attrs=about)

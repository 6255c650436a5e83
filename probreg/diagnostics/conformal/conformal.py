"""Conformal intervals: scores of rows, the rank among n + 1 exchangeable scores, the methods jackknife+ and split, and the function `conformal`."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import nan
from typing import Any, ClassVar

import numpy as np

from probreg.arguments.scalars import (
    ArrayLike,
    Dataset,
    Flag,
    Fraction,
    Probability,
    RowsLike,
    Seed,
    check_arguments,
    check_fields,
)
from probreg.data import ArrayColumns, Design
from probreg.errors import DataError, Incompatible, NotConverged, Remedy, such_rows
from probreg.fits.fit import Fit, fit as refit
from probreg.fits.fitted import require_predictive
from probreg.fits.inference_data import label_rows
from probreg.fits.prediction import atom_count, design_at, predictive
from probreg.inference import Status
from probreg.inference.modes.closed_form import (
    PriorRows,
    combinations,
    posterior_given_sigma,
)
from probreg.likelihoods import Likelihood, OfTrials
from probreg.likelihoods.base import class_probabilities
from probreg.linalg import row_slices
from probreg.model.compatibility import has_array_weights
from probreg.model.group_effects import refuse_unseen
from probreg.model.model import Model
from probreg.model.predictive import Predictive
from probreg.registry import Registry
from probreg.system.terminal import clean_lines, progress_bar
from probreg.tables.render import notebook_html

Array = np.ndarray
SCORES: Registry["Score"] = Registry("score")


class Score(ABC):
    """A number for each (row, response); it is larger for a less expected response."""

    name: ClassVar[str]
    says: ClassVar[str]

    @abstractmethod
    def suits(self, likelihood: Likelihood) -> bool:
        """Return whether responses of this likelihood have this score."""

    @abstractmethod
    def of(self, p: Predictive, y: Array) -> Array:
        """Return the scores (n,) of y (n,), or of one class of K in each row, (n, K)."""

    def centre(self, p: Predictive) -> Array:
        """Return the mean (n,), or class probabilities (n, K)."""
        return class_probabilities(p.mean()) if p.likelihood.levels else p.mean()

    @abstractmethod
    def region(self, p: Predictive, most: float) -> dict[str, Array]:
        """Return the responses with a score of at most `most`: lower and upper (n,), or `set` (n, K) bool."""


@SCORES.register
class AbsoluteResidual(Score):
    """The score |y - E[y]|: intervals of equal width (Lei et al. 2018)."""

    name, says = "absolute", "|y - mean|"

    def suits(self, likelihood: Likelihood) -> bool:
        return not likelihood.is_discrete

    def of(self, p: Predictive, y: Array) -> Array:
        return np.abs(p.likelihood.response(y) - p.mean())

    def region(self, p: Predictive, most: float) -> dict[str, Array]:
        # {y: |y - E y| <= c} = E y -+ c.
        return {"lower": p.mean() - most, "upper": p.mean() + most}


@SCORES.register
class Pit(Score):
    """The score |F(y) - 1/2| with F the predictive distribution function.

    For a count F is the mean of F(y - 1) and F(y). The width of the intervals follows the spread of the model
    (Chernozhukov, Wüthrich & Zhu 2021).
    """

    name, says = "pit", "|P(Y < y) + P(Y = y)/2 - 1/2|"

    def suits(self, likelihood: Likelihood) -> bool:
        return not likelihood.levels

    def of(self, p: Predictive, y: Array) -> Array:
        # |(F(y-) + F(y)) / 2 - 1/2|
        return np.abs(p.pit(y, 0.5) - 0.5)

    def region(self, p: Predictive, most: float) -> dict[str, Array]:
        if most >= 0.5:  # every response: distribution functions of 0 and 1 included
            n = p.eta.shape[1]
            bottom = 0.0 if p.likelihood.is_discrete else -np.inf
            top = np.full(n, p.given.get("trials", np.inf), dtype=float)
            return {"lower": np.full(n, bottom), "upper": top}
        # {y: |F(y) - 1/2| <= c} = [F^-1(1/2 - c), F^-1(1/2 + c)]; for counts the y with (F(y - 1) + F(y)) / 2 in
        # [1/2 - c, 1/2 + c], so that an end outside it moves inward by one.
        lower = p.quantile(0.5 - most)
        upper = p.quantile(0.5 + most)
        if not p.likelihood.is_discrete:
            return {"lower": lower, "upper": upper}
        lower = np.where(p.pit(lower, 0.5) >= 0.5 - most, lower, lower + 1.0)
        upper = np.where(p.pit(upper, 0.5) <= 0.5 + most, upper, upper - 1.0)
        # the median in place of an empty set: a larger set keeps the coverage
        middle = p.quantile(0.5)
        return {"lower": np.minimum(lower, middle), "upper": np.maximum(upper, middle)}


@SCORES.register
class ProbabilityOfOutcome(Score):
    """The score 1 - P(y): the sets of smallest mean size if the probabilities are right.

    A set can be empty, at a row without a probable class (Sadinle, Lei & Wasserman 2019).
    """

    name, says = "probability", "1 - P(class)"

    def suits(self, likelihood: Likelihood) -> bool:
        return bool(likelihood.levels)

    def of(self, p: Predictive, y: Array) -> Array:
        scores = 1.0 - class_probabilities(p.mean())
        codes = y.argmax(1) if y.ndim == 2 else y.astype(int)  # (n, K) counts one trial
        return np.take_along_axis(scores, codes[:, None], 1)[:, 0]

    def region(self, p: Predictive, most: float) -> dict[str, Array]:
        # {k: 1 - p_k <= c} = {k: p_k >= 1 - c}
        return {"set": 1.0 - class_probabilities(p.mean()) <= most}


def need_one_trial(likelihood: Likelihood, trials: Array | None) -> None:
    """Raise Incompatible for rows that count the classes of several trials, or of none."""
    if not (isinstance(likelihood, OfTrials) and likelihood.levels) or trials is None:
        return
    bad = np.flatnonzero(np.ravel(trials) != 1)
    if len(bad):
        raise Incompatible(
            f"a conformal set is for the class of one trial, and row {bad[0]} counts {np.ravel(trials)[bad[0]]:g} trials: use "
            "predict, or Categorical with one row for each trial"
        )


def score_for(likelihood: Likelihood, name: str | None) -> Score:
    able = [score for cls in SCORES.values() if (score := cls()).suits(likelihood)]
    chosen = able if name is None else [s for s in able if s.name == SCORES[name].name]
    if not chosen:
        raise Incompatible(
            f"{likelihood.named} response has no {name} score; it has: {', '.join([s.name for s in able])}"
        )
    return chosen[0]


KINDS: Registry["ConformalMethod"] = Registry("conformal interval")


@dataclass(frozen=True, eq=False)
class Conformal:
    """Conformal intervals, or sets of classes, of a fit: `predict` returns them, `guarantee` states their condition.

    `region` returns mean with lower and upper (n,), or `set` (n, K) bool, at a block of rows, and takes `per_row` floats for each.
    """

    fit: Fit  # for a split, the refit on a part of the rows
    kind: str
    prob: float
    count: int  # of calibration rows
    measure: str  # a description of the score and its bound
    guarantee: str
    notes: tuple[str, ...]
    region: Callable[[Design], Mapping[str, Array]]
    per_row: int
    most: float = nan  # the bound of the score of a new row, in a split

    def predict(
        self,
        data: RowsLike | None = None,
        *,
        offset: ArrayLike | None = None,
        trials: ArrayLike | None = None,
    ) -> Dataset:
        """Return a Dataset over (obs) with mean, lower and upper, by default at the rows of the fit; for classes over
        (obs, level) with mean, their probabilities, and `set`, True for the classes in the set. For rows that count trials the
        mean is per trial, and lower and upper are successes out of the row's trials (`trials` at new rows).

        Attributes prob, kind, score, guarantee. DataError as in `Fit.predict`.
        """
        design = design_at(self.fit.model, data, offset, trials=trials)
        if data is not None and design.recipe.grouped:
            # rows of other groups are not exchangeable with the calibration rows
            like = "conformal intervals are for rows like the calibration rows"
            refuse_unseen(design, design.recipe.groups_at(data), like)
        with progress_bar("conformal, blocks of rows") as bar:
            parts = [
                self.region(part) for part in bar.over(blocks(design, self.per_row))
            ]
        columns = {k: np.concatenate([part[k] for part in parts]) for k in parts[0]}
        axes = {}
        if "set" in columns:
            axes = {"level": self.fit.model.likelihood.level_names}
        attrs = {
            "prob": self.prob,
            "kind": self.kind,
            "score": self.measure,
            "guarantee": self.guarantee,
        }
        return label_rows(columns, design, data, axes=axes, attrs=attrs)

    def __repr__(self) -> str:
        return clean_lines(*self._region_lines)

    @property
    def _region_lines(self) -> list[str]:
        """Describe the regions, their calibration and their guarantee."""
        head = f"{self.kind} conformal {region_name(self.fit)}s of probability {self.prob:g} around {self.fit.method.name}"
        return [
            head,
            f"{self.count} calibration rows; {self.measure}",
            self.guarantee,
            *(f"note: {n}" for n in self.notes),
        ]

    def _repr_html_(self) -> str:
        return notebook_html(self._region_lines)


def region_name(fit: Fit) -> str:
    return "set" if fit.model.likelihood.levels else "interval"


class ConformalMethod(ABC):
    """A way to calibrate; a frozen value with its settings."""

    name: ClassVar[str]
    __post_init__ = check_fields

    @abstractmethod
    def calibrate(self, fit: Fit, unseen: Design | None, prob: float) -> Conformal:
        """Return the fit with its scores; `unseen` are rows that the fit has not used, if any."""


@dataclass(frozen=True)
class ConformalRank:
    """k = ceil((n + 1) prob): a new score is at most the k-th smallest of n with probability k / (n + 1) >= prob."""

    prob: float
    n: int

    def __post_init__(self) -> None:
        if self.k > self.n:
            # k <= n where (n + 1) prob <= n, that is n >= prob / (1 - prob).
            need = int(np.ceil(self.prob / (1 - self.prob) - 1e-9))
            raise DataError(
                f"{self.n} calibration rows: a finite interval of probability {self.prob:g} needs {need}; give more rows or a smaller prob"
            )

    @property
    def k(self) -> int:
        # minus the rounding error of the product
        return int(np.ceil((self.n + 1) * self.prob - 1e-9))

    def upper(self, values: Array) -> Array:
        """The k-th smallest over the last axis."""
        # P(s_new <= s_(k)) >= k / (n + 1) for exchangeable scores   (Lei et al. 2018).
        return np.partition(values, self.k - 1, axis=-1)[..., self.k - 1]

    def lower(self, values: Array) -> Array:
        """The k-th largest over the last axis."""
        # The k-th largest of n is the (n + 1 - k)-th smallest.
        return np.partition(values, self.n - self.k, axis=-1)[..., self.n - self.k]


def rows_by_frequency(design: Design) -> tuple[Design, tuple[str, ...]]:
    """Repeat each row by its frequency weight, with a note on weights."""
    design.need_rows(
        "a conformal interval from the rows of the fit",
        "pass unused rows, conformal(fit, data)",
    )
    if design.weights is None:
        return design, ()
    plain = replace(design, labels=design.row_names).repeat_rows()
    return plain, (f"a row of weight w counts as w rows: {plain.n} in all",)


def exchangeable(fit: Fit, theirs: str) -> str:
    """Describe the condition of the guarantee."""
    trials = isinstance(fit.model.likelihood, OfTrials)
    return (
        f"the new row and {theirs} are exchangeable{', each with its trials' * trials}"
    )


def blocks(
    design: Design, per_row: int, most_numbers: int = 2_000_000
) -> Iterator[Design]:
    """Yield the rows in small parts, with at most `most_numbers` numbers in memory at once."""
    size = max(1, most_numbers // max(per_row, 1))
    for rows in row_slices(design.n, size):
        yield design.take(rows)


@KINDS.register
@dataclass(frozen=True)
class JackknifePlus(ConformalMethod):
    """From the k-th largest of x'b_(i) - r_(i) to the k-th smallest of x'b_(i) + r_(i), k = ceil((n + 1) prob).

    b_(i) is the estimate without row i and r_(i) = |y_i - x_i'b_(i)|. It uses all rows for the fit. It is for
    least squares, and for ridge with fixed sigma or a prior in units of sigma: b_(i) = b - V x_i e_i / (1 - h_i) with
    V = (X'X + P)^-1 and h_i = x_i'V x_i, without refits.

    References
    ----------
    Barber, Candès, Ramdas & Tibshirani 2021.

    Examples
    --------
    >>> import numpy as np
    >>> import probreg as pr
    >>> x = np.arange(12.0)
    >>> found = pr.conformal(pr.ols(x, x + np.cos(x)), prob=0.8, kind=JackknifePlus())
    >>> found.predict([[5.5]]).sizes["obs"]
    1
    """

    name = "jackknife+"

    def calibrate(self, fit: Fit, unseen: Design | None, prob: float) -> Conformal:
        alone = 1e-10  # with a smaller 1 - leverage there is no estimate without the row, up to rounding
        if unseen is not None:
            raise Incompatible(
                "the jackknife+ uses the rows of the fit; use kind='split' with data="
            )
        _require_linear_estimate(fit.model)
        design, notes = rows_by_frequency(fit.model.design)
        rank = ConformalRank(prob, design.n)
        model = fit.model
        posterior = posterior_given_sigma(
            model.design.moments, PriorRows.of(model.joint), model.noise()
        )
        if posterior.rank.dropped:
            raise Incompatible(
                f"the jackknife+ needs columns that are not combinations of others: {combinations(posterior.rank, design.columns)}. "
                "Drop one, give a prior, or use kind='split'"
            )
        beta = posterior.mean[:, None]
        residual = design.observed - design.eta(beta)[:, 0]
        root = np.asarray(posterior.root, dtype=float)
        rows = design.X @ root
        one_minus_leverage = 1.0 - (rows**2).sum(1)
        bad = np.flatnonzero(one_minus_leverage < alone)
        if len(bad):
            raise Incompatible(
                f"without row {design.row_name(bad[0])} there is no estimate (leverage 1, {such_rows(len(bad))}): it alone identifies a coefficient. "
                "Give a prior, or use kind='split'"
            )
        without = residual / one_minus_leverage

        def region(new: Design) -> Mapping[str, Array]:
            # lower: k-th largest of x'b_(i) - r_(i); upper: k-th smallest of x'b_(i) + r_(i).
            mean = new.eta(beta)[:, 0]
            # x'b_(i) = x'b - x'V x_i e_i / (1 - h_i)
            deleted = mean[:, None] - (new.X @ root) @ rows.T * without
            miss = np.abs(without)  # |e_i| / (1 - h_i)
            return {
                "mean": mean,
                "lower": rank.lower(deleted - miss),
                "upper": rank.upper(deleted + miss),
            }

        guarantee = (
            f"the {region_name(fit)} contains the response of a new row with probability at least {max(0.0, 2 * prob - 1):.4g} = 1 - 2 alpha, alpha = {1 - prob:.4g}, "
            f"for any model, if {exchangeable(fit, f'the {design.n} rows')}. The probability is near {prob:g} "
            "if the estimate is stable when a row is left out. It is an average over data sets and rows"
        )
        return Conformal(
            fit,
            self.name,
            prob,
            design.n,
            "|y - mean| with the row left out",
            guarantee,
            notes,
            region,
            3 * design.n,
        )


def _require_linear_estimate(model: Model) -> None:
    """Raise Incompatible unless the estimate of beta is linear in y for any sigma."""
    if not model.likelihood.least_squares:
        raise Incompatible(
            f"the jackknife+ has a closed form for a gaussian likelihood, not {model.likelihood.name}",
            remedy=Remedy("kind", "split"),
        )
    if not (model.joint.gaussian and model.mode_free_of_sigma):
        raise Incompatible(
            "the jackknife+ has a closed form for flat priors, and for normal ones with fixed sigma or in units of sigma: use "
            "kind='split'"
        )


@KINDS.register
@dataclass(frozen=True)
class Split(ConformalMethod):
    """Split conformal: refit the model on a random `share` of the rows and calibrate on the others.

    P(y_new in its interval) >= prob, and at most prob + 1/(n + 1) with n calibration rows and scores without ties, for
    exchangeable rows and any model.

    Parameters
    ----------
    share : float
        Share of the rows for the fit, between 0 and 1.
    score : str, optional
        "absolute" or "pit" for numbers, "pit" for counts, "probability" for classes (of one trial in a
        row); by default the first of these.
    seed : int
        Seed of the random split.

    References
    ----------
    Lei et al. 2018.

    Examples
    --------
    >>> import numpy as np
    >>> import probreg as pr
    >>> x = np.linspace(0.0, 1.0, 40)
    >>> pr.conformal(pr.ols(x, np.sin(9 * x)), prob=0.8, kind=Split(share=0.25)).count
    30
    """

    share: Fraction = 0.5
    score: str | None = None
    seed: Seed = 0

    name = "split"

    def calibrate(self, fit: Fit, unseen: Design | None, prob: float) -> Conformal:
        likelihood = fit.model.likelihood
        require_predictive(fit)
        score = score_for(likelihood, self.score)
        if unseen is not None:
            if self != Split(score=self.score):
                raise DataError(
                    f"kind={self}: share= and seed= draw calibration rows from the rows of the fit, and data= gives these rows: leave "
                    "share= and seed= out"
                )
            need_one_trial(likelihood, fit.model.given(unseen).get("trials"))
            notes: tuple[str, ...] = ("the fit has not used these rows",)
            return _calibrate_scores(fit, score, unseen, prob, notes)
        design, weight_notes = rows_by_frequency(fit.model.design)
        need_one_trial(likelihood, fit.model.given(design).get("trials"))
        order = np.random.default_rng(self.seed).permutation(design.n)
        cut = round(self.share * design.n)
        ConformalRank(prob, design.n - cut)  # before the work
        part = fit_again(fit, design.take(np.sort(order[:cut])))
        calibration_rows = design.take(np.sort(order[cut:]))
        notes = (f"refitted on {cut} rows", *weight_notes)
        return _calibrate_scores(part, score, calibration_rows, prob, notes)


def fit_again(fit: Fit, design: Design, purpose: str = "split conformal") -> Fit:
    """Refit the model by the same method on these rows; NotConverged, which names the caller `purpose`, without an estimate."""
    with warnings.catch_warnings(action="ignore"):
        # the guarantee does not need a good fit
        part = refit(replace(fit.model, design=design), fit.method, seed=fit.seed)
    if part.solution.status is Status.NO_MAXIMUM:
        raise NotConverged(
            f"{purpose}: the refit on {design.n} rows has no estimate ({part.solution.detail}): use more of them, give a prior, or "
            "pass unused rows"
        )
    return part


def _calibrate_scores(
    fit: Fit, score: Score, design: Design, prob: float, notes: tuple[str, ...]
) -> Conformal:
    n = design.n
    rank = ConformalRank(prob, n)
    per_row = predictive_size(fit)
    parts = [
        score.of(predictive(fit, part), part.observed)
        for part in blocks(design, per_row)
    ]
    # most = s_(k), k = ceil((n + 1) prob), over the calibration rows   (Lei et al. 2018).
    most = float(rank.upper(np.concatenate(parts)))

    def region(new: Design) -> Mapping[str, Array]:
        p = predictive(fit, new)
        need_one_trial(p.likelihood, p.given.get("trials"))
        return {"mean": score.centre(p), **score.region(p, most)}

    measure = f"{score.says} <= {most:.6g}"
    guarantee = (
        f"the {region_name(fit)} contains the response of a new row with probability at least {prob:g}, and at most {min(1.0, prob + 1 / (n + 1)):.4g} if no two scores "
        f"are equal, for any model, if {exchangeable(fit, f'the {n} calibration rows')}. It is an "
        "average over data sets and rows: for a given row or data set it may be less or more"
    )
    return Conformal(
        fit, Split.name, prob, n, measure, guarantee, notes, region, per_row, most
    )


def predictive_size(fit: Fit) -> int:
    """Return the number of atoms of the predictive distribution of one row."""
    return atom_count(fit) * (fit.model.shape[1] + 1)


@check_arguments
def conformal(
    fit: Fit,
    data: RowsLike | None = None,
    *,
    y: ArrayLike | None = None,
    offset: ArrayLike | None = None,
    trials: ArrayLike | None = None,
    prob: Probability = 0.9,
    kind: str | ConformalMethod = "split",
    progress: Flag | None = None,
) -> Conformal:
    """Return intervals that contain a new response with probability `prob` for any model, if rows are exchangeable.

    A row of frequency weight w counts as w rows. Precision and sampling weights raise an error.

    Parameters
    ----------
    fit : Fit
        A fit.
    data : table or array (n, q), optional
        Rows that the fit has not used: a split then needs no refit.
    y : array (n,), optional
        Their response (successes of `trials`); by default the column of this name in `data`.
    offset : array (n,), optional
        Offset of each row of `data`.
    trials : array (n,), optional
        Number of trials in each row of `data`.
    prob : float
        Probability, between 0 and 1.
    kind : str or ConformalMethod
        "split" (any fit: `Split(share, score, seed)` refits a part of the rows and calibrates on the others) or
        "jackknife+" (least squares and ridge on all rows, with the guarantee 2 prob - 1).
    progress : bool, optional
        Show a progress bar; by default after a second, in a terminal or a notebook.

    Returns
    -------
    Conformal
        `predict` returns the intervals at new rows.

    Raises
    ------
    DataError
        For too few rows.
    Incompatible
        If the kind does not apply.
    NotConverged
        If the part of the rows has no estimate.

    Examples
    --------
    >>> import probreg as pr
    >>> x = np.linspace(0.0, 1.0, 40)
    >>> found = conformal(pr.ols(x, 2 * x + np.sin(40 * x)), prob=0.8)
    >>> found.count, found.predict([[0.5]])["upper"].round(3).item()
    (20, 1.858)
    """
    chosen = KINDS.resolve(kind)
    weight_kind = fit.model.design.weight_kind
    if weight_kind != "frequency":
        raise Incompatible(
            f"conformal intervals: rows with {weight_kind} weights are not exchangeable with a new row; predict has intervals"
        )
    for name, value in {"y": y, "offset": offset, "trials": trials}.items():
        if data is None and value is not None:
            raise DataError(
                f"{name}= needs data=: pass the rows that the fit has not used"
            )
    is_tuned = fit.model.scales_compared > 1
    has_chosen_scale = is_tuned or fit.solution.has_found_scales
    if data is None and fit.target == "mode" and has_chosen_scale:
        raise Incompatible(
            "the prior's scale was chosen on all rows, including the calibration rows, so there is no guarantee. "
            "Fit a part of the rows and pass the others, conformal(fit, data), or fix the scale"
        )
    unseen = None
    if data is not None:
        unseen = unseen_rows(fit.model, data, y, offset, trials)
    rows = fit.model.design if unseen is None else unseen
    if rows.n:
        fit.model.likelihood.require_exact(
            rows.observed, "conformal prediction", "predict has intervals"
        )
    with progress_bar("conformal", show=progress):
        return chosen.calibrate(fit, unseen, prob)


def unseen_rows(
    model: Model, data: Any, y: Any, offset: Any = None, trials: Any = None
) -> Design:
    """Return rows with their response, coded as in the model."""
    if y is None and isinstance(model.design.recipe, ArrayColumns):
        y = _response_column(model, data)
    weights = None
    if has_array_weights(model.design):
        # every row calibrates once
        weights = np.ones(model.design.at(data, offset=offset).n)
    return model.at(data, y, offset=offset, trials=trials, weights=weights).design


def _response_column(model: Model, data: Any) -> Any:
    name = model.design.response
    if name not in getattr(data, "columns", data if isinstance(data, Mapping) else ()):
        raise DataError(f"the data have no column {name!r}: pass the response as y=")
    return data[name]

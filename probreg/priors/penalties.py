"""Conversion between a prior and the penalties of other packages. The model supplies the columns and rows.

Everything passes through two weights: the negative log prior of a coefficient w is l1 |w| + (l2 / 2) w^2 + constant. With
N observations and a log likelihood log L, or a Gaussian RSS, each package minimises its own criterion:

| package | Gaussian | other likelihoods |
| --- | --- | --- |
| rss | RSS + lam2 |w|^2 + lam1 |w|_1 | |
| sklearn Ridge, Lasso, ElasticNet | RSS + alpha |w|^2; RSS/(2N) + alpha (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2) | |
| sklearn LogisticRegression | | -C log L + l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2 |
| sklearn PoissonRegressor, glum, statsmodels, glmnet | RSS/(2N) + alpha (...) | -log L / N + alpha (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2) |
| statsmodels Logit, MNLogit, Poisson by l1 | | -log L + alpha |w|_1 |
| glmnet, Gaussian | RSS/(2N) + lambda (alpha |w|_1 + (1 - alpha)/2 |w|^2 / s) with s the sd of y, divisor N | |

A Gaussian criterion is 2 sigma^2 (or sigma^2 / N) times the negative log posterior, so that sigma enters; it cancels for
a normal prior in units of sigma.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from probreg.arguments.scalars import Word, read_argument
from probreg.errors import DataError, Incompatible
from probreg.system.terminal import clean_lines
from probreg.tables import Column, Table
from probreg.tables.render import notebook_html

PACKAGES = ("rss", "sklearn", "glmnet", "glum", "statsmodels")
FAMILIES = ("gaussian", "bernoulli", "categorical", "poisson")


@dataclass(frozen=True)
class Setting:
    """The numbers of a model that the conversion of a penalty needs: for Gaussian noise sigma and the sd of y (divisor N)."""

    family: str
    n: float | None = None
    sigma: float | None = None
    y_sd: float | None = None
    # for a symmetric softmax, which scikit-learn writes as one log odds ratio w
    two_classes: bool = False
    # other packages count a row of k trials as k rows
    of_trials: bool = False

    @property
    def squares(self) -> float:
        """w^2 over the sum of the squared coefficients, in scikit-learn's criterion of classes."""
        # two coefficients with sum zero, f and -f, correspond to w = 2 f: |w| = |f| + |-f| and w^2 = 2 (f^2 + f^2)
        return 2.0 if self.two_classes else 1.0

    def require(self, name: str, reason: str) -> float:
        """Return a number of the model. DataError with the reason why it is needed if it is not known."""
        value = getattr(self, name)
        if value is None:
            raise DataError(
                f"{reason} needs {name}: pass {name}=, or a model in which it is known"
            )
        return float(value)


@dataclass(frozen=True)
class Spelling:
    """One package's call that has the mode as its minimum, and the numbers in it."""

    package: str
    call: str
    criterion: str
    settings: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Spellings:
    """The penalty that is equivalent to a prior, in every package that has it.

    `l1`, `l2` are the weights of |w| and w^2/2 in the negative log prior, one for all penalised columns; nan for smooth functions,
    which have their penalties in `head`.
    """

    columns: tuple[str, ...]
    l1: float
    l2: float
    rows: tuple[Spelling, ...]
    notes: tuple[str, ...] = ()
    head: str = ""

    def __getitem__(self, package: str) -> Spelling:
        """The first call of a package. Otherwise DataError with a list of the packages that have one."""
        for row in self.rows:
            if row.package == package:
                return row
        there = ", ".join(r.package for r in self.rows) or "none, for this likelihood"
        raise DataError(f"no call of {package!r} has this penalty; there are: {there}")

    @property
    def _formula(self) -> str:
        return (
            self.head
            or f"-log p(w) = {self.l1:.6g} |w| + {self.l2:.6g} w^2/2 for each of {', '.join(self.columns)}"
        )

    def __repr__(self) -> str:
        lines = [
            t
            for r in self.rows
            for t in (
                f"  {r.package:<12} {r.call}",
                f"  {'':<12} minimises {r.criterion}",
            )
        ]
        lines = lines or ["  no other package has it for this likelihood"]
        return clean_lines(self._formula, *lines, *(f"note: {n}" for n in self.notes))

    def _repr_html_(self) -> str:
        table = Table(
            (
                Column("package", [row.package for row in self.rows]),
                Column("call", [row.call for row in self.rows]),
                Column("minimises", [row.criterion for row in self.rows]),
            )
        )
        return notebook_html([self._formula], [table], self.notes)


# ---- from a prior to the packages --------------------------------------------------------------------------------------


# names of a family: glmnet's argument, glum's name, statsmodels' model
_NAMES = {
    "gaussian": ("", "normal", "OLS"),
    "bernoulli": ("family='binomial', ", "binomial", "GLM(family=Binomial())"),
    "categorical": ("family='multinomial', ", "", ""),
    "poisson": ("family='poisson', ", "poisson", "GLM(family=Poisson())"),
}


def spell(
    l1: float, l2: float, at: Setting, *, intercept: bool = True
) -> tuple[Spelling, ...]:
    """The calls of every package that have the mode as their minimum, under these weights; without N only calls that do not need it.

    >>> [s.call for s in spell(0.0, 4.0, Setting("bernoulli", n=20.0))][0]
    'LogisticRegression(C=0.25)'
    """
    if at.family not in FAMILIES:
        return ()
    if at.family == "gaussian":
        sigma = at.require("sigma", "the weight of a penalty beside an RSS")
        square = sigma**2  # weights relative to RSS / 2
        l1 = l1 * square
        l2 = l2 * square
    calls = _calls_of_sums(l1, l2, at, intercept)
    if at.n is not None:
        calls += _calls_of_means(l1 / at.n, l2 / at.n, at, intercept)
    return tuple(calls)


def _calls_of_sums(
    l1: float, l2: float, at: Setting, intercept: bool
) -> list[Spelling]:
    """The calls with a criterion that is a sum over the rows."""
    fit = ", fit_intercept=False" * (not intercept)
    calls = []
    if at.family == "gaussian":
        lams = {"lam1": 2 * l1, "lam2": l2}
        criterion = "RSS + lam1 |w|_1 + lam2 |w|^2"
        calls.append(Spelling("rss", _arguments(lams), criterion, lams))
        if not l1:
            alpha = {"alpha": l2}
            call = f"Ridge({_arguments(alpha)}{fit})"
            calls.append(Spelling("sklearn", call, "RSS + alpha |w|^2", alpha))
    if at.family in ("bernoulli", "categorical"):
        weight, share = _blend(l1, l2 / at.squares)
        mixed = f", l1_ratio={share:.12g}, solver='saga'" if l1 else ""
        call = f"LogisticRegression(C={1 / weight:.12g}{mixed}{fit})"
        criterion = "-C log L + l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2"
        settings = {"C": 1 / weight, "l1_ratio": share}
        calls.append(Spelling("sklearn", call, criterion, settings))
    if at.family in ("bernoulli", "poisson") and not l2:
        kind = {"bernoulli": "Logit", "poisson": "Poisson"}[at.family]
        call = f"{kind}.fit_regularized(method='l1', alpha={_vector(l1, intercept)})"
        criterion = "-log L + alpha |w|_1"
        calls.append(Spelling("statsmodels l1", call, criterion, {"alpha": l1}))
    return calls


def _calls_of_means(a: float, b: float, at: Setting, intercept: bool) -> list[Spelling]:
    """The calls with a criterion that is a mean over the observations."""
    fit = ", fit_intercept=False" * (not intercept)
    gaussian = at.family == "gaussian"
    loss = "RSS/(2N)" if gaussian else "-log L / N"
    in_glmnet, in_glum, in_statsmodels = _NAMES[at.family]
    total, ratio = _blend(a, b)
    mixed = f"{loss} + alpha (l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2)"
    settings = {"alpha": total, "l1_ratio": ratio}
    alone = {"alpha": total}
    calls = []
    if gaussian and a and b:
        call = f"ElasticNet({_arguments(settings)}{fit})"
        calls.append(Spelling("sklearn", call, mixed, settings))
    elif gaussian and a:
        call = f"Lasso({_arguments(alone)}{fit})"
        calls.append(Spelling("sklearn", call, "RSS/(2N) + alpha |w|_1", alone))
    elif at.family == "poisson" and not a:
        call = f"PoissonRegressor({_arguments(alone)}{fit})"
        calls.append(Spelling("sklearn", call, "-log L / N + alpha/2 |w|^2", alone))
    if not gaussian or at.y_sd is not None:
        unit = ")"
        if at.y_sd is not None and gaussian:
            unit = " / s), s the sd of y"
            b *= at.y_sd
        lam, alpha = _blend(a, b)
        numbers = {"lambda": lam, "alpha": alpha}
        intercept_text = ", intercept=FALSE" * (not intercept)
        call = f"glmnet({in_glmnet}{_arguments(numbers)}, standardize=FALSE{intercept_text})"
        criterion = f"{loss} + lambda (alpha |w|_1 + (1 - alpha)/2 |w|^2{unit}"
        calls.append(Spelling("glmnet", call, criterion, numbers))
    if in_glum:
        call = f"GeneralizedLinearRegressor(family='{in_glum}', {_arguments(settings)}{fit})"
        calls.append(Spelling("glum", call, mixed, settings))
        alpha_text = _vector(total, intercept)
        call = f"{in_statsmodels}.fit_regularized('elastic_net', alpha={alpha_text}, L1_wt={ratio:.12g})"
        numbers = {"alpha": total, "L1_wt": ratio}
        calls.append(Spelling("statsmodels", call, mixed, numbers))
    return calls


def _arguments(settings: Mapping[str, float]) -> str:
    return ", ".join(f"{name}={value:.12g}" for name, value in settings.items())


def _vector(value: float, intercept: bool) -> str:
    """statsmodels also penalises the constant, unless the weight of the constant is 0."""
    if intercept:
        return f"[0, {value:.12g}, ...]"
    return f"{value:.12g}"


def _blend(first: float, second: float) -> tuple[float, float]:
    """(total, share of the first)."""
    total = first + second
    return total, first / total if total else 0.0


# ---- from the packages to a prior --------------------------------------------------------------------------------------


def weights(
    of: str, at: Setting, settings: Mapping[str, float], *, ridge: bool = False
) -> tuple[float, float]:
    """(l1, l2) relative to the negative log likelihood, or to RSS / 2 for a Gaussian one, from a package's own settings.

    >>> weights("sklearn", Setting("bernoulli"), {"C": 0.25}, ridge=True)
    (0.0, 4.0)
    >>> weights("sklearn", Setting("gaussian"), {"alpha": 2.0}, ridge=True)
    (0.0, 2.0)
    """
    if of not in PACKAGES:
        raise DataError(f"of is one of {', '.join(PACKAGES)}, got {of!r}")
    given = dict(settings)
    gaussian = at.family == "gaussian"
    if of == "rss":
        if not gaussian:
            raise Incompatible(
                f"{of} is a criterion of Gaussian models, and this one is {at.family}"
            )
        lam = _take(given, "lam", "alpha", default=0.0)
        if ridge:
            out = (0.0, lam)
        else:
            out = (
                0.5 * _take(given, "lam1", default=lam),
                _take(given, "lam2", default=0.0),
            )
    elif of == "sklearn" and at.family in ("bernoulli", "categorical"):
        C = _take(given, "C")
        share = _take(given, "l1_ratio", default=0.0 if ridge else 1.0)
        if not C > 0:
            raise DataError(
                f"C is positive, the inverse of the penalty's weight; got {C:g}"
            )
        out = (share / C, (1 - share) / C * at.squares)
    elif of == "sklearn" and gaussian and ridge:
        out = (0.0, _take(given, "alpha"))
    else:
        out = _per_observation(of, at, given, ridge)
    if given:
        raise DataError(f"{of} has no setting {', '.join(map(repr, given))} here")
    if min(out) < 0 or not max(out) > 0:
        raise DataError(
            f"a penalty has weights of 0 or more, one of them positive; these are {out[0]:g} and {out[1]:g}"
        )
    return out


def _per_observation(
    of: str, at: Setting, given: dict[str, float], ridge: bool
) -> tuple[float, float]:
    n = at.require("n", f"a criterion of {of}, which is per observation,")
    totals = ["alpha"]
    shares = ["l1_ratio", "L1_wt"]
    if of == "glmnet":
        totals = ["lam", "lambda"]
        shares = ["alpha", "l1_ratio"]
    total = _take(given, *totals)
    share = _take(given, *shares, default=0.0 if ridge else 1.0)
    unit = 1.0
    if of == "glmnet" and at.family == "gaussian" and share < 1:
        unit = at.require(
            "y_sd", "glmnet's squared term, which it divides by the sd of y,"
        )
    return n * total * share, n * total * (1 - share) / unit


def _take(given: dict[str, float], *names: str, default: float | None = None) -> float:
    """Return the first of these settings and remove it."""
    for name in names:
        if name in given:
            value = given.pop(name)
            if not (isinstance(value, int | float | np.number) and np.isfinite(value)):
                raise DataError(f"{name} = {value!r} is not a finite number")
            return float(value)
    if default is None:
        got = ", ".join(given) or "no setting"
        raise DataError(
            f"this penalty is given by {' or '.join(dict.fromkeys(names))}; got {got}"
        )
    return default


@dataclass(frozen=True)
class Read:
    """A penalty of another package as a prior. Its weights l1 and l2 are relative to the negative log likelihood, or to RSS / 2
    if `relative`. If `standardized`, the columns are divided by their sd (divisor N)."""

    l1: float
    l2: float
    at: Setting
    standardized: bool

    @property
    def relative(self) -> bool:
        return self.at.family == "gaussian"

    @property
    def stretch(self) -> float:
        """The ratio of standard deviations with divisor N - 1 (this package) and N (the others); 1 for raw columns."""
        if not self.standardized:
            return 1.0
        if self.at.of_trials:
            raise Incompatible(
                "standardize=True: glmnet weighs a row by its trials in the standard deviations of columns, and scaled=True does not. "
                "Standardise the columns yourself, or give one row for each trial"
            )
        n = self.at.require("n", "a penalty on standardised columns")
        if not n > 1:
            raise DataError(
                f"a penalty on standardised columns needs n > 1, got n={n:g}"
            )
        return float(np.sqrt(n / (n - 1.0)))

    def sigma(self) -> float:
        return self.at.require(
            "sigma",
            "the scale of a prior with a kink, which does not cancel against the noise,",
        )


def read_penalty(
    *,
    of: str,
    ridge: bool,
    model: Any = None,
    likelihood: str = "gaussian",
    n: float | None = None,
    sigma: float | None = None,
    y_sd: float | None = None,
    standardize: bool = False,
    **settings: Any,
) -> Read:
    """Read a package's own settings; numbers of the data that they need come from the arguments or from a Model.

    `standardize` is an option of glmnet only.
    """
    of = read_argument("of", of, Word)
    likelihood = read_argument("likelihood", likelihood, Word)
    if model is None and likelihood not in FAMILIES:
        raise DataError(
            f"likelihood is one of {', '.join(FAMILIES)}, got {likelihood!r}"
        )
    if model is None:
        known = Setting(likelihood)
    else:
        known = model.penalty_setting
    given: dict[str, Any] = {"n": n, "sigma": sigma, "y_sd": y_sd}
    at = replace(
        known, **{name: value for name, value in given.items() if value is not None}
    )
    if standardize and of != "glmnet":
        raise DataError(
            f"standardize= is an option of glmnet; {of} penalises the columns as they are"
        )
    l1, l2 = weights(of, at, settings, ridge=ridge)
    return Read(l1, l2, at, standardize)

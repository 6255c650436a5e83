"""The difference of two fits as a sum over causes: the priors along a path between their modes, then the methods."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from rich.cells import cell_len

from probreg.arguments.scalars import check_arguments
from probreg.arguments.types import DataFrame, Dataset
from probreg.comparison.cause_text import missing_estimate, share_text
from probreg.comparison.causes import MODEL, Cause, SpecificCause
from probreg.comparison.differences import (
    find_differences,
    has_monte_carlo_error,
    structural_differences,
    summary,
)
from probreg.comparison.method_steps import Estimates, exact_posterior, method_steps
from probreg.comparison.numbers import by_outcome
from probreg.comparison.path_between import groups_of, obstacle
from probreg.comparison.path_integral import Found, integrate_path
from probreg.comparison.prior_path import PriorPath
from probreg.comparison.same_question import (
    differing_terms,
    fits_by_name,
    refuse_unlike,
)
from probreg.comparison.scale_steps import scale_steps
from probreg.errors import DataError
from probreg.fits.fit import Fit
from probreg.fits.goodness import exact_fit
from probreg.inference.modes.wide import refuse_written_out
from probreg.system.terminal import WIDTH, clean_lines
from probreg.tables import Column, Table
from probreg.tables.notebook import notebook_html

Array = np.ndarray
_EXACT = 5e-9  # SE, to which shares are known; what is left of a sum is in the largest
_ROUNDING = 1e-9  # SE: a share that is rounding
_SLIGHT = 0.01  # SE, and of the log SE ratio: a smaller difference is reported as none
_Z = 1.96  # standard errors between an estimate and the end of its interval
_LONG = 10  # parameters in a print
_LABEL = 24  # cells for the names of parameters


@dataclass(frozen=True, eq=False)
class Explanation:
    """The difference of two fits as a sum over causes; the result of `explain`.

    Parameters
    ----------
    names : tuple of str
        Names of the baseline and of the other fit.
    shares : Dataset (param, cause)
        shift, in standard errors of the baseline, which sums to `difference`; log_se, which sums to `log_se_ratio`, the log
        of the other's standard error over the baseline's; over param also both estimates and errors.
    causes : tuple of SpecificCause
        The causes of the shares.
    without_path : str
        The differences of the fits if no path connects them, "" otherwise. The difference is then one share.
    missing : mapping
        The reason for each fit that lacks an estimate.
    chance_known : bool
        Whether "Monte Carlo error" is the distance to an exact answer; otherwise it may include the shape of the posterior.

    Attributes
    ----------
    sentences : dict
        The share of the largest cause for each parameter.

    Examples
    --------
    >>> import probreg as pr
    >>> model = pr.Model.from_arrays([[1.0], [2.0], [4.0], [7.0]], [1.0, 3.0, 4.0, 8.0], columns=["x"], aux={"sigma": 1.0})
    >>> explain(pr.fit(model), pr.fit(model.with_prior(pr.Normal(0.5)))).sentences["x"]
    'x: prior of x: shift -0.8 SE, SE ratio 0.917'
    """

    names: tuple[str, str]
    shares: Dataset
    causes: tuple[SpecificCause, ...] = ()
    without_path: str = ""
    missing: Mapping[str, str] = MappingProxyType({})
    chance_known: bool = True

    @cached_property
    def sizes(self) -> DataFrame:
        """The largest move of an end of a 95 % interval by each cause, in SE: a frame over (param, cause). The widening of the
        interval is shared in proportion to the log of the SE ratio."""
        shift, log_se, ratio = (
            self.shares[q].fillna(0.0) for q in ("shift", "log_se", "log_se_ratio")
        )
        return (
            abs(shift) + _Z * abs(log_se) * expm1_over_x(ratio.values)[:, None]
        ).to_pandas()

    def largest(self, param: str) -> str:
        """Return the cause that moves an end of the interval of a parameter most.

        Parameters
        ----------
        param : str
            As in `shares`.

        Returns
        -------
        str
            A cause, "" if nothing differs.

        Raises
        ------
        DataError
            For a parameter that is not in both fits.
        """
        if param not in self.sizes.index:
            raise DataError(
                f"{param!r} is not a parameter of both fits: {', '.join(map(str, self.sizes.index))}"
            )
        sizes = self.sizes.loc[param]
        if len(sizes) and sizes.max() > _ROUNDING:
            return str(sizes.idxmax())
        return ""

    @cached_property
    def sentences(self) -> dict[str, str]:
        """The share of the largest cause for each parameter."""
        params = map(str, self.shares["param"].values)
        return {p: f"{p}: {self._describe(p)}" for p in params}

    def _describe(self, param: str) -> str:
        row = self.shares.sel(param=param)
        values = dict(zip(self.names, (row["baseline"], row["other"])))
        errors = dict(zip(self.names, (row["baseline_se"], row["other_se"])))
        missing = [
            f"{name} has no estimate ({self.missing.get(name, '')})"
            for name, value in values.items()
            if np.isnan(value)
        ]
        if missing:
            return "; ".join(missing)
        without = [
            f"no standard error of {n}" for n, se in errors.items() if not se > 0
        ]
        if not row["baseline_se"] > 0:
            gap = float(row["other"] - row["baseline"])
            return "; ".join([f"the estimates differ by {gap:+.3g}", *without])
        cause = self.largest(param)
        text = "no difference"
        if cause:
            share = row.sel(cause=cause)
            numbers = [
                float(share[q])
                for q in ("shift", "log_se", "difference", "log_se_ratio")
            ]
            if np.abs(np.nan_to_num(numbers)).max() >= _SLIGHT:
                if cause == Cause.MONTE_CARLO.value and not self.chance_known:
                    cause += " or shape of the posterior"
                text = share_text(cause, *numbers)
        return "; ".join([text, *without])

    def to_pandas(self) -> DataFrame:
        """One row per parameter; columns (quantity, cause) with the shares of "shift" and "log_se", unrounded."""
        import pandas as pd

        return pd.concat(
            {q: self.shares[q].to_pandas() for q in ("shift", "log_se")}, axis=1
        )

    def _tables(self) -> list[Table]:
        """The shares of each quantity for the parameters that differ most; causes that do not fit are one column."""
        rows = self._by_size(self.sizes.max(axis=1))[:_LONG]
        rows = [p for p in self.sizes.index if p in set(rows)]
        causes = self._by_size(self.sizes.max(axis=0))
        heads = {c.label: _column_heading(c) for c in self.causes}
        widths = [max(6, *map(cell_len, heads[cause])) + 2 for cause in causes]
        n = int((np.cumsum(widths) <= WIDTH - _LABEL - 17).sum())
        shown = [c for c in self.sizes.columns if c in causes[:n]]
        tables = []
        for quantity, total, head in (
            ("shift", "difference", f"shift, in SE of {self.names[0]}"),
            ("log_se", "log_se_ratio", "log of the SE ratio"),
        ):
            if self.shares[total].isnull().all():
                continue
            shares = self.shares[quantity].to_pandas()
            cells = shares[shown]
            if n < len(causes):
                remainder = shares.drop(columns=shown).sum(axis=1, min_count=1)
                cells = cells.assign(others=remainder)
            columns = [Column("parameter", [*map(str, rows)])]
            for cause in cells:
                group, name = heads.get(str(cause), ("", str(cause)))
                values = cells.loc[rows, cause].tolist()
                columns.append(Column(name, values, "estimate", format_share, group))
            sums = self.shares[total].sel(param=rows).values.tolist()
            columns.append(Column("sum", sums, "estimate", format_share))
            tables.append(Table(tuple(columns), head=("", head)))
        return tables

    @staticmethod
    def _by_size(sizes: Any) -> list[Any]:
        return list(sizes.sort_values(ascending=False, kind="stable").index)

    def __repr__(self) -> str:
        lines = [
            line for table in self._tables() for line in (*table.head, *table.lines())
        ]
        omitted = len(self.sizes) - _LONG
        if omitted > 0:
            lines.append(f"{omitted} more parameters in .shares")
        missing = (self.shares["baseline"] + self.shares["other"]).isnull().to_pandas()
        # parameters without an estimate come first
        largest = self._by_size(self.sizes.max(axis=1).mask(missing, np.inf))[:3]
        sentences = (self.sentences[str(p)] for p in self.sizes.index if p in largest)
        return clean_lines(self._title("cause by cause"), *lines, "", *sentences)

    def _repr_html_(self) -> str:
        parts = [part for table in self._tables() for part in (table.head[1], table)]
        sentences = list(self.sentences.values())
        folded = {f"{len(sentences) - _LONG} more parameters": sentences[_LONG:]}
        return notebook_html([self._title()], parts, sentences[:_LONG], folded=folded)

    def _title(self, how: str = "") -> str:
        a, b = self.names
        title = f"{b} less {a}" + (f", {how}" if how else "")
        return f"{title}: {self.without_path}" if self.without_path else title


def _column_heading(cause: SpecificCause) -> tuple[str, str]:
    """Return a heading in two lines."""
    if cause.subject and cause.cause in (Cause.PRIOR, Cause.PARAMETER_PRIOR):
        return "prior of", cause.subject
    first, _, last = cause.label.rpartition(" ")
    return first, last


def format_share(value: float) -> str:
    """Format a share to three decimals, 0 without a sign or decimals.

    >>> format_share(-0.0004), format_share(0.0005)
    ('0', '+0.001')
    """
    text = f"{value:+.3f}"
    return "0" if float(text) == 0.0 else text


def expm1_over_x(log_ratio: Array) -> Array:
    """Return (r - 1) / log r for r, the ratio of two widths: the factor from a share of log r to relative widening.

    >>> expm1_over_x(np.array([0.0, np.log(3.0)])).round(3)
    array([1.  , 1.82])
    """
    safe = np.where(log_ratio == 0.0, 1.0, log_ratio)
    return np.where(log_ratio == 0.0, 1.0, np.expm1(safe) / safe)


@check_arguments
def explain(
    a: Fit | Mapping[str, Fit],
    b: Fit | None = None,
    *,
    names: tuple[str, str] | None = None,
) -> Explanation:
    """Attribute the differences of estimates and standard errors between two fits to causes, as shares that add up.

    All log priors that differ change together, from the priors of a to the priors of b: with weight t the mode theta(t) of log p(y | theta) +
    (1 - t) log p_a(theta) + t log p_b(theta) moves by H^-1 sum_k g_k dt, and the share of prior k is the integral of its own
    part, so that no order is chosen. The shares of the methods follow: degrees of freedom, another covariance, skewness (a mean
    is not a mode), an approximation, Monte Carlo error, early stopping. Mixed models have steps in order: degrees of freedom of
    the mean (ML to REML), prior, then uncertainty of the standard deviations.

    Parameters
    ----------
    a : Fit or mapping
        The baseline; its standard errors are the unit of the shifts. Or a mapping with both fits, {"ML": a, "posterior": b}, without b.
    b : Fit
        The other fit, of the same rows.
    names : pair of str, optional
        Names of the two fits in the table and the plot; by default their methods.

    Returns
    -------
    Explanation
        `shares` over (param, cause); they sum to the difference of the estimates, and to the log ratio of the standard
        errors, within 1e-8. If no path connects the two (no maximum, another likelihood, a prior with a kink or of unknown
        scale, other columns, other weights, effects by group in one fit only) the difference is one share, and `without_path`
        lists the differences. The rows are the parameters of both fits.

    Raises
    ------
    DataError
        For fits that do not share response, rows, levels and link; for anything but two fits, or two unlike names.

    References
    ----------
    Aumann & Shapley 1974, chapter 1: shares along the diagonal; Sundararajan, Taly & Yan 2017: integrated gradients.

    Examples
    --------
    >>> import probreg as pr
    >>> model = pr.Model.from_arrays([[1.0], [2.0], [4.0], [7.0]], [1.0, 3.0, 4.0, 8.0], columns=["x"], aux={"sigma": 1.0})
    >>> found = explain(pr.fit(model), pr.fit(model.with_prior(pr.Normal(0.5))))
    >>> found.shares["shift"].sel(param="x", cause="prior of x").round(3).item()  # (21 / (21 + 4) - 1) 1.095 sqrt(21)
    -0.803
    """
    if isinstance(a, Mapping) == (b is not None) or (
        isinstance(a, Mapping) and (names is not None or len(a) != 2)
    ):
        raise DataError(
            "explain takes two fits: explain(ml, posterior), with names=('ML', 'posterior') or not, "
            "or explain({'ML': ml, 'posterior': posterior}); compare takes more"
        )
    several = fits_by_name(a if isinstance(a, Mapping) else [a, b], "explain")
    if names is not None:
        if not (
            isinstance(names, tuple | list)
            and len(names) == len({*map(str, names)}) == 2
        ):
            raise DataError(
                f"names is a pair of unlike texts, such as ('ML', 'posterior'), got {names!r}"
            )
        several = dict(zip(map(str, names), several.values()))
    (first, base), (second, second_fit) = several.items()
    refuse_unlike(first, base, second, second_fit, differing_terms((base, second_fit)))
    for fit in (base, second_fit):
        refuse_written_out(fit.solution, "explain")
    return explain_fits(base, second_fit, (first, second), _EXACT)


def explain_fits(a: Fit, b: Fit, names: tuple[str, str], tol: float) -> Explanation:
    """Explain the difference of two fits of the same rows, with shares that are summed to `tol` SE."""
    aux = tuple(
        name
        for name in a.solution.aux
        if name in b.solution.aux and a.model.likelihood == b.model.likelihood
    )
    params = _parameters(a, aux)
    params_b = _parameters(b, aux)
    differing = differing_terms((a, b))
    common = [p for p, c in params.items() if p in params_b and c not in differing]
    ends = tuple(
        _select(_estimates(fit, aux), list(names_of), common)
        for fit, names_of in ((a, params), (b, params_b))
    )
    structure = structural_differences(a, b, names)
    reason = "; ".join(structure.values()) or obstacle(a, b)
    path_shares = None
    if not reason:
        path = PriorPath(a.model, b.model, groups_of(a, b), aux)
        start, end = _initial_theta(path, a), _initial_theta(path, b)
        path_shares = integrate_path(path, start, end, tol)
    shares: dict[SpecificCause, tuple[Array, Array]] | None = None
    chance_known = True
    if path_shares is not None:
        shares, chance_known = _shares_along_path(a, b, path_shares, ends, aux)
    elif a.model.design.columns == b.model.design.columns and not structure:
        shares = scale_steps(a, b, aux)
    if path_shares is None and shares is not None:
        reason = ""
    if shares is None:
        reason = reason or "no smooth path joins the two modes"
        cause = SpecificCause(Cause.SEVERAL, _joint_label(a, b, structure, ends))
        shares = {cause: _difference(*ends)}
    missing = {
        name: ": ".join((cause.value, text))
        for name, fit, values in zip(names, (a, b), ends)
        if np.isnan(values.value).any()
        for cause, text in [missing_estimate(fit)]
    }
    data = _shares_dataset(common, shares, ends)
    return Explanation(names, data, tuple(shares), reason, missing, chance_known)


def _parameters(fit: Fit, aux: tuple[str, ...]) -> dict[str, str]:
    """Return the parameters in the order of the table, with the column of each coefficient."""
    names = map(str, by_outcome(fit.model, fit.parameter_names))
    columns = fit.model.design.head_columns
    outcomes = fit.model.likelihood.outcomes or ("",)
    return dict(zip((*names, *aux), (*columns * len(outcomes), *[""] * len(aux))))


def _select(estimates: Estimates, names: list[str], params: list[str]) -> Estimates:
    indices = [names.index(param) for param in params]
    return Estimates(estimates.value[indices], estimates.error[indices])


def _estimates(fit: Fit, aux: tuple[str, ...]) -> Estimates:
    """Return the estimates of a fit; without errors if these are rounding."""
    estimates = Estimates.of(fit, aux)
    if exact_fit(fit):
        return replace(estimates, error=np.full_like(estimates.error, np.nan))
    return estimates


def _difference(a: Estimates, b: Estimates) -> tuple[Array, Array]:
    """Return the difference of the estimates and the log of the ratio of the errors."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return b.value - a.value, np.log(b.error / a.error)


def _joint_label(
    a: Fit,
    b: Fit,
    structure: Mapping[Cause, str],
    ends: tuple[Estimates, ...],
) -> str:
    """Return the label of the one share of two fits without a path: all differences of their models, and the method if a mean is
    compared with a mode, or RSS / df with RSS / n."""
    differ = find_differences(a, b)
    labels = [SpecificCause(c, s).label for c, s in differ.items() if c in MODEL]
    labels = [*(cause.value for cause in structure), *sorted(labels)]
    both_errors = bool(np.isfinite(ends[0].error * ends[1].error).any())
    by_method = Cause.SUMMARY in differ and "posterior" in (summary(a), summary(b))
    if by_method or not labels or (Cause.SMALL_SAMPLE in differ and both_errors):
        labels.append("method")
    if Cause.COVARIANCE in differ and both_errors and a.target == b.target == "mode":
        labels.append("covariance")
    return " and ".join(labels)


def _shares_dataset(
    params: list[str],
    shares: Mapping[SpecificCause, tuple[Array, Array]],
    ends: tuple[Estimates, ...],
) -> Any:
    import xarray as xr

    difference, log_se_ratio = _difference(*ends)
    shape = (-1, len(params))
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = np.array([s / ends[0].error for s, _ in shares.values()]).reshape(shape)
        difference = difference / ends[0].error
    log_se = np.array([r for _, r in shares.values()]).reshape(shape)
    numbers = {
        "shift": (("param", "cause"), shift.T), "log_se": (("param", "cause"), log_se.T),
        "difference": ("param", difference), "log_se_ratio": ("param", log_se_ratio),
        "baseline": ("param", ends[0].value), "other": ("param", ends[1].value),
        "baseline_se": ("param", ends[0].error), "other_se": ("param", ends[1].error),
    }  # fmt: skip
    return xr.Dataset(numbers, {"param": params, "cause": [c.label for c in shares]})


def _shares_along_path(
    a: Fit, b: Fit, path: Found, ends: tuple[Estimates, ...], aux: tuple[str, ...]
) -> tuple[dict[SpecificCause, tuple[Array, Array]], bool]:
    """Return the shares of the priors, then the steps of b's method minus the steps of a's method, without rounding; and whether exact results
    separate Monte Carlo error from the shape of the posterior."""
    separable = True
    shares = dict(zip(path.causes, zip(path.shift, path.log_ratio)))
    alike = not path.causes
    shape = shape_cause(a, b)
    for sign, fit, other_fit, estimates, value, log_se in zip(
        (-1.0, 1.0), (a, b), (b, a), ends, path.ends, path.log_se, strict=True
    ):
        exact = exact_posterior(fit, other_fit, alike, aux)
        separable &= exact is not None or not has_monte_carlo_error(fit)
        mode = Estimates(value, np.exp(log_se))
        for cause, step in method_steps(fit, estimates, mode, exact, aux).items():
            key = SpecificCause(shape if cause is Cause.SKEWNESS else cause)
            before = shares.get(key, (0.0, 0.0))
            shares[key] = (before[0] + sign * step[0], before[1] + sign * step[1])
    se = ends[0].error
    nonzero = {
        cause: (s, r)
        for cause, (s, r) in shares.items()
        if cause in path.causes
        or np.nanmax(np.abs([s / se, r]), initial=0.0) > _ROUNDING
    }
    return nonzero, separable


def shape_cause(a: Fit, b: Fit) -> Cause:
    """Return why the mean of a posterior is not the other estimate: skewness, or a normal approximation in one of them."""
    if {"normal at the mode", "posterior"} <= {summary(a), summary(b)}:
        return Cause.APPROXIMATION
    return Cause.SKEWNESS


def _initial_theta(path: PriorPath, fit: Fit) -> Array:
    """Return the estimate of (vec gamma, log aux); nuisance parameters unknown to the fit are fixed on its side."""
    aux = [np.log(fit.aux[name]) for name in path.like.unknown]
    return np.concatenate(
        [np.linalg.solve(path.columns, fit.solution.beta.ravel()), aux]
    )

"""Why two fits differ, as a sum: each prior's part of the way between their modes, then what their methods add to the modes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from rich.cells import cell_len

from probreg.arguments.scalars import check_arguments
from probreg.arguments.types import DataFrame, Dataset
from probreg.comparison.differences import (
    AVERAGED,
    DEGREES,
    PRIOR_OF_SD,
    find_differences,
    has_monte_carlo_error,
    structural_differences,
    summary,
)
from probreg.comparison.method_steps import (
    Estimates,
    covariance_step,
    exact_posterior,
    method_steps,
)
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
from probreg.comparison.share_words import (
    NOTHING,
    SLIGHT,
    cell,
    expm1_over_x,
    lack_of_estimate,
    moved_by,
    two_lines,
    why_empty,
)
from probreg.errors import DataError
from probreg.fits.fit import Fit
from probreg.fits.goodness import exact_fit
from probreg.inference.modes.wide import refuse_written_out
from probreg.system.terminal import WIDTH, clean_lines, cut_text
from probreg.tables import Column, Table
from probreg.tables.notebook import notebook_html

Array = np.ndarray
EXACT = 5e-9  # SE, to which shares are known; what is left of a sum is in the largest
_Z = 1.96  # standard errors between an estimate and the end of its interval
_LONG = 10  # parameters in a print
_LABEL = 24  # cells for the names of parameters


@dataclass(frozen=True, eq=False)
class Explanation:
    """The difference of two fits as a sum over causes; made by `explain`.

    Parameters
    ----------
    names : tuple of str
        Of the baseline and of the other fit.
    shares : Dataset (param, cause)
        shift, in standard errors of the baseline, which sums to `difference`; log_se, which sums to `log_se_ratio`, the log
        of the other's standard error over the baseline's; over param also both estimates and errors.
    without_path : str
        Why the causes have no shares of their own, in words; "" where they have. The difference is then one share.
    lost : mapping
        By name of the fits that lack an estimate why they do, in words.
    chance_known : bool
        Whether "Monte Carlo error" is the distance to an exact answer; else it is what cannot be told from it.

    Attributes
    ----------
    sentences : dict
        For each parameter the largest cause, in words.

    Examples
    --------
    >>> import probreg as pr
    >>> model = pr.Model.from_arrays([[1.0], [2.0], [4.0], [7.0]], [1.0, 3.0, 4.0, 8.0], columns=["x"], aux={"sigma": 1.0})
    >>> explain(pr.fit(model), pr.fit(model.with_prior(pr.Normal(0.5)))).sentences["x"]
    'x: the prior of x moves it by -0.8 SE'
    """

    names: tuple[str, str]
    shares: Dataset
    without_path: str = ""
    lost: Mapping[str, str] = MappingProxyType({})
    chance_known: bool = True

    @cached_property
    def sizes(self) -> DataFrame:
        """How far each cause moves an end of a 95 % interval at most, in SE: a frame over (param, cause). The widening of the
        interval is shared as the log of the SE ratio is."""
        shift, log_se, ratio = (
            self.shares[q].fillna(0.0) for q in ("shift", "log_se", "log_se_ratio")
        )
        return (
            abs(shift) + _Z * abs(log_se) * expm1_over_x(ratio.values)[:, None]
        ).to_pandas()

    def largest(self, param: str) -> str:
        """The cause that moves an end of the interval of a parameter most.

        Parameters
        ----------
        param : str
            As in `shares`.

        Returns
        -------
        str
            A cause, "" where nothing differs.

        Raises
        ------
        DataError
            For a parameter that is not in both fits.
        """
        if param not in self.sizes.index:
            raise DataError(
                f"{param!r} is not a parameter of both fits: {', '.join(map(str, self.sizes.index))}"
            )
        of = self.sizes.loc[param]
        if len(of) and of.max() > NOTHING:
            return str(of.idxmax())
        return ""

    @cached_property
    def sentences(self) -> dict[str, str]:
        """For each parameter the largest cause with its share, in words."""
        return {
            str(p): self._describe_parameter(str(p))
            for p in self.shares["param"].values
        }

    def _describe_parameter(self, param: str) -> str:
        one = self.shares.sel(param=param)
        cause = self.largest(param)
        ends = [
            {q: float(one[q]) for q in (end, f"{end}_se")}
            for end in ("baseline", "other")
        ]
        lost = {
            name: np.isnan(list(end.values())).tolist()
            for name, end in zip(self.names, ends)
        }
        gone = [name for name, (value, _) in lost.items() if value]
        if gone:
            return f"{param}: " + "; ".join(
                f"{name} has no estimate{self._why(name)}" for name in gone
            )
        bare = [name for name, (_, error) in lost.items() if error]
        if bare:
            without = f"{' and '.join(bare)} {'has' if len(bare) == 1 else 'have'} no standard error"
        else:
            without = ""
        whole = float(one["difference"]), float(one["log_se_ratio"])
        if self.names[0] in bare or not ends[0]["baseline_se"] > 0:
            without = without or f"{self.names[0]} has a standard error of 0"
            return f"{param}: the estimates differ by {ends[1]['other'] - ends[0]['baseline']:+.3g}; {without}"
        if not cause:
            return f"{param}: no difference" + (f"; {without}" if without else "")
        shift, log_se = (float(one[q].sel(cause=cause)) for q in ("shift", "log_se"))
        if (np.abs(np.nan_to_num([shift, log_se, *whole])) < SLIGHT).all():
            return f"{param}: no difference to speak of" + (
                f"; {without}" if without else ""
            )
        said = moved_by(cause, shift, log_se, *whole, known=self.chance_known)
        return f"{param}: {said}" + (f"; {without}" if without else "")

    def _why(self, name: str) -> str:
        if self.lost.get(name):
            return f" ({self.lost[name]})"
        return ""

    def to_pandas(self) -> DataFrame:
        """One row per parameter; columns (quantity, cause) with the shares of "shift" and "log_se", unrounded."""
        import pandas as pd

        return pd.concat(
            {q: self.shares[q].to_pandas() for q in ("shift", "log_se")}, axis=1
        )

    def _tables(self) -> list[Table]:
        """The shares of each quantity for the parameters that differ most; causes without room are one column."""
        rows = self._by_size(self.sizes.max(axis=1))[:_LONG]
        rows = [p for p in self.sizes.index if p in set(rows)]
        causes = self._by_size(self.sizes.max(axis=0))
        widths = [max(6, *map(cell_len, two_lines(cause))) + 2 for cause in causes]
        n = int((np.cumsum(widths) <= WIDTH - _LABEL - 17).sum())
        kept = [c for c in self.sizes.columns if c in causes[:n]]
        out = []
        for quantity, total, head in (
            ("shift", "difference", f"shift, in SE of {self.names[0]}"),
            ("log_se", "log_se_ratio", "log of the SE ratio"),
        ):
            if self.shares[total].isnull().all():
                continue
            shares = self.shares[quantity].to_pandas()
            cells = shares[kept]
            if n < len(causes):
                others = shares.drop(columns=kept).sum(axis=1, min_count=1)
                cells = cells.assign(others=others)
            columns = [Column("parameter", [*map(str, rows)])]
            for cause in cells:
                group, name = two_lines(str(cause))
                values = cells.loc[rows, cause].tolist()
                columns.append(Column(name, values, "estimate", cell, group))
            sums = []
            for param in rows:
                one = self.shares.sel(param=param)
                sums.append(cell(float(one[total])) or why_empty(one, quantity))
            columns.append(Column("sum", sums, "estimate"))
            out.append(Table(tuple(columns), head=("", head)))
        return out

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
        said = list(self.sentences.values())
        more = {f"{len(said) - _LONG} more parameters": said[_LONG:]}
        return notebook_html([self._title()], parts, said[:_LONG], folded=more)

    def _title(self, how: str = "") -> str:
        a, b = self.names
        title = f"{b} less {a}" + (f", {how}" if how else "")
        return f"{title}: {self.without_path}" if self.without_path else title


@check_arguments
def explain(
    a: Fit | Mapping[str, Fit],
    b: Fit | None = None,
    *,
    names: tuple[str, str] | None = None,
) -> Explanation:
    """Why the estimates and standard errors of b are not those of a, as shares of causes that add up.

    All log priors that differ change together, from those of a to those of b: with weight t the mode theta(t) of log p(y | theta) +
    (1 - t) log p_a(theta) + t log p_b(theta) moves by H^-1 sum_k g_k dt, and the share of prior k is the integral of its own
    part, so that no order is chosen. What the methods add to the two modes follows: degrees of freedom, another covariance,
    skewness (a mean is not a mode), an approximation, Monte Carlo error, iterations that stopped. Fits with effects that vary by a
    group have steps in order: degrees of freedom of the mean (ML to REML), prior, then uncertainty of the standard deviations.

    Parameters
    ----------
    a : Fit or mapping
        The baseline, in whose standard errors shifts are; or both fits by name, {"ML": a, "posterior": b}, and no b.
    b : Fit
        The other fit, of the same rows.
    names : pair of str, optional
        What print and picture call the two; by default their methods.

    Returns
    -------
    Explanation
        `shares` over (param, cause); they sum to the difference of the estimates, and to the log ratio of the standard
        errors, within 1e-8. Where no path joins the two (no maximum, another likelihood, a prior with a kink or of unknown
        scale) all that differs is one cause. Other columns, other weights and effects by group of one fit only have no path:
        the rows are the parameters of both fits, and `without_path` lists the differences.

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
    (first, base), (second, other) = several.items()
    refuse_unlike(first, base, second, other, differing_terms((base, other)))
    for fit in (base, other):
        refuse_written_out(fit.solution, "explain")
    return explanation(base, other, (first, second), EXACT)


def explanation(a: Fit, b: Fit, names: tuple[str, str], tol: float) -> Explanation:
    """The same for fits that are alike, with shares that are summed to `tol` SE."""
    import xarray as xr

    aux = tuple(
        name
        for name in a.solution.aux
        if name in b.solution.aux and a.model.likelihood == b.model.likelihood
    )
    structure = structural_differences(a, b, names)
    every = [[*map(str, by_outcome(f.model, f.parameter_names)), *aux] for f in (a, b)]
    params = _common_parameters(a, b, every)
    ends = _estimates(a, aux), _estimates(b, aux)
    if every[0] != params or every[1] != params:
        ends = _select(ends[0], every[0], params), _select(ends[1], every[1], params)
    why = "; ".join(structure.values()) or obstacle(a, b)
    if why:
        path = None
    else:
        path = PriorPath(a.model, b.model, groups_of(a, b), aux)
    if path is None:
        found = None
    else:
        found = integrate_path(
            path, _initial_theta(path, a), _initial_theta(path, b), tol
        )
    same = a.model.design.columns == b.model.design.columns and not structure
    if found is None and same:
        steps = scale_steps(a, b, aux)
    else:
        steps = None
    chance_known = True
    if steps is not None:
        why, causes = "", steps
    elif found is None:
        why = why or "no smooth path joins the two modes"
        unlike = find_differences(a, b)
        of_model = [*structure, *sorted(unlike & MODEL)]
        # a mean beside a mode, or RSS / df beside RSS / n, parts answers to one model too: the prior is not all that differs
        by_method = "summary" in unlike and "posterior" in (summary(a), summary(b))
        by_method |= "degrees of freedom" in unlike and bool(
            np.isfinite(ends[0].error * ends[1].error).any()
        )
        if of_model:
            name = " and ".join([*of_model, *["method"] * by_method])
        else:
            name = "the method"
        with np.errstate(divide="ignore", invalid="ignore"):
            shift = ends[1].value - ends[0].value
            log_se = np.log(ends[1].error / ends[0].error)
        causes = {name: (shift, log_se)}
        if (
            same
            and a.target == b.target == "mode"
            and "covariance" in unlike
            and np.isfinite(log_se).any()
        ):
            # another covariance moves no estimate; its part of the errors is told where one mode has both kinds
            none = np.zeros(len(shift))
            step = covariance_step(a, b, aux)
            if step is None:
                causes = {name: (shift, none), f"covariance and {name}": (none, log_se)}
                why += ", and neither fit has the errors of the other's kind"
            else:
                causes = {"covariance": (none, step), name: (shift, log_se - step)}
    else:
        causes, chance_known = _causes(a, b, found, ends, aux)
    with np.errstate(divide="ignore", invalid="ignore"):
        total = (
            (ends[1].value - ends[0].value) / ends[0].error,
            np.log(ends[1].error / ends[0].error),
        )
        shift = (
            np.array([s / ends[0].error for s, _ in causes.values()])
            .reshape(-1, len(params))
            .T
        )
    log_se = np.array([r for _, r in causes.values()]).reshape(-1, len(params)).T
    gone = {
        name: f
        for name, f, end in zip(names, (a, b), ends)
        if np.isnan(end.value).any()
    }
    lost = {
        name: cut_text(": ".join(lack_of_estimate(f)), 80) for name, f in gone.items()
    }
    numbers = {
        "shift": (("param", "cause"), shift), "log_se": (("param", "cause"), log_se), "difference": ("param", total[0]),
        "log_se_ratio": ("param", total[1]), "baseline": ("param", ends[0].value), "other": ("param", ends[1].value),
        "baseline_se": ("param", ends[0].error), "other_se": ("param", ends[1].error),
    }  # fmt: skip
    return Explanation(
        names,
        xr.Dataset(numbers, {"param": params, "cause": list(causes)}),
        why,
        lost,
        chance_known,
    )


def _common_parameters(a: Fit, b: Fit, every: list[list[str]]) -> list[str]:
    """Return the parameters of both fits, without coefficients of functions that have other columns in each."""
    apart = differing_terms((a, b))
    outcomes = a.model.likelihood.outcomes or ("",)
    columns = [c for _ in outcomes for c in a.model.design.head_columns]
    gone = {param for param, column in zip(every[0], columns) if column in apart}
    return [param for param in every[0] if param in set(every[1]) - gone]


def _select(of: Estimates, names: list[str], params: list[str]) -> Estimates:
    at = [names.index(param) for param in params]
    return Estimates(of.value[at], of.error[at])


def _estimates(fit: Fit, aux: tuple[str, ...]) -> Estimates:
    """Those of a fit; errors that are rounding are none."""
    own = Estimates.of(fit, aux)
    if exact_fit(fit):
        return replace(own, error=np.full_like(own.error, np.nan))
    return own


MODEL = frozenset(
    {
        "likelihood",
        "prior",
        "prior of sigma",
        "sigma held",
        DEGREES,
        AVERAGED,
        PRIOR_OF_SD,
    }
)


def _causes(
    a: Fit,
    b: Fit,
    found: Found,
    ends: tuple[Estimates, Estimates],
    aux: tuple[str, ...],
) -> tuple[dict[str, tuple[Array, Array]], bool]:
    """The shares of the priors, then the steps of b's method less those of a's; none that is rounding throughout. And whether
    all that chance did is known from exact answers."""
    known = True
    out = dict(zip(found.labels, zip(found.shift, found.log_ratio)))
    alike = not found.labels
    # where one is a normal at its mode and the other a posterior, what parts their means is that approximation
    kinds = {summary(a), summary(b)}
    if {"normal at the mode", "posterior"} <= kinds:
        shape = "approximation"
    else:
        shape = "skewness"
    for sign, fit, other, own, value, log_se in zip(
        (-1.0, 1.0), (a, b), (b, a), ends, found.ends, found.log_se, strict=True
    ):
        exact = exact_posterior(fit, other, alike, aux)
        known &= exact is not None or not has_monte_carlo_error(fit)
        for cause, step in method_steps(
            fit, own, Estimates(value, np.exp(log_se)), exact, aux
        ).items():
            name = shape if cause == "skewness" else cause
            before = out.get(name, (0.0, 0.0))
            out[name] = (before[0] + sign * step[0], before[1] + sign * step[1])
    se = ends[0].error
    kept = {
        name: (s, r)
        for name, (s, r) in out.items()
        if name in found.labels or np.nanmax(np.abs([s / se, r]), initial=0.0) > NOTHING
    }
    return kept, known


def _initial_theta(path: PriorPath, fit: Fit) -> Array:
    """Return the estimate of (vec gamma, log aux); nuisance parameters unknown to the fit are fixed on its side."""
    aux = [np.log(fit.aux[name]) for name in path.like.unknown]
    return np.concatenate(
        [np.linalg.solve(path.columns, fit.solution.beta.ravel()), aux]
    )

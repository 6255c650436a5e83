"""Fits of one data set side by side: estimates, intervals, what the prior did, and why the answers differ.

Everything is read from the fits; nothing is fitted again. Numbers are kept unrounded, only `repr` rounds. With P and H
the curvatures of the log prior and of the log posterior over the coefficients, the share of the prior is P_jj / H_jj
with the other coefficients held, and (P H^-1)_jj with the others free: for independent priors the posterior variance
in units of the prior's, which sums to the number of parameters that the prior settles (MacKay 1992).
"""

import html
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, singledispatch
from typing import Any

import numpy as np

from probreg.errors import DataError, Incompatible
from probreg.fit import KINDS, Fit
from probreg.intervals import check_prob, quantile
from probreg.likelihoods import Bernoulli, Categorical, Gaussian, Likelihood, Poisson, SmoothLikelihood
from probreg.model import Model
from probreg.priors import AuxPrior, Flat, GaussianPrior, Laplace, Normal, Prior, Reference, StudentT
from probreg.tree import shown

Array = np.ndarray
NUMBERS = (
    "estimate", "error", "lower", "upper", "shift", "ratio", "weight", "lam", "share", "marginal_share", "mcse", "skewness"
)  # fmt: skip
WORDS = ("kind", "prior", "penalty")
KIND_WORDS = {
    "t": "t", "wald": "Wald", "eti": "equal-tail", "hdi": "highest-density", "chi-square": "chi-square",
    "log-wald": "Wald on the log scale",
}  # fmt: skip
SMALL = 0.02  # a share of the prior that explains nothing
APART = 0.1  # in SE of the baseline: closer estimates and interval ends need no explanation
SHARE_NOTE = (
    "share of the prior in the precision, at the estimate of each fit, P and H the curvatures of the log prior and of the "
    "log posterior: P_jj / H_jj with the other coefficients held (it moves with the zero of a column), and free, "
    "(P H^-1)_jj, with the others following; a kinked prior has no curvature"
)


def compare(
    fits: Mapping[str, Fit] | Sequence[Fit], prob: float = 0.95, *, kind: str | None = None, baseline: str | None = None
) -> "Comparison":
    """Fits of the same rows and columns as one table, shifts and ratios against the fit named `baseline` (the first).

    `prob` is the probability of every interval; `kind` ("t", "wald", "eti", "hdi") is used by the fits that have it, the
    others keep their own, and each interval says its kind. A sequence of fits is named by their methods. DataError for
    fits that do not share response, columns, rows, levels and link; Incompatible for a kind that none of them has.

    >>> from probreg import Model, Normal, fit
    >>> model = Model.from_arrays([[1.0], [2.0], [4.0], [7.0]], [1.0, 3.0, 4.0, 8.0], columns=["x"])
    >>> fits = {"ML": fit(model), "ridge": fit(model.with_prior(Normal(1.0, sigma_units=True)))}
    >>> compare(fits).data["share"].sel(fit="ridge", param="x").item()  # prior precision 1, sum of x^2 70
    0.0140845070422535...
    """
    named = _named(fits)
    base = next(iter(named)) if baseline is None else baseline
    if base not in named:
        raise DataError(f"baseline {base!r} is not among the fits: {', '.join(named)}")
    for name, fit in named.items():
        _refuse_unlike(base, named[base], name, fit)
    _check_kind(named, kind)
    return Comparison(named, base, check_prob(prob), _dataset(named, base, prob, kind))


@dataclass(frozen=True, eq=False)
class Comparison:
    """Fits by name and their numbers: `data` is a Dataset over (fit, param), unrounded.

    Its variables: estimate, error (SE of a mode, SD of a posterior, as coordinate `error_name` says), lower, upper,
    kind; shift = (estimate - baseline) / SE of the baseline and ratio = error / baseline's; prior (raw units), penalty
    (its negative log in words), weight (of the penalty), lam (in RSS + lam R, Gaussian only), share and
    marginal_share (of the prior in the precision: others held, others free); mcse (Monte Carlo error of a sampled mean) and skewness (of a posterior). nan: does not exist.
    """

    fits: Mapping[str, Fit]
    baseline: str
    prob: float
    data: Any

    def to_pandas(self) -> Any:
        """One row per parameter; columns (fit, quantity), as a MultiIndex; unrounded."""
        import pandas as pd

        columns = {(f, q): self.data[q].sel(fit=f).values for f in self.fits for q in (*NUMBERS, *WORDS)}
        table = pd.DataFrame(columns, index=pd.Index(self.data["param"].values, name="param"))
        table.columns = pd.MultiIndex.from_tuples(list(columns), names=["fit", "quantity"])
        table.attrs = dict(self.data.attrs)
        return table

    def tidy(self) -> Any:
        """One row per parameter and fit, every quantity a column; unrounded."""
        order = ["param", "fit", *(v for v in self.data.coords if v not in ("param", "fit")), *NUMBERS, *WORDS]
        table = self.data.transpose("param", "fit").to_dataframe().reset_index()[order]
        table.attrs = dict(self.data.attrs)
        return table

    @cached_property
    def reasons(self) -> dict[str, tuple[str, ...]]:
        """For each parameter with an estimate or interval end more than 0.1 SE from the baseline's: sentences with what
        the difference is consistent with. Rules over the numbers of the table, not a proof of a cause."""
        found = {str(p): _reasons(self, str(p)) for p in self.data["param"].values}
        return {p: said for p, said in found.items() if said}

    @cached_property
    def spellings(self) -> dict[str, str]:
        """For each fit whose prior is a penalty of scikit-learn: the estimator with its alpha or C."""
        said = {name: spelling(fit) for name, fit in self.fits.items()}
        return {name: s for name, s in said.items() if s}

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What a reader has to know of the table: what does not exist and why, sigma, equivalent penalties."""
        return tuple(_notes(self))

    def __repr__(self) -> str:
        head, rows = _table(self)
        widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head))]
        lines = [self._line(head, widths)]
        for i, row in enumerate(rows):
            same = i > 0 and rows[i - 1][0] == row[0]
            lines += ([] if same or i == 0 else [""]) + [self._line(["" if same else row[0], *row[1:]], widths)]
        why = [f"  {p}: {s}" for p, said in self.reasons.items() for s in said]
        notes = [f"  {n}" for n in self.notes]
        parts = [*_header(self), "", *lines, *(["", "Why they differ", *why] if why else []), "", "Notes", *notes]
        return "\n".join(parts)

    @staticmethod
    def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
        texts = {0, 1, 8}
        return "  ".join(
            c.ljust(w) if i in texts else c.rjust(w) for i, (c, w) in enumerate(zip(cells, widths))
        ).rstrip()

    def _repr_html_(self) -> str:
        head, rows = _table(self)
        size = Counter(r[0] for r in rows)
        body, last = [], ""
        for row in rows:
            label = (
                f'<th rowspan="{size[row[0]]}" scope="rowgroup">{html.escape(row[0])}</th>' if row[0] != last else ""
            )
            body.append(f"<tr>{label}{''.join(f'<td>{html.escape(c)}</td>' for c in row[1:])}</tr>")
            last = row[0]
        why = [f"<b>{html.escape(p)}</b>: {html.escape(s)}" for p, said in self.reasons.items() for s in said]
        top = f"<tr>{''.join(f'<th>{html.escape(c)}</th>' for c in head)}</tr>"
        return (
            f"<p>{'<br>'.join(html.escape(v) for v in _header(self))}</p>"
            f"<table><thead>{top}</thead><tbody>{''.join(body)}</tbody></table>"
            + (f"<p>Why they differ</p>{_list(why)}" if why else "")
            + _list([html.escape(n) for n in self.notes])
        )


# ---- which fits may stand side by side ---------------------------------------------------------------------------------


def _named(fits: Any) -> dict[str, Fit]:
    if isinstance(fits, Fit):
        raise DataError("compare takes several fits: a mapping such as {'ML': ml, 'posterior': post}, not a single Fit")
    if not isinstance(fits, Mapping | list | tuple):
        raise DataError(f"compare takes a mapping from names to fits, or a list of fits, got {type(fits).__name__}")
    for name, fit in fits.items() if isinstance(fits, Mapping) else enumerate(fits):
        if not isinstance(fit, Fit):
            raise DataError(
                f"compare takes fits, and {name!r} is of type {type(fit).__name__}; make one with fit(model)"
            )
        if both := set(fit.model.likelihood.aux) & set(fit.model.design.columns):
            raise DataError(
                f"the column {min(both)!r} has the name of a parameter of the {fit.model.likelihood.name} likelihood, so "
                "that their rows could not be told apart; rename the column"
            )
        if isinstance(fits, Mapping) and not isinstance(name, str):
            raise DataError(f"the fits are named by texts, got the name {name!r}")
    if not fits:
        raise DataError("there is no fit to compare; give one or more, such as {'ML': fit(model)}")
    return dict(fits) if isinstance(fits, Mapping) else _by_method(fits)


def _by_method(fits: Iterable[Fit]) -> dict[str, Fit]:
    """The method's name, numbered from the second on: newton, newton 2."""
    out: dict[str, Fit] = {}
    met: Counter[str] = Counter()
    for fit in fits:
        met[fit.method.name] += 1
        count = met[fit.method.name]
        out[fit.method.name if count == 1 else f"{fit.method.name} {count}"] = fit
    return out


def _refuse_unlike(base: str, first: Fit, name: str, other: Fit) -> None:
    """DataError with the first thing in which two fits differ so that their coefficients mean different things."""
    for what, a, b in zip(
        ("response", "columns", "levels", "link", "number of observations"), _facts(first), _facts(other)
    ):
        if a is not None and b is not None and a != b:
            raise DataError(
                f"{base!r} and {name!r} cannot stand in one table, their {what} differ: {_shown(a)} against {_shown(b)}. "
                "Fit both to the same rows and columns."
            )
    d, e = first.model.design, other.model.design
    if d is e or not (d.n and e.n and d.n == e.n):
        return
    for what, x, y in (
        ("response", d.y, e.y),
        ("columns", d.X, e.X),
        ("offset", d.offset, e.offset),
        ("weights", d.weights, e.weights),
    ):
        if x is y or (x is not None and y is not None and np.array_equal(x, y)):
            continue
        where = "one of them has none" if x is None or y is None else f"first in row {_first_row(x, y)}"
        raise DataError(f"{base!r} and {name!r} cannot stand in one table, their rows differ in the {what} ({where})")


def _facts(fit: Fit) -> tuple[Any, ...]:
    model = fit.model
    return (
        model.design.response,
        model.design.columns,
        levels(model.likelihood),
        model.likelihood.link,
        observations(fit),
    )


def levels(likelihood: Likelihood) -> tuple[Any, ...]:
    """The levels of the response in their order, and those that have coefficients; empty for numbers."""
    known = likelihood.levels if isinstance(likelihood, Bernoulli | Categorical) else ()
    return known, likelihood.outcomes


def observations(fit: Fit) -> float | None:
    """The total weight of the rows; None for a fit that was saved without them and did not note it."""
    return fit.model.design.total if fit.model.design.n else fit.solution.stats.get("n")


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _first_row(x: Array, y: Array) -> int:
    unlike = (x != y).reshape(len(x), -1) if x.shape == y.shape else np.ones((1, 1))
    return int(np.argmax(unlike.any(1)))


def _check_kind(fits: Mapping[str, Fit], kind: str | None) -> None:
    able = {k for f in fits.values() for k in KINDS[f.target]}
    if kind is not None and kind not in able:
        raise Incompatible(f"none of these fits has intervals of kind {kind!r}; they have: {', '.join(sorted(able))}")


# ---- the numbers ---------------------------------------------------------------------------------------------------------


def _dataset(fits: Mapping[str, Fit], base: str, prob: float, kind: str | None) -> Any:
    import pandas as pd
    import xarray as xr

    frames = {name: pd.DataFrame(_columns(fit, prob, kind)).set_index("param") for name, fit in fits.items()}
    names = list(dict.fromkeys(p for frame in frames.values() for p in frame.index))
    first = frames[base].reindex(names)
    for name in frames:
        frame = frames[name].reindex(names)
        frame["shift"] = (frame["estimate"] - first["estimate"]) / first["error"]
        frame["ratio"] = frame["error"] / first["error"]
        frames[name] = frame
    data = {q: (("fit", "param"), np.array([f[q].to_numpy(float) for f in frames.values()])) for q in NUMBERS}
    text = {q: (("fit", "param"), np.array([f[q].fillna("").to_numpy(object) for f in frames.values()])) for q in WORDS}
    p, outcomes = fits[base].model.design.columns, fits[base].model.likelihood.outcomes or ("",)
    more = len(names) - len(p) * len(outcomes)
    coords = {
        "fit": list(fits), "param": names,
        "coef": ("param", [c for _ in outcomes for c in p] + names[len(names) - more:]),
        "outcome": ("param", [o for o in outcomes for _ in p] + [""] * more),
        "role": ("param", ["coefficient"] * (len(names) - more) + ["auxiliary"] * more),
    }  # fmt: skip
    coords |= {key: ("fit", [_fit_facts(f)[key] for f in fits.values()]) for key in _fit_facts(fits[base])}
    model = fits[base].model
    attrs = {
        "models": model.likelihood.describe(model.design.response), "response": model.design.response,
        "observations": observations(fits[base]), "prob": prob, "baseline": base,
    }  # fmt: skip
    return xr.Dataset({**data, **text}, coords, {k: v for k, v in attrs.items() if v is not None})


def _fit_facts(fit: Fit) -> dict[str, Any]:
    return {
        "method": fit.method.name, "target": fit.target, "error_name": "SD" if fit.target == "posterior" else "SE",
        "status": fit.described["status"], "seed": fit.seed,
    }  # fmt: skip


def _columns(fit: Fit, prob: float, kind: str | None) -> dict[str, Any]:
    """Every quantity of one fit, a list over its parameters."""
    kind = kind if kind in KINDS[fit.target] else fit.default_kind
    table = fit.summary(prob, kind)
    own = table.to_numpy(float)
    names = [f"{c}: {o}" if o else c for o, c in table.index] if fit.model.likelihood.outcomes else list(table.index)
    k = len(names) - len(fit.solution.aux)
    ess = table["ess_bulk"].to_numpy(float) if "ess_bulk" in table else np.full(len(names), np.nan)
    out: dict[str, Any] = {
        "param": names, "estimate": own[:, 0], "error": own[:, 1], "lower": own[:, 2], "upper": own[:, 3],
        "mcse": own[:, 1] / np.sqrt(ess), "skewness": _skewness(fit),
        "kind": [kind] * k + [aux_kind(fit, kind)] * (len(names) - k), **_priors(fit),
    }  # fmt: skip
    held = fit.model.fixed
    blank = {q: [np.nan] * len(held) for q in out} | {q: [""] * len(held) for q in WORDS}
    blank |= {"param": list(held), "estimate": list(held.values()), "kind": ["held"] * len(held)}
    blank["prior"] = [f"held at {v:g}" for v in held.values()]
    return {q: [*v, *blank[q]] for q, v in out.items()}


def aux_kind(fit: Fit, kind: str) -> str:
    """The kind of interval that `Fit.aux_interval` gives."""
    if fit.solution.draws is not None:
        return kind
    return "chi-square" if fit.solution.df and kind != "wald" else "log-wald"


def _skewness(fit: Fit) -> Array:
    """Third standardised moment of each marginal of a posterior; 0 where the marginal is symmetric by formula."""
    s, model = fit.solution, fit.model
    if s.draws is None or fit.target != "posterior":
        return np.full(model.shape[0] * (len(model.likelihood.outcomes) or 1) + len(s.aux), np.nan)
    beta = shown(model, s.draws["beta"])
    beta = np.moveaxis(beta.reshape(-1, *beta.shape[2:]), 0, -1)  # (p,) or (p, outcomes), then draws
    each = beta.swapaxes(0, 1).reshape(-1, beta.shape[-1]) if model.likelihood.outcomes else beta
    rows = np.vstack([each, *(s.draws[a].ravel()[None] for a in s.aux)])
    r = rows - rows.mean(1, keepdims=True)
    skew = (r**3).mean(1) / np.maximum((r**2).mean(1), np.finfo(float).tiny) ** 1.5
    return np.where((np.arange(len(rows)) < len(each)) & s.known_marginals, 0.0, skew)


# ---- what the prior did --------------------------------------------------------------------------------------------------


def _priors(fit: Fit) -> dict[str, list[Any]]:
    """prior, penalty, weight, lam and shares of every estimated parameter, in the order of the summary."""
    model, sigma = fit.model, fit.aux.get("sigma")
    p, copies = model.shape[0], len(model.likelihood.outcomes) or 1
    text, penalty = ["flat"] * p, [""] * p
    weight, lam = np.zeros(p), np.zeros(p)
    for b in model.joint.blocks:
        raw = in_raw_units(b.prior, 1.0 if sigma is None else sigma)
        read = raw.penalty(len(b.columns))
        for i, j in enumerate(b.columns):
            text[j] = words(raw, i) + (" in units of sigma" if b.prior.sigma_units else "")
            if read is not None:
                penalty[j], weight[j] = f"{read.name}: {read.weight[i]:.4g} {read.form}", read.weight[i]
                lam[j] = read.in_rss(sigma)[i] if sigma is not None else np.nan
    if not isinstance(model.likelihood, Gaussian):
        lam = np.full(p, np.nan)
    held, free, aux_share = shares(fit)
    unknown = list(fit.solution.aux)
    return {
        "prior": text * copies + [_aux_words(model.aux_prior(a), a) for a in unknown],
        "penalty": penalty * copies + [""] * len(unknown),
        "weight": [*np.tile(weight, copies), *[np.nan] * len(unknown)],
        "lam": [*np.tile(lam, copies), *[np.nan] * len(unknown)],
        "share": [*held.T.ravel(), *aux_share],
        "marginal_share": [*free.T.ravel(), *aux_share],
    }


def in_raw_units(prior: Prior, sigma: float) -> Prior:
    """The same prior at this sigma, its scale in units of the coefficient."""
    if not prior.sigma_units:
        return prior
    this: Any = prior
    if isinstance(this, Normal) and this.precision_matrix is not None:
        P = np.array(this.precision_matrix) / sigma**2
        return replace(this, precision_matrix=tuple(map(tuple, P.tolist())), sigma_units=False)
    return replace(this, scale=np.asarray(this.scale) * sigma, sigma_units=False)


@singledispatch
def words(prior: Prior, i: int) -> str:
    """The prior of its i-th column, in raw units."""
    return prior.name


@words.register
def _(prior: Flat, i: int) -> str:
    return "flat"


@words.register
def _(prior: Normal, i: int) -> str:
    if prior.precision_matrix is None:
        return f"Normal({_at(prior.location, i):.4g}, {_at(prior.scale, i):.4g})"
    sd = np.sqrt(np.linalg.inv(np.array(prior.precision_matrix))[i, i])
    return f"Normal({_at(prior.location, i):.4g}, {sd:.4g}), correlated"


@words.register
def _(prior: Laplace, i: int) -> str:
    return f"Laplace({_at(prior.location, i):.4g}, {_at(prior.scale, i):.4g})"


@words.register
def _(prior: StudentT, i: int) -> str:
    return f"StudentT(nu={prior.nu:g}, {_at(prior.location, i):.4g}, {_at(prior.scale, i):.4g})"


def _at(value: float | tuple[float, ...], i: int) -> float:
    return float(np.asarray(value).ravel()[i if isinstance(value, tuple) else 0])


def _aux_words(prior: AuxPrior, name: str) -> str:
    return f"p({name}) ∝ 1/{name}" if isinstance(prior, Reference) else repr(prior)


@singledispatch
def curvature(prior: Prior, beta: Array) -> Array:
    """The negative Hessian of log p for each predictor of a block (q, m) in raw units, shape (q, q, m); nan on the
    diagonal for a prior that has none, such as the kinked Laplace."""
    return _diagonal(np.full(beta.shape, np.nan))


@curvature.register
def _(prior: GaussianPrior, beta: Array) -> Array:
    return np.repeat(prior.precision(len(beta))[:, :, None], beta.shape[1], 2)


@curvature.register
def _(prior: StudentT, beta: Array) -> Array:
    square = np.square(beta - np.asarray(prior.location).reshape(-1, 1))
    spread = prior.nu * np.square(np.asarray(prior.scale)).reshape(-1, 1)
    return _diagonal((prior.nu + 1) * (spread - square) / (spread + square) ** 2)  # negative in the tails


def _diagonal(values: Array) -> Array:
    return np.eye(len(values))[:, :, None] * np.where(np.isnan(values), 0.0, values)[:, None] + np.where(
        np.eye(len(values), dtype=bool)[:, :, None] & np.isnan(values)[:, None], np.nan, 0.0
    )


def prior_curvature(fit: Fit) -> Array:
    """P, the negative Hessian of log p(beta) at the estimate, (p m, p m) over vec(beta)."""
    p, m = fit.model.shape
    P = np.zeros((p, p, m))
    for b in fit.model.joint.blocks:
        where = list(b.columns)
        raw = in_raw_units(b.prior, fit.aux.get("sigma", 1.0))
        P[np.ix_(where, where)] = curvature(raw, fit.solution.beta[where])
    return np.einsum("jim,mn->jmin", P, np.eye(m)).reshape(p * m, p * m)


def shares(fit: Fit) -> tuple[Array, Array, list[float]]:
    """Shares of the prior in the precision of every reported coefficient, (p, outcomes or 1): P_jj / H_jj with the
    other coefficients held, (P H^-1)_jj with the others free; and P / H of every unknown auxiliary parameter on its log
    scale. H = P + J, J the observed information of the likelihood, all at the estimate; a reported softmax coefficient
    is a direction, its row of the display. 0 for a flat prior, nan where a curvature does not exist or is not known."""
    model, s = fit.model, fit.solution
    P_aux = [-model.aux_prior(a).slopes(s.aux[a])[1] for a in s.aux]
    if not model.joint.informative.any() and not any(P_aux):
        none = np.zeros((model.shape[0], len(model.likelihood.outcomes) or 1))
        return none, none, [0.0] * len(P_aux)
    P, (J, J_aux) = prior_curvature(fit), information(fit)
    H, flat = P + J, ~np.repeat(model.joint.informative, model.shape[1])
    held, free = _along(fit, P), _along(fit, np.where(flat[:, None], 0.0, P @ _inverse(H)))
    total = _along(fit, H)
    known = np.where(total > 0, total, np.nan)
    untouched = ~model.joint.informative[:, None]
    each = [0.0 if a == 0 else a / (a + b) if a + b > 0 else np.nan for a, b in zip(P_aux, J_aux)]
    return np.where(untouched, 0.0, held / known), np.where(untouched, 0.0, free), each


def _along(fit: Fit, matrix: Array) -> Array:
    """d'M_jj d / d'd for each column j and each direction d that a reported coefficient stands for: (p, outcomes or 1)."""
    p, m = fit.model.shape
    D = fit.model.likelihood.display
    return np.einsum("km,jmjn,kn->jk", D, matrix.reshape(p, m, p, m), D) / np.square(D).sum(1)


def _inverse(H: Array) -> Array:
    """H^-1 by way of unit diagonal; nan where H is not positive definite."""
    d = np.sqrt(np.abs(np.diagonal(H)))
    scaled = H / np.outer(d, d) if (d > 0).all() else np.full(H.shape, np.nan)
    if not np.isfinite(scaled).all() or np.linalg.eigvalsh(scaled)[0] < 1e-13:
        return np.full(H.shape, np.nan)
    return np.linalg.inv(scaled) / np.outer(d, d)


def information(fit: Fit) -> tuple[Array, Array]:
    """Observed information of the likelihood at the estimate: J over vec(beta), (p m, p m), and the diagonal over log
    aux. From the moments of a Gaussian model, else from the rows; nan for a fit without them."""
    model, s = fit.model, fit.solution
    k = s.beta.size
    if isinstance(model.likelihood, Gaussian):
        F, sigma = np.asarray(model.design.moments.factor, dtype=float), fit.aux["sigma"]
        rss = float(np.square(F @ np.append(s.beta[:, 0], -1.0)).sum())
        return F[:, :k].T @ F[:, :k] / sigma**2, np.full(len(s.aux), 2.0 * rss / sigma**2)
    if rowless(fit) or not isinstance(model.likelihood, SmoothLikelihood):
        return np.full((k, k), np.nan), np.full(len(s.aux), np.nan)
    H = replace(model, prior=Flat(), aux=model.fixed).expansion(s.beta, **s.aux).curvature
    return H[:k, :k], np.diagonal(H)[k:]


def rowless(fit: Fit) -> bool:
    """Saved without its rows, and without moments that tell as much."""
    return not fit.model.design.n and not isinstance(fit.model.likelihood, Gaussian)


def spelling(fit: Fit) -> str:
    """The scikit-learn estimator whose minimum is the mode of this model, "" where there is none: one scale for all
    columns, location 0, the intercept free, and sigma settled (given, cancelled by a prior in its units, or at its mode)."""
    model = fit.model
    scale, n = _one_scale(model), observations(fit)
    if scale is None or n is None:
        return ""
    kind, tau = scale
    sigma, relative = fit.aux.get("sigma", 1.0), bool(model.joint.sigma_units.any())
    tau = tau * sigma if relative else tau
    settled = not model.unknown or fit.target == "mode" or (kind is Normal and relative)
    fold = ("" if "Intercept" in model.design.columns else ", fit_intercept=False") + ")"
    fold += " with sample_weight" if model.design.weights is not None else ""
    match model.likelihood:
        case Gaussian() if settled:
            if kind is Normal:
                return f"Ridge(alpha={sigma**2 / tau**2:.12g}{fold}"
            return f"Lasso(alpha={sigma**2 / (n * tau):.12g}{fold}"
        case Bernoulli() | Categorical(symmetric=True):
            return f"LogisticRegression(C={tau**2:.12g}{fold}" if kind is Normal else _l1(tau, fold)
        case Poisson() if kind is Normal:
            return f"PoissonRegressor(alpha={1 / (n * tau**2):.12g}{fold}"
    return ""


def _l1(tau: float, fold: str) -> str:
    return f"LogisticRegression(C={tau:.12g}, solver='saga'{fold} with an L1 penalty"


def _one_scale(model: Model) -> tuple[type, float] | None:
    """The class and raw scale that all penalised columns share, where these are all columns but the intercept."""
    d, touched = model.design, [b for b in model.joint.blocks if not isinstance(b.prior, Flat)]
    if d.offset is not None or not touched:
        return None
    if not np.array_equal(model.joint.informative, np.array([c != "Intercept" for c in d.columns])):
        return None
    found = set()
    for b in touched:
        prior: Any = b.prior
        if (
            not isinstance(prior, Normal | Laplace)
            or np.any(prior.location)
            or getattr(prior, "precision_matrix", None)
        ):
            return None
        found |= {(type(prior), v, prior.sigma_units) for v in np.atleast_1d(prior.scale).tolist()}
    return None if len(found) != 1 else next((k, v) for k, v, _ in found)


# ---- why the answers differ ----------------------------------------------------------------------------------------------


def _reasons(of: Comparison, param: str) -> tuple[str, ...]:
    """One sentence for each fit that stands apart from the baseline in this parameter."""
    base = of.data.sel(fit=of.baseline, param=param)
    out = []
    for name in of.fits:
        here = of.data.sel(fit=name, param=param)
        if name == of.baseline or "held" in (here["kind"].item(), base["kind"].item()):
            continue
        if (gone := _missing(of, name, here, base)) or not _apart(here, base):
            out += [gone] if gone else []
            continue
        why = [s for rule in RULES if (s := rule(of, name, param))]
        gap = here["shift"].item()
        where = f"{_signed(gap)} SE from" if abs(gap) > 0.005 else "at the estimate of"
        said = f"{name} is {where} {of.baseline}, ratio of their errors {here['ratio'].item():.3g}"
        out.append(f"{said}; consistent with: {'; '.join(why)}" if why else f"{said}; no rule here explains it")
    return tuple(out)


def _apart(here: Any, base: Any) -> bool:
    gaps = [abs(here[q].item() - base[q].item()) for q in ("estimate", "lower", "upper")]
    return bool(np.nanmax([*gaps, 0.0]) > APART * base["error"].item())


def _missing(of: Comparison, name: str, here: Any, base: Any) -> str:
    """The sentence where one of the two has no estimate."""
    lost, kept, which = (base, here, of.baseline) if np.isnan(base["estimate"]) else (here, base, name)
    if np.isnan(lost["estimate"].item()) == np.isnan(kept["estimate"].item()):
        return ""
    other = name if which == of.baseline else of.baseline
    detail = of.fits[which].solution.detail or lost["status"].item()
    prior = kept["prior"].item()
    held = f"; the prior {prior} gives {other} one" if prior not in ("flat", "") else f"; {other} has one"
    return f"{which} has no estimate ({detail}){held}"


def _signed(v: float) -> str:
    return f"{v:+.2g}"


def _by_model(of: Comparison, name: str, param: str) -> str:
    a, b = of.fits[of.baseline].model, of.fits[name].model
    if a.likelihood != b.likelihood:
        return f"another likelihood: {b.likelihood.describe(b.design.response)}"
    if a.fixed != b.fixed:
        held = {k: f"held at {v:g} in {n}" for n, m in ((of.baseline, a), (name, b)) for k, v in m.fixed.items()}
        return ", ".join(f"{k} {v}" for k, v in held.items())
    return ""


def _by_prior(of: Comparison, name: str, param: str) -> str:
    """The share with the other coefficients free: it is the one that moves estimates and errors."""
    here = of.data.sel(param=param)
    share = {f: here["marginal_share"].sel(fit=f).item() for f in (of.baseline, name)}
    prior = {f: here["prior"].sel(fit=f).item() for f in share}
    another = f"another prior ({prior[name]} against {prior[of.baseline]}" if len(set(prior.values())) > 1 else ""
    if np.isnan(list(share.values())).any():
        return another and f"{another}; its share has no number)"
    more = max(share, key=lambda f: abs(share[f]))
    if abs(share[name] - share[of.baseline]) > SMALL:
        return f"the prior {prior[more]}, {100 * share[more]:.3g} % of the precision of {param} in {more}"
    return another and f"{another})" if abs(share[more]) > SMALL else ""


def _by_neighbour(of: Comparison, name: str, param: str) -> str:
    """A coefficient without a prior of its own moves with one that has a share and is correlated with it."""
    share, here = of.data["marginal_share"].sel(fit=[of.baseline, name]).max("fit", skipna=False), of.data.sel(fit=name)
    if not share.sel(param=param).item() < SMALL or here["role"].sel(param=param).item() != "coefficient":
        return ""
    moved = [
        (abs(c * here["shift"].sel(param=q).item()), q, c)
        for q, c in _correlation(of.fits[of.baseline], param).items()
        if q != param and not share.sel(param=q).item() < SMALL
    ]
    strength, other, c = max(moved, default=(0.0, "", 0.0))
    if not strength > APART:
        return ""
    shift = _signed(here["shift"].sel(param=other).item())
    return f"its correlation {c:.2g} (in {of.baseline}) with {other}, which moved by {shift} SE under its prior"


def _correlation(fit: Fit, param: str) -> dict[str, float]:
    cov = fit.covariance()
    if param not in cov["param"].values:
        return {}
    sd = np.sqrt(np.diagonal(cov.values))
    row = cov.sel(param=param).values / sd / float(np.sqrt(cov.sel(param=param, param_=param)))
    return {str(q): float(c) for q, c in zip(cov["param"].values, row) if np.isfinite(c)}


def _by_skewness(of: Comparison, name: str, param: str) -> str:
    targets = {of.fits[name].target, of.fits[of.baseline].target}
    skew = of.data["skewness"].sel(param=param)
    sampled = name if of.fits[name].target == "posterior" else of.baseline
    value = skew.sel(fit=sampled).item()
    if len(targets) < 2 or not abs(value) > 0.1:
        return ""
    e = of.data.sel(fit=sampled, param=param)
    arms = (e["upper"].item() - e["estimate"].item()) / (e["estimate"].item() - e["lower"].item())
    return f"a skewed posterior (skewness {value:.2g}; upper arm of its interval {arms:.2g} times the lower): its mean is not its mode"


def _by_small_sample(of: Comparison, name: str, param: str) -> str:
    """Modes of Gaussian models: sqrt(RSS/n) against sqrt(RSS/(n - rank)), and Student-t against normal quantiles."""
    known = {f: of.fits[f].solution.df for f in (of.baseline, name)}
    pair = [of.fits[f] for f in known]
    if any(f.target != "mode" or not f.model.unknown for f in pair) or None not in known.values():
        return ""
    classical = next((f for f, df in known.items() if df), None)
    if classical is None or not isinstance(pair[0].model.likelihood, Gaussian):
        return ""
    df, n = float(known[classical] or np.inf), observations(of.fits[classical]) or np.nan
    t, z = quantile(of.prob, df), quantile(of.prob, None)
    if max(n / df, t / z) < 1.02:
        return ""
    return f"a small sample, counted by {df:g} degrees of freedom in {classical} only (t {t:.3g} against normal {z:.3g}, sqrt(n/df) {np.sqrt(n / df):.3g})"


def _by_noise(of: Comparison, name: str, param: str) -> str:
    error = of.data["error"].sel(fit=of.baseline, param=param).item()
    mcse = np.nansum(np.square(of.data["mcse"].sel(param=param, fit=[name, of.baseline]).values)) ** 0.5 / error
    shift = abs(of.data["shift"].sel(fit=name, param=param).item())
    return f"sampling noise (Monte Carlo error {mcse:.2g} SE)" if shift < 3 * mcse and mcse > APART / 3 else ""


def _by_status(of: Comparison, name: str, param: str) -> str:
    bad = [f for f in (of.baseline, name) if not of.fits[f].solution.status.good]
    return f"the status of {' and '.join(bad)}, which did not end well" if bad else ""


def _by_kind(of: Comparison, name: str, param: str) -> str:
    here = of.data.sel(param=param)
    a, b = (here["kind"].sel(fit=f).item() for f in (of.baseline, name))
    if a == b or abs(here["shift"].sel(fit=name).item()) > APART:
        return ""
    return f"another kind of interval ({KIND_WORDS[b]} against {KIND_WORDS[a]})"


RULES = (_by_model, _by_status, _by_prior, _by_neighbour, _by_skewness, _by_small_sample, _by_noise, _by_kind)


# ---- text ----------------------------------------------------------------------------------------------------------------


def _header(of: Comparison) -> list[str]:
    attrs = of.data.attrs
    d = of.fits[of.baseline].model.design
    n = attrs.get("observations")
    rows = "rows not kept" if n is None else f"{n:g} observations" + (f" in {d.n} rows" if d.n and d.n != n else "")
    lines = [
        attrs["models"],
        f"{rows}; {100 * of.prob:g} % intervals; shift in SE of {of.baseline}, ratio of SE or SD to its",
    ]
    width = max(map(len, of.fits))
    for name, fit in of.fits.items():
        said = [fit.method.name, f"{_kinds(of, name)} intervals"]
        said += [f"seed {fit.seed}"] if fit.target == "posterior" else []
        other = fit.model.likelihood.describe(d.response)
        said += [other] if other != attrs["models"] else []
        status = ("" if fit.solution.status.good else "(!) ") + fit.described["status"]
        lines.append(f"  {name.ljust(width)}  {', '.join(said)}; {status}")
    return lines


def _kinds(of: Comparison, name: str) -> str:
    """The kind of interval of the coefficients, and of the others where it is another one."""
    here = of.data.sel(fit=name)
    kinds = dict.fromkeys(zip(here["role"].values, here["kind"].values, here["param"].values))
    first = next(k for _, k, _ in kinds)
    rest = [f"{p}: {KIND_WORDS[k]}" for role, k, p in kinds if role != "coefficient" and k in KIND_WORDS and k != first]
    return KIND_WORDS[first] + (f" ({', '.join(rest)})" if rest else "")


def _table(of: Comparison) -> tuple[list[str], list[list[str]]]:
    """Head and rows as texts, one row per parameter and fit; digits follow the smallest SE of the parameter."""
    informed = bool(of.data["share"].fillna(1.0).where(of.data["role"] == "coefficient", 0.0).any())
    head = ["", "fit", "estimate", "SE | SD", "lower", "upper", "shift", "ratio"]
    head += ["prior", "share", "free"] if informed else []
    rows = []
    for param in of.data["param"].values:
        here = of.data.sel(param=param)
        places = decimals(here["error"].values)
        for name, fit in of.fits.items():
            one = {str(k): v.item() for k, v in here.sel(fit=name).data_vars.items()}
            mark = name if fit.solution.status.good else f"{name} (!)"
            cells = [str(param), mark, *_numbers(one, places, fit)]
            rows.append([*cells, one["prior"], *_shares(one, fit)] if informed else cells)
    return head, rows


def _numbers(one: Mapping[str, Any], places: int, fit: Fit) -> list[str]:
    if one["kind"] == "held":
        return [f"{one['estimate']:g}", "held", "", "", "", ""]
    if one["kind"] == "":
        return ["not in it", "", "", "", "", ""]
    if np.isnan(one["estimate"]):
        return ["does not exist", "", "", "", "", ""]
    word = "SD" if fit.target == "posterior" else "SE"
    error = f"{rounded(one['error'], places)} {word}" if np.isfinite(one["error"]) else "none"
    ends = [rounded(one[q], places) for q in ("lower", "upper")]
    shift = f"{round(one['shift'], 2) + 0.0:+.2f}" if np.isfinite(one["shift"]) else ""
    return [rounded(one["estimate"], places), error, *ends, shift, f"{one['ratio']:.3f}" if one["ratio"] > 0 else ""]


def _shares(one: Mapping[str, Any], fit: Fit) -> list[str]:
    if one["kind"] in ("held", ""):
        return ["", ""]
    held, free = one["share"], one["marginal_share"]
    lost = "not known" if rowless(fit) else "no curvature"
    return [lost if np.isnan(held) else f"{100 * held:.3g} %", "" if np.isnan(free) else f"{100 * free:.3g} %"]


def decimals(errors: Array) -> int:
    """Places after the point that show the smallest error to three significant digits.

    >>> decimals(np.array([7.38, 0.108])), decimals(np.array([1234.5])), decimals(np.array([np.nan]))
    (3, 0, 4)
    """
    known = errors[np.isfinite(errors) & (errors > 0)]
    return max(0, 2 - int(np.floor(np.log10(known.min())))) if len(known) else 4


def rounded(value: float, places: int) -> str:
    """A number to so many decimal places, with an exponent where that would be long.

    >>> rounded(-0.232163, 4), rounded(1.2345e-12, 14), rounded(float("nan"), 2)
    ('-0.2322', '1.23e-12', '')
    """
    if not np.isfinite(value):
        return "" if np.isnan(value) else f"{value:g}"
    if places <= 8 and abs(value) < 1e10:
        return f"{value:.{places}f}"
    digits = int(np.floor(np.log10(abs(value)))) + places if value else 0
    return f"{value:.{max(digits, 0)}e}"


def _notes(of: Comparison) -> list[str]:
    said: dict[str, list[str]] = {}  # what holds of several fits is said once
    for name, fit in of.fits.items():
        for note in _fit_notes(of, name, fit):
            said.setdefault(note, []).append(name)
    out = [f"{', '.join(names)}: {note}" for note, names in said.items()]
    if of.data["share"].fillna(1.0).any():
        out.append(SHARE_NOTE)
    base = of.data.sel(fit=of.baseline)
    lost = np.isnan(base["error"].values) & (base["kind"].values != "held")
    if lost.any():
        out.append(f"no shift is given for {', '.join(base['param'].values[lost])}: {of.baseline} has no SE there")
    return out


def _fit_notes(of: Comparison, name: str, fit: Fit) -> list[str]:
    here, s = of.data.sel(fit=name), fit.solution
    gone = here["param"].values[np.isnan(here["estimate"].values) & (here["kind"].values != "")]
    out = [f"no estimate of {', '.join(gone)} exists: {fit.described['status']}"] if len(gone) else []
    if "sigma" in fit.model.likelihood.aux and s.notes:
        out.append(s.notes[0])  # a solution with a noise scale says first what it did with it
    seen: dict[str, list[str]] = {}
    for param, text, lam in zip(here["param"].values, here["penalty"].values, here["lam"].values):
        if text:
            seen.setdefault(text + (f" (RSS + {lam:.6g} R at its sigma)" if np.isfinite(lam) else ""), []).append(param)
    out += [f"penalty {text} on {', '.join(params)}" for text, params in seen.items()]
    if name in of.spellings:
        out.append(f"the mode of this model is scikit-learn's {of.spellings[name]}")
    if rowless(fit) and here["share"].isnull().any():
        out.append("saved without its rows, so that some shares are not known")
    return out


def _list(items: Sequence[str]) -> str:
    return f"<ul>{''.join(f'<li>{i}</li>' for i in items)}</ul>" if items else ""

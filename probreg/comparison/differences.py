"""In what two fits differ: facts of their models and methods, read off, not inferred. Only what differs can be a cause."""

from typing import Any

import numpy as np

from probreg.comparison.prior_terms import stated_hyper, stated_model
from probreg.comparison.same_question import differing_terms, shorten_names
from probreg.data.rows import full_weights
from probreg.fits.fit import Fit
from probreg.inference.base import has_effects, markov
from probreg.inference.uncertainty.covariance import reported
from probreg.inference.varying import OF_EFFECTS
from probreg.model.model import Model

Array = np.ndarray


def find_differences(base: Fit, fit: Fit) -> set[str]:
    """Return the names of the differences: "likelihood", "sigma held", "prior", "prior of sigma", "summary" (a mode, a normal about
    it, a posterior), "covariance", "degrees of freedom" and "draws"."""
    a = stated_model(base)
    b = stated_model(fit)
    unlike = {
        "likelihood": a.likelihood != b.likelihood,
        "sigma held": a.likelihood == b.likelihood and a.fixed != b.fixed,
        "prior": not same_prior(base, fit),
        **of_effects(base, fit),
        "prior of sigma": any(
            a.aux_prior(name) != b.aux_prior(name)
            for name in set(a.unknown) & set(b.unknown)
        ),
        "summary": summary(base) != summary(fit),
        "covariance": _covariance_kind(base) != _covariance_kind(fit),
        "degrees of freedom": (base.solution.df is None) != (fit.solution.df is None),
        "draws": base is not fit
        and (has_monte_carlo_error(base) or has_monte_carlo_error(fit)),
    }
    return {name for name, yes in unlike.items() if yes}


def structural_differences(
    base: Fit, fit: Fit, names: tuple[str, str]
) -> dict[str, str]:
    """Return the differences in the terms and weights of two fits of the same rows, in words.

    Parameters
    ----------
    base, fit : Fit
        The two fits.
    names : tuple of str
        Their names in the sentences.

    Returns
    -------
    dict
        From the causes "columns", "effects by group", "smooth functions" and "weights" to a sentence; only causes that differ.
    """
    designs = dict(zip(names, (base.model.design, fit.model.design), strict=True))
    out: dict[str, list[str]] = {}
    if base.model.design is not fit.model.design:
        apart = differing_terms((base, fit))
        of_terms = {
            n: {c for t in d.recipe.terms for c in t.columns}
            for n, d in designs.items()
        }
        columns = {
            n: [c for c in d.columns if c not in of_terms[n]]
            for n, d in designs.items()
        }
        effects = {
            n: [t.key for t in d.recipe.grouped.values()] for n, d in designs.items()
        }
        grouped = {
            c
            for d in designs.values()
            for t in d.recipe.grouped.values()
            for c in t.columns
        }
        terms = {
            n: [
                t.name
                for t in d.recipe.terms
                if not grouped.issuperset(t.columns) and apart.intersection(t.columns)
            ]
            for n, d in designs.items()
        }
        for here, there in (names, names[::-1]):
            for cause, every in (
                ("columns", columns),
                ("effects by group", effects),
                ("smooth functions", terms),
            ):
                own = [name for name in every[here] if name not in every[there]]
                if own and cause == "effects by group" and not every[there]:
                    out.setdefault(cause, []).append(
                        f"{here} has {shorten_names(own)}, {there} pools the groups"
                    )
                elif own:
                    verb = "is" if len(own) == 1 else "are"
                    out.setdefault(cause, []).append(
                        f"{shorten_names(own)} {verb} only in {here}"
                    )
        common = [name for name in terms[names[0]] if name in terms[names[1]]]
        if common:
            verb = "has" if len(common) == 1 else "have"
            out.setdefault("smooth functions", []).append(
                f"{shorten_names(common)} {verb} other columns in {names[1]} than in {names[0]}"
            )
        weights = _difference_of_weights(base, fit, names)
        if weights:
            out["weights"] = [weights]
    return {cause: "; ".join(out[cause]) for cause in STRUCTURE if cause in out}


def _difference_of_weights(base: Fit, fit: Fit, names: tuple[str, str]) -> str:
    """Return the difference in the weights of rows in memory, in words; "" where there is none."""
    d = base.model.design
    e = fit.model.design
    if not (d.n and e.n):
        return ""
    kinds = ["" if not g.weighted else g.weight_kind for g in (d, e)]
    if kinds[0] == kinds[1]:
        pairs = [
            [full_weights(w, g.n) for g, w in ((d, v), (e, u))]
            for v, u in ((d.weights, e.weights), (d.precision, e.precision))
        ]
        unlike = sum(int((one != other).sum()) for one, other in pairs)
        if unlike:
            return f"weights differ: other {kinds[0]} weights in {unlike} of {d.n} rows"
        return ""
    each = [
        f"{n} {f'has {kind} weights' if kind else 'is unweighted'}"
        for n, kind in zip(names, kinds, strict=True)
    ]
    return f"weights differ: {', '.join(each)}"


STRUCTURE = (
    "columns",
    "effects by group",
    "smooth functions",
    "weights",
)  # causes that have no share of their own
DEGREES, AVERAGED, PRIOR_OF_SD = (
    "degrees of freedom of the mean", "uncertainty of the standard deviations", "prior of the standard deviations",
)  # fmt: skip


def of_effects(base: Fit, fit: Fit) -> dict[str, bool]:
    """In what two fits with effects that vary by a group differ: ML leaves the degrees of freedom of the flat coefficients out of the
    scales, a maximum takes scales as known where a posterior averages over them, and the priors of the scales may differ."""
    if not (has_effects(base.model) and has_effects(fit.model)):
        return {}
    ml = [
        f.solution.found is not None and f.solution.found.criterion == "ML"
        for f in (base, fit)
    ]
    known = [f.solution.found is not None for f in (base, fit)]
    drawn = [
        f.target == "posterior"
        and any(n.startswith(OF_EFFECTS) for n in f.solution.scalars)
        for f in (base, fit)
    ]
    return {
        DEGREES: ml[0] != ml[1] and (known[0] or drawn[0]) and (known[1] or drawn[1]),
        AVERAGED: (known[0] and drawn[1]) or (drawn[0] and known[1]),
        PRIOR_OF_SD: stated_hyper(base) != stated_hyper(fit),
    }


def summary(fit: Fit) -> str:
    """What an estimate is: "mode", "normal at the mode" (draws that carry the density they were drawn from) or
    "posterior"."""
    draws = fit.solution.draws
    if draws is None:
        return "mode"
    if "log_q" in draws.stats:
        return "normal at the mode"
    return "posterior"


def has_monte_carlo_error(fit: Fit) -> bool:
    """Numbers of this fit carry Monte Carlo error: chains, weighted draws or replicates."""
    s = fit.solution
    return (
        markov(fit.method, fit.solution)
        or "mcse_mean" in s.stats
        or s.replicates is not None
    )


def _covariance_kind(fit: Fit) -> str:
    """Return the kind of standard errors, "" for a posterior; the classical kind differs from the
    observed one only by its divisor."""
    if fit.target == "posterior":
        return ""
    # by its own name: that a prior holds the bread is the prior's part
    kind = fit.solution.sandwich or str(
        reported(fit.model, fit.method, fit.solution)["kind"]
    )
    if fit.solution.replicates is not None:
        return f"{getattr(fit.method, 'kind', '')} bootstrap"
    if kind in ("classical", "expected", "observed"):
        return "curvature"
    return kind


def same_prior(base: Fit, fit: Fit) -> bool:
    """One density of the coefficients of the columns that both have, however it was spelled: log p differs by a constant at the
    two estimates and about them, at both values of sigma."""
    a = stated_model(base)
    b = stated_model(fit)
    if a is b or _equal(a.prior, b.prior):
        return True
    if has_effects(a) and has_effects(
        b
    ):  # whose own priors are those of their standard deviations
        return _head_priors(a) == _head_priors(b)
    ends = [
        np.where(np.isfinite(f.solution.beta), f.solution.beta, 0.0)
        for f in (base, fit)
    ]
    rows = _common_rows(a, b)
    informative = [
        m.joint.informative.reshape(len(e), -1)[r]
        for m, e, r in zip((a, b), ends, rows, strict=True)
    ]
    if (
        informative[0].shape != informative[1].shape
        or (informative[0] != informative[1]).any()
    ):
        return False
    if not informative[0].any():
        return True
    if not (a.joint.known and b.joint.known):
        return False  # priors of processes, which are not written alike
    ends = [end[r] for end, r in zip(ends, rows, strict=True)]
    if ends[0].shape != ends[1].shape:
        return False
    size = np.abs(ends[0]) + np.abs(ends[1]) + 1e-3
    rng = np.random.default_rng(0)
    places = np.array(
        [*ends, *(ends[k % 2] + size * rng.normal(size=size.shape) for k in range(6))]
    )
    sigmas = {f.model.noise(f.aux) for f in (base, fit)} - {0.0}
    wide = []  # with coefficients of 0 in the columns of one fit only, which add a constant
    for f, r in zip((base, fit), rows, strict=True):
        full = np.zeros((len(places), *f.solution.beta.shape))
        full[:, r] = places
        wide.append(full)
    return all(
        _is_constant(a.joint.log_prob(wide[0], s) - b.joint.log_prob(wide[1], s))
        for s in sigmas
    )


def _common_rows(a: Model, b: Model) -> tuple[list[int], list[int]]:
    """Return the places of the columns that two models share, in each of them."""
    first = a.design.columns
    other = b.design.columns
    if first == other:
        return list(range(len(first))), list(range(len(other)))
    at = {c: j for j, c in enumerate(other)}
    common = [c for c in first if c in at]
    return [j for j, c in enumerate(first) if c in at], [at[c] for c in common]


def _head_priors(model: Model) -> dict[tuple[Any, ...], object]:
    return {
        (b.columns, b.predictor): b.prior
        for b in model.joint.blocks
        if model.design.grouped_of(b.columns) is None
    }


def _equal(one: object, other: object) -> bool:
    try:
        return bool(one == other)
    except ValueError:  # arrays
        return False


def _is_constant(gap: Array) -> bool:
    return bool(
        np.isfinite(gap).all() and np.ptp(gap) <= 1e-9 * (1.0 + np.abs(gap).max())
    )

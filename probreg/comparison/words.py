"""The causes in words, each with the number that is its evidence; the term stands first."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from probreg.comparison.differences import AVERAGED, DEGREES, PRIOR_OF_SD, summary
from probreg.comparison.evidence import divergences, freedom, ratio_differs
from probreg.comparison.methods import bad_chains, may_stop_short, r_hat, skewness
from probreg.comparison.pairs import Pair
from probreg.comparison.prior_terms import aux_prior_words, stated_hyper, stated_model
from probreg.comparison.same_question import number_of_observations
from probreg.comparison.share_words import kind_and_subject
from probreg.inference.uncertainty.covariance import reported
from probreg.inference.uncertainty.intervals.arithmetic import quantile
from probreg.inference.uncertainty.intervals.kinds import KIND_WORDS
from probreg.system.terminal import percent


class Cause(NamedTuple):
    """A cause by name, what is said of it, and its shares: of the shift in SE, and of the log SE ratio; nan where no path
    tells them."""

    name: str
    said: str
    shift: float = np.nan
    log_se: float = np.nan


def evidence_text(pair: Pair, cause: str, j: int) -> str:
    """Return the evidence for a cause, starting with its name; "" if there is none for this parameter."""
    if cause in _WORDS:
        return _WORDS[cause](pair, j)
    kind, name = kind_and_subject(cause)
    if kind == "held":
        return _fixed_aux_text(pair, name)
    if name in pair.fit.model.likelihood.aux:
        return _prior_of_aux(pair, name, j)
    if kind == "prior" or cause == "prior":
        return _prior_text(pair, name, j)
    return _WORDS[cause](pair, j)


def _likelihood_text(pair: Pair, j: int) -> str:
    words = {name: f.model.likelihood for name, (f, _) in pair.named.items()}
    a = words[pair.base_name]
    b = words[pair.name]
    return f"likelihood: {_likelihood_name(b)} in {pair.name}, {_likelihood_name(a)} in {pair.base_name}"


def _likelihood_name(likelihood: object) -> str:
    """Return the class name with its numeric settings."""
    own = {
        k: v
        for k, v in vars(likelihood).items()
        if isinstance(v, int | float) and not isinstance(v, bool)
    }
    return type(likelihood).__name__ + (
        f"({', '.join(f'{k}={v:g}' for k, v in own.items())})" if own else ""
    )


def _fixed_aux_text(pair: Pair, aux: str) -> str:
    said = [
        f"{aux} {'held at' if aux in fit.model.fixed else 'estimated as'} {fit.aux[aux]:.4g} in {name}"
        for name, (fit, _) in pair.named.items()
    ]
    return f"{aux} held: {', '.join(said)}"


def _separation(pair: Pair, j: int) -> str:
    return "; ".join(
        f"separation: {f.solution.detail}; other coefficients of {name} are at infinity"
        for name, f in pair.without_maximum.items()
    )


def _prior_text(pair: Pair, name: str, j: int) -> str:
    """Describe both priors of a column; without a path, those of any column that differs."""
    differs = (pair.here["prior"] != pair.base["prior"]) & pair.coefficient
    if name == "prior" and pair.coefficient[j]:
        if differs.sum() > 1 and not differs[j]:
            return f"priors of {differs.sum()} coefficients: others in {pair.name} than in {pair.base_name}"
        if differs[j] or not differs.any():
            name = pair.params[j]
        else:
            name = pair.params[int(np.argmax(differs))]
    columns = [str(p).split(": ")[0] for p in pair.params]
    if name not in columns:
        if name == "prior":
            called = "the coefficients"
        else:
            called = name
        return f"prior of {called}: another in {pair.name} than in {pair.base_name}"
    if name in pair.params:
        k = pair.params.index(name)
    else:
        k = columns.index(name)
    weight = {
        n: float(row["prior_weight"][j])
        for n, (_, row) in pair.named.items()
        if row["prior_weight"][j] > 0
    }
    if columns[j] == columns[k]:
        more = max(weight, key=lambda n: weight[n], default=None)
    else:
        more = None
    said = f"prior of {name}: {_both_values_text(pair, 'prior', k)}"
    return said + (
        "" if more is None else f"; prior weight {percent(weight[more])} in {more}"
    )


def _both_values_text(pair: Pair, word: str, k: int) -> str:
    a = pair.base[word][k]
    b = pair.here[word][k]
    if a != b:
        return f"{b} in {pair.name}, {a} in {pair.base_name}"
    return f"{b}, stated otherwise in {pair.name}"


def _prior_of_aux(pair: Pair, aux: str, j: int) -> str:
    words = {
        n: aux_prior_words(stated_model(f), aux) for n, (f, _) in pair.named.items()
    }
    said = f"prior of {aux}: {words[pair.name]} in {pair.name}, {words[pair.base_name]} in {pair.base_name}"
    a, b = (f.aux[aux] for f in (pair.base_fit, pair.fit))
    if pair.coefficient[j]:
        return f"{said}; {aux} {b:.3g} against {a:.3g}"
    return said


def _sampler(pair: Pair, j: int) -> str:
    said = []
    for name in bad_chains(pair, j):
        fit = pair.named[name][0]
        if "k_hat" in fit.solution.stats:
            said.append(
                f"sampler: importance weights of {name} (k-hat {fit.solution.stats['k_hat']:.2f})"
            )
            continue
        lost = divergences(fit)
        said.append(
            f"sampler: {name} (R-hat {r_hat(pair, name, j):.3g}"
            + (f", {lost} divergences)" if lost else ")")
        )
    return " and ".join(said)


def _chance(pair: Pair, j: int) -> str:
    if pair.replicate_error:
        return f"Monte Carlo error: a bootstrap SE of so many replicates has an error of {percent(pair.replicate_error, 2)}"
    return f"Monte Carlo error: that of the mean is {pair.noise(j)[0] / pair.base['error'][j]:.2g} SE"


def _convergence(pair: Pair, j: int) -> str:
    short = {name: fit for name, (fit, _) in pair.named.items() if may_stop_short(fit)}
    known = {
        name: v
        for name, f in short.items()
        if (v := float(f.solution.stats.get("distance", np.nan))) > 0
    }
    if not known:
        return f"convergence: the status of {' and '.join(short)}, which did not end at a mode"
    worst = max(known, key=lambda name: known[name])
    return f"convergence: {worst} stopped {known[worst]:.2g} standard errors short of the mode"


def _skewness_text(pair: Pair, j: int) -> str:
    name, value = skewness(pair, j)
    other = next(n for n in pair.named if n != name)
    if np.isnan(value):
        return f"mean against mode: {name} reports the mean of its posterior, {other} its mode"
    return (
        f"skewness {value:.2g} of the posterior in {name}, whose mean is not its mode"
    )


def _approximation(pair: Pair, j: int) -> str:
    normal = next(
        n for n, (f, _) in pair.named.items() if summary(f) == "normal at the mode"
    )
    name, value = skewness(pair, j)
    said = f"approximation: {normal} is a normal at the mode"
    if np.isfinite(value):
        return f"{said}; skewness of {name} {value:.2g}"
    return f"{said}, {name} the whole posterior"


def _small_sample(pair: Pair, j: int) -> str:
    free = {
        n: f.solution.df
        for n, (f, _) in pair.named.items()
        if f.target == "mode" and f.solution.replicates is None
    }
    known = [name for name, df in free.items() if df]
    if len(known) != 1:
        whole = [name for name, (f, _) in pair.named.items() if f.target == "posterior"]
        return f"small sample: {' and '.join(whole or known)} with t tails, as sigma is integrated over"
    name = known[0]
    df = float(free[known[0]] or np.nan)
    t = quantile(pair.prob, df)
    n = number_of_observations(pair.named[name][0]) or np.nan
    return f"small sample: {df:g} degrees of freedom in {name} only (t {t:.3g}, sqrt(n/df) {np.sqrt(n / df):.3g})"


def _covariance_text(pair: Pair, j: int) -> str:
    kinds = {
        n: str(reported(f.model, f.method, f.solution)["kind"])
        for n, (f, _) in pair.named.items()
    }
    said = ", ".join(
        f"{_SPREAD.get(kinds[n], kinds[n])} in {n}" for n in (pair.name, pair.base_name)
    )
    weight = float(
        np.nanmax([row["prior_weight"][j] for _, row in pair.named.values()])
    )
    if weight > 0.02:
        return f"covariance: {said}; replicates of a shrunken estimate vary less (prior weight {percent(weight)})"
    return f"covariance: {said}"


def _misspecification(pair: Pair, j: int) -> str:
    """The sandwich disagrees with a model without a prior about the error of this coefficient."""
    df = freedom(pair.fit)
    ratios = {
        f: r
        for f, every in pair.sandwich.items()
        if ratio_differs(r := every.get(pair.params[j], np.nan), df)
    }
    if not ratios:
        return ""
    worst = max(ratios, key=lambda f: abs(np.log(ratios[f])))
    return f"misspecification: the sandwich (HC2) SE of {pair.params[j]} in {worst} is {ratios[worst]:.2f} times the model's"


def _kind(pair: Pair, j: int) -> str:
    a, b = (
        KIND_WORDS.get(str(row["kind"][j]), str(row["kind"][j]))
        for row in (pair.base, pair.here)
    )
    return f"kind of interval: {b} in {pair.name}, {a} in {pair.base_name}"


def _degrees_of_freedom_text(pair: Pair, j: int) -> str:
    ml = next(
        n
        for n, (f, _) in pair.named.items()
        if f.solution.found is not None and f.solution.found.criterion == "ML"
    )
    other = next(n for n in pair.named if n != ml)
    k = len(pair.fit.model.design.head) * pair.fit.model.shape[1]
    return f"{DEGREES}: {other} counts the {k} flat coefficients in the standard deviations, {ml} takes them as known"


def _averaging_text(pair: Pair, j: int) -> str:
    found = next(n for n, (f, _) in pair.named.items() if f.solution.found is not None)
    other = next(n for n in pair.named if n != found)
    return f"{AVERAGED}: {other} averages over them, {found} takes them as known at its estimate"


def _prior_of_sd(pair: Pair, j: int) -> str:
    here, base = (stated_hyper(f) for f in (pair.fit, pair.base_fit))
    name = next(n for n in {**here, **base} if here.get(n) != base.get(n))
    if pair.fit.model.design.columns == pair.base_fit.model.design.columns:
        gone = "held"
    else:
        gone = "none"
    return f"{PRIOR_OF_SD}: {here.get(name, gone)} for {name} in {pair.name}, {base.get(name, gone)} in {pair.base_name}"


_SPREAD = {
    "bootstrap": "spread of replicates", "observed": "curvature", "expected": "curvature",
    "classical": "curvature with RSS/(n - rank)", "HC0": "sandwich", "HC1": "sandwich",
}  # fmt: skip
_WORDS: Mapping[str, Callable[[Pair, int], str]] = {
    "likelihood": _likelihood_text, "separation": _separation, "sampler": _sampler, "Monte Carlo error": _chance, "convergence": _convergence,
    "skewness": _skewness_text, "approximation": _approximation, "small sample": _small_sample, "covariance": _covariance_text,
    "misspecification": _misspecification, "kind of interval": _kind, DEGREES: _degrees_of_freedom_text, AVERAGED: _averaging_text, PRIOR_OF_SD: _prior_of_sd,
}  # fmt: skip

"""The causes in words, each with the number that is its evidence; the term stands first."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from probreg.comparison.differences import summary
from probreg.comparison.evidence import divergences, freedom, telling
from probreg.comparison.methods import may_stop_short, r_hat, skewness, troubled
from probreg.comparison.numbers import KIND_WORDS
from probreg.comparison.pairs import Pair
from probreg.comparison.prior_terms import aux_prior_words
from probreg.comparison.same_question import number_of_observations
from probreg.inference.uncertainty.covariance import reported
from probreg.inference.uncertainty.intervals import quantile
from probreg.system.terminal import percent


class Cause(NamedTuple):
    """A cause by name, and what is said of it."""

    name: str
    said: str


def described(pair: Pair, cause: str, j: int) -> Cause | None:
    """A cause with its evidence; None where there is none of that kind for this parameter."""
    said = _WORDS[cause](pair, j)
    return Cause(cause, said) if said else None


def _likelihood(pair: Pair, j: int) -> str:
    words = {name: f.model.likelihood for name, (f, _) in pair.named.items()}
    a, b = words[pair.base_name], words[pair.name]
    return f"likelihood: {_named(b)} in {pair.name}, {_named(a)} in {pair.base_name}"


def _named(likelihood: object) -> str:
    """The class with the settings that are numbers."""
    own = {k: v for k, v in vars(likelihood).items() if isinstance(v, int | float) and not isinstance(v, bool)}
    return type(likelihood).__name__ + (f"({', '.join(f'{k}={v:g}' for k, v in own.items())})" if own else "")


def _held(pair: Pair, j: int) -> str:
    said = []
    for name, (fit, _) in pair.named.items():
        for aux in fit.model.likelihood.aux:
            how = "held at" if aux in fit.model.fixed else "estimated as"
            said.append(f"{aux} {how} {fit.aux[aux]:.4g} in {name}")
    return f"sigma held: {', '.join(said)}"


def _separation(pair: Pair, j: int) -> str:
    return "; ".join(
        f"separation: {f.solution.detail}; other coefficients of {name} are at infinity"
        for name, f in pair.without_maximum.items()
    )


def _prior(pair: Pair, j: int) -> str:
    """Its own prior, or that of the neighbour through which it moved."""
    own = [str(row["prior"][j]) for _, row in pair.named.values()]
    if not pair.coefficient[j]:
        # Sigma of the fit whose coefficients stay further from least squares has more to explain.
        if not pair.rss:
            return f"prior of the coefficients: another in {pair.name} than in {pair.base_name}"
        squares = ", ".join(f"{pair.rss[name]:.4g} in {name}" for name in (pair.name, pair.base_name))
        return f"prior of the coefficients: it moves the residuals (RSS {squares})"
    k = j if own[0] != own[1] else _neighbour(pair, j)
    said = f"prior of {pair.params[k]}: {_both(pair, 'prior', k)}"
    if k != j:
        # How the prior of one coefficient reaches another: by their correlation, or by the noise that it leaves.
        c = pair.correlation[j, k]
        if abs(c * pair.here["difference"][k]) > pair.apart / 2:
            carried = f"; correlation {c:.3g} with {pair.params[j]} in {pair.base_name}"
        else:
            sigma = [f.model.noise(f.aux, np.nan) for f in (pair.fit, pair.base_fit)]
            carried = (
                f"; sigma {sigma[0]:.3g} against {sigma[1]:.3g}"
                if pair.alike and sigma[0] != sigma[1] and sigma[0] > 0
                else ""
            )
        return said + carried
    weight = {name: float(row["prior_weight"][j]) for name, (_, row) in pair.named.items()}
    known = {name: w for name, w in weight.items() if w > 0}
    more = max(known, key=lambda name: known[name], default=None)
    return said + ("" if more is None else f"; prior weight {percent(known[more])} in {more}")


def _both(pair: Pair, word: str, k: int) -> str:
    a, b = pair.base[word][k], pair.here[word][k]
    return f"{b} in {pair.name}, {a} in {pair.base_name}" if a != b else f"{b}, stated otherwise in {pair.name}"


def _neighbour(pair: Pair, j: int) -> int:
    """The coefficient whose prior differs and whose move carried this one furthest, by its correlation."""
    differs = (pair.here["prior"] != pair.base["prior"]) & pair.coefficient
    pull = np.where(differs, np.abs(np.nan_to_num(pair.correlation[j] * pair.here["difference"])), -1.0)
    return int(pull.argmax()) if differs.any() else j


def _prior_of_sigma(pair: Pair, j: int) -> str:
    words = {n: aux_prior_words(f.model, f.model.noise_scale) for n, (f, _) in pair.named.items()}
    said = f"prior of sigma: {words[pair.name]} in {pair.name}, {words[pair.base_name]} in {pair.base_name}"
    a, b = (f.model.noise(f.aux) for f in (pair.base_fit, pair.fit))
    return f"{said}; sigma {b:.3g} against {a:.3g}" if pair.coefficient[j] else said


def _sampler(pair: Pair, j: int) -> str:
    said = []
    for name in troubled(pair, j):
        fit = pair.named[name][0]
        if "k_hat" in fit.solution.stats:
            said.append(f"sampler: importance weights of {name} (k-hat {fit.solution.stats['k_hat']:.2f})")
            continue
        lost = divergences(fit)
        said.append(f"sampler: {name} (R-hat {r_hat(pair, name, j):.3g}" + (f", {lost} divergences)" if lost else ")"))
    return " and ".join(said)


def _chance(pair: Pair, j: int) -> str:
    if pair.replicated:
        return f"Monte Carlo error: a bootstrap SE of so many replicates has an error of {percent(pair.replicated, 2)}"
    return f"Monte Carlo error: that of the mean is {pair.noise(j)[0] / pair.base['error'][j]:.2g} SE"


def _convergence(pair: Pair, j: int) -> str:
    short = {name: fit for name, (fit, _) in pair.named.items() if may_stop_short(fit)}
    known = {name: v for name, f in short.items() if (v := float(f.solution.stats.get("distance", np.nan))) > 0}
    if not known:
        return f"convergence: the status of {' and '.join(short)}, which did not end at a mode"
    worst = max(known, key=lambda name: known[name])
    return f"convergence: {worst} stopped {known[worst]:.2g} standard errors short of the mode"


def _skewness(pair: Pair, j: int) -> str:
    name, value = skewness(pair, j)
    other = next(n for n in pair.named if n != name)
    if np.isnan(value):
        return f"mean against mode: {name} reports the mean of its posterior, {other} its mode"
    return f"skewness {value:.2g} of the posterior in {name}, whose mean is not its mode"


def _approximation(pair: Pair, j: int) -> str:
    normal = next(n for n, (f, _) in pair.named.items() if summary(f) == "normal at the mode")
    name, value = skewness(pair, j)
    said = f"approximation: {normal} is a normal at the mode"
    return f"{said}; skewness of {name} {value:.2g}" if np.isfinite(value) else f"{said}, {name} the whole posterior"


def _small_sample(pair: Pair, j: int) -> str:
    df = {name: f.solution.df for name, (f, _) in pair.named.items()}
    known = next((name for name, v in df.items() if v), None)
    if known is None or all(df.values()):
        return f"small sample: {skewness(pair, j)[0]} integrates over sigma, the other takes its mode"
    t, n = quantile(pair.prob, float(df[known] or np.inf)), number_of_observations(pair.named[known][0]) or np.nan
    root = float(np.sqrt(n / float(df[known] or np.nan)))
    return f"small sample: {df[known]:g} degrees of freedom in {known} only (t {t:.3g}, sqrt(n/df) {root:.3g})"


def _covariance(pair: Pair, j: int) -> str:
    kinds = {n: str(reported(f.model, f.method, f.solution)["kind"]) for n, (f, _) in pair.named.items()}
    said = ", ".join(f"{_SPREAD.get(kinds[n], kinds[n])} in {n}" for n in (pair.name, pair.base_name))
    weight = float(np.nanmax([row["prior_weight"][j] for _, row in pair.named.values()]))
    if weight > 0.02:
        return f"covariance: {said}; replicates of a shrunken estimate vary less (prior weight {percent(weight)})"
    return f"covariance: {said}"


def _misspecification(pair: Pair, j: int) -> str:
    """The sandwich disagrees with a model without a prior about the error of this coefficient."""
    df = freedom(pair.fit)
    ratios = {f: r for f, every in pair.sandwich.items() if telling(r := every.get(pair.params[j], np.nan), df)}
    if not ratios:
        return ""
    worst = max(ratios, key=lambda f: abs(np.log(ratios[f])))
    return f"misspecification: the sandwich (HC2) SE of {pair.params[j]} in {worst} is {ratios[worst]:.2f} times the model's"


def _kind(pair: Pair, j: int) -> str:
    a, b = (KIND_WORDS.get(str(row["kind"][j]), str(row["kind"][j])) for row in (pair.base, pair.here))
    return f"kind of interval: {b} in {pair.name}, {a} in {pair.base_name}"


_SPREAD = {
    "bootstrap": "spread of replicates", "observed": "curvature", "expected": "curvature",
    "classical": "curvature with RSS/(n - rank)", "HC0": "sandwich", "HC1": "sandwich",
}  # fmt: skip
_WORDS: Mapping[str, Callable[[Pair, int], str]] = {
    "likelihood": _likelihood, "sigma held": _held, "separation": _separation, "prior": _prior,
    "prior of sigma": _prior_of_sigma, "sampler": _sampler, "Monte Carlo error": _chance, "convergence": _convergence,
    "skewness": _skewness, "approximation": _approximation, "small sample": _small_sample, "covariance": _covariance,
    "misspecification": _misspecification, "kind of interval": _kind,
}  # fmt: skip

"""Why the answers differ: rules over the numbers of the table, each a sentence with its evidence. No proof of a cause."""

from typing import Any

import numpy as np

from probreg.compare.alike import observations
from probreg.compare.numbers import KIND_WORDS, Compared
from probreg.fit import Fit
from probreg.intervals import quantile
from probreg.likelihoods import Gaussian

SMALL = 0.02  # a share of the prior that explains nothing
APART = 0.1  # in SE of the baseline: closer estimates and interval ends need no explanation


def reasons(of: Compared, param: str) -> dict[str, str]:
    """One sentence for each fit that stands apart from the baseline in this parameter, by the name of the fit."""
    base = of.data.sel(fit=of.baseline, param=param)
    out: dict[str, str] = {}
    for name in of.fits:
        here = of.data.sel(fit=name, param=param)
        if name == of.baseline or "held" in (here["kind"].item(), base["kind"].item()):
            continue
        if (gone := _missing(of, name, here, base)) or not _apart(here, base):
            out |= {name: gone} if gone else {}
            continue
        why = [s for rule in RULES if (s := rule(of, name, param))]
        gap = here["shift"].item()
        where = f"{gap:+.2g} SE from" if abs(gap) > 0.005 else "at the estimate of"
        said = f"{name} is {where} {of.baseline}, ratio of their errors {here['ratio'].item():.3g}"
        out[name] = f"{said}; consistent with: {'; '.join(why)}" if why else f"{said}; no rule here explains it"
    return out


def _apart(here: Any, base: Any) -> bool:
    gaps = [abs(here[q].item() - base[q].item()) for q in ("estimate", "lower", "upper")]
    return bool(np.nanmax([*gaps, 0.0]) > APART * base["error"].item())


def _missing(of: Compared, name: str, here: Any, base: Any) -> str:
    """The sentence where one of the two has no estimate."""
    lost, kept, which = (base, here, of.baseline) if np.isnan(base["estimate"]) else (here, base, name)
    if np.isnan(lost["estimate"].item()) == np.isnan(kept["estimate"].item()):
        return ""
    other = name if which == of.baseline else of.baseline
    detail = of.fits[which].solution.detail or lost["status"].item()
    prior = kept["prior"].item()
    held = f"; the prior {prior} gives {other} one" if prior not in ("flat", "") else f"; {other} has one"
    return f"{which} has no estimate ({detail}){held}"


def _by_model(of: Compared, name: str, param: str) -> str:
    a, b = of.fits[of.baseline].model, of.fits[name].model
    if a.likelihood != b.likelihood:
        return f"another likelihood: {b.likelihood.describe(b.design.response)}"
    if a.fixed != b.fixed:
        held = {k: f"held at {v:g} in {n}" for n, m in ((of.baseline, a), (name, b)) for k, v in m.fixed.items()}
        return ", ".join(f"{k} {v}" for k, v in held.items())
    return ""


def _by_prior(of: Compared, name: str, param: str) -> str:
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


def _by_neighbour(of: Compared, name: str, param: str) -> str:
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
    shift = here["shift"].sel(param=other).item()
    return f"its correlation {c:.2g} (in {of.baseline}) with {other}, which moved by {shift:+.2g} SE under its prior"


def _correlation(fit: Fit, param: str) -> dict[str, float]:
    cov = fit.covariance()
    if param not in cov["param"].values:
        return {}
    sd = np.sqrt(np.diagonal(cov.values))
    row = cov.sel(param=param).values / sd / float(np.sqrt(cov.sel(param=param, param_=param)))
    return {str(q): float(c) for q, c in zip(cov["param"].values, row) if np.isfinite(c)}


def _by_skewness(of: Compared, name: str, param: str) -> str:
    targets = {of.fits[name].target, of.fits[of.baseline].target}
    skew = of.data["skewness"].sel(param=param)
    sampled = name if of.fits[name].target == "posterior" else of.baseline
    value = skew.sel(fit=sampled).item()
    if len(targets) < 2 or not abs(value) > 0.1:
        return ""
    e = of.data.sel(fit=sampled, param=param)
    arms = (e["upper"].item() - e["estimate"].item()) / (e["estimate"].item() - e["lower"].item())
    return f"a skewed posterior (skewness {value:.2g}; upper arm of its interval {arms:.2g} times the lower): its mean is not its mode"


def _by_small_sample(of: Compared, name: str, param: str) -> str:
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


def _by_noise(of: Compared, name: str, param: str) -> str:
    error = of.data["error"].sel(fit=of.baseline, param=param).item()
    mcse = np.nansum(np.square(of.data["mcse"].sel(param=param, fit=[name, of.baseline]).values)) ** 0.5 / error
    shift = abs(of.data["shift"].sel(fit=name, param=param).item())
    return f"sampling noise (Monte Carlo error {mcse:.2g} SE)" if shift < 3 * mcse and mcse > APART / 3 else ""


def _by_status(of: Compared, name: str, param: str) -> str:
    bad = [f for f in (of.baseline, name) if not of.fits[f].solution.status.good]
    return f"the status of {' and '.join(bad)}, which did not end well" if bad else ""


def _by_kind(of: Compared, name: str, param: str) -> str:
    here = of.data.sel(param=param)
    a, b = (here["kind"].sel(fit=f).item() for f in (of.baseline, name))
    if a == b or abs(here["shift"].sel(fit=name).item()) > APART:
        return ""
    return f"another kind of interval ({KIND_WORDS[b]} against {KIND_WORDS[a]})"


RULES = (_by_model, _by_status, _by_prior, _by_neighbour, _by_skewness, _by_small_sample, _by_noise, _by_kind)

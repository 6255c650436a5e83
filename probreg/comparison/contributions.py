"""What each difference between two fits would do to their estimates and intervals, from derivatives at the two estimates.

With H the curvature, a prior of gradient g_1 in place of one of g_0 moves the mode by H^-1 (g_1 - g_0), and its curvature
P_1 for P_0 changes the errors sqrt diag (J + P)^-1. An estimate is its mode plus what its method adds: a mean is not a mode,
an iterate may stop short. Arms of intervals are held on the log scale, where factors add.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from probreg.comparison.points import PosteriorPoint, errors, moved, point_of, solved, terms_at
from probreg.fits.fit import Fit
from probreg.inference.uncertainty.intervals import quantile

Array = np.ndarray
Rows = Mapping[str, Array]
MOVERS = (
    "prior of sigma",
    "prior",
    "sigma held",
    "likelihood",
)  # what moves the mode; the last that differs takes the rest
_SLIGHT = 0.02  # of a change of log sigma: what would have made less is no part of it
_CURVING = ("likelihood", "prior", "sigma held", "prior of sigma")  # what changes a curvature, the likeliest first


@dataclass
class Effect:
    """What one difference would do to each parameter of the table: to its estimate, in its units, and to the lower and upper
    arm of its interval, as log factors; nan where that has no number."""

    move: Array
    lower: Array
    upper: Array

    @classmethod
    def of(cls, move: Array, arm: Array | float = 0.0) -> "Effect":
        return cls(move, np.zeros(len(move)) + arm, np.zeros(len(move)) + arm)


@dataclass(frozen=True, eq=False)
class _Swap:
    """One estimate with the derivatives of its own model (`here`) and of the other fit's (`there`)."""

    here: PosteriorPoint
    there: PosteriorPoint
    sign: float  # -1: the estimate of the fit, and the step to the baseline's mode; +1: the other way


def effects(
    base: Fit, fit: Fit, differ: set[str], params: tuple[str, ...], rows: tuple[Rows, Rows], prob: float
) -> dict[str, Effect]:
    """By difference: those that move the mode, and what the methods add, as "own" (to the estimate), "error" (to the error
    beyond the curvature's) and "quantile" (to the arms beyond the error's)."""
    points = (base.once(point_of), fit.once(point_of))
    movers = [name for name in MOVERS if name in differ]
    swap = _swap(base, fit, points) if movers else None
    none = np.zeros(len(params))
    out = {name: Effect.of(none + (np.nan if swap is None else 0.0)) for name in movers}
    for name, step in _steps(swap, movers).items():
        assert swap is not None
        out[name].move = np.nan_to_num(moved(swap.there, step, params))
    own, error = _own(points, params), _own_errors(points, rows, params)
    out |= {"own": Effect.of(own), "error": Effect.of(none.copy(), error), "quantile": _quantiles(rows, prob)}
    if swap is not None:
        _arms(out, swap, points, (base, fit), params)
    return out


def _swap(base: Fit, fit: Fit, points: tuple[PosteriorPoint | None, PosteriorPoint | None]) -> _Swap | None:
    a, b = points
    for here, model, aux, sign in ((b, base.model, fit.aux, -1.0), (a, fit.model, base.aux, 1.0)):
        there = None if here is None else terms_at(model, here.beta, aux, here)
        if here is not None and there is not None and there.mode_step is not None:
            return _Swap(here, there, sign)
    return None


def _steps(swap: _Swap | None, movers: list[str]) -> dict[str, Array]:
    """From the mode of the baseline to that of the fit, over (vec beta, log aux), by what moves it."""
    if swap is None:
        return {}
    here, there = swap.here, swap.there
    assert there.mode_step is not None
    # mode_1 - mode_0 = H_1^-1 g_1 - H_0^-1 g_0, both steps from the same estimate.
    k = here.beta.size
    rest = swap.sign * there.mode_step
    if here.mode_step is not None and len(here.mode_step) == len(
        rest
    ):  # the estimate is not the mode of its model either
        rest = rest - swap.sign * here.mode_step
    out: dict[str, Array] = {}
    for name in movers[:-1]:
        one, other = ((p.prior if name == "prior" else p.aux_prior) for p in (there, here))
        if one is None or other is None or name not in ("prior", "prior of sigma"):
            continue
        size = len(rest) if len(one.g) == len(other.g) else k
        change = np.zeros(len(rest))
        change[:size] = one.g[:size] - other.g[:size]
        # A prior of gradient g_1 in place of g_0 moves the mode by H^-1 (g_1 - g_0).
        part = solved(there.curvature, change)
        assert part is not None
        out[name] = swap.sign * part
        rest = rest - out[name]
    return out | {movers[-1]: rest}


def _own(points: tuple[PosteriorPoint | None, PosteriorPoint | None], params: tuple[str, ...]) -> Array:
    """How much further from its own mode the estimate of the fit is than that of the baseline."""
    # estimate - mode = -H^-1 g of each fit; the second less the first.
    base, fit = (
        np.zeros(len(params)) if p is None or p.mode_step is None else np.nan_to_num(moved(p, p.mode_step, params))
        for p in points
    )
    return np.asarray(base - fit)


def _own_errors(
    points: tuple[PosteriorPoint | None, PosteriorPoint | None], rows: tuple[Rows, Rows], params: tuple[str, ...]
) -> Array:
    """log of (error / the curvature's) of the fit over that of the baseline, 0 where either is not known."""
    # log(error / sqrt diag H^-1): what an error has beyond the curvature's.
    base, fit = (np.log(row["error"] / errors(p, params)) for p, row in zip(points, rows))
    return np.nan_to_num(fit - base, posinf=0.0, neginf=0.0)


def _quantiles(rows: tuple[Rows, Rows], prob: float) -> Effect:
    """log of (arm / error) of the fit over that of the baseline."""
    # log(arm / (z error)), z the normal quantile: 0 for an interval that is normal.
    below, above = (
        [np.log((row[high] - row[low]) / row["error"] / quantile(prob, None)) for row in rows]
        for low, high in (("lower", "estimate"), ("estimate", "upper"))
    )
    lower, upper = (np.nan_to_num(b - a, posinf=0.0, neginf=0.0) for a, b in (below, above))
    return Effect(np.zeros(len(lower)), lower, upper)


def _arms(
    out: dict[str, Effect],
    swap: _Swap,
    points: tuple[PosteriorPoint | None, PosteriorPoint | None],
    fits: tuple[Fit, Fit],
    params: tuple[str, ...],
) -> None:
    """The change of the curvature's errors: at one place by another model, then along the way to the other place."""
    # log of sqrt diag H_1^-1 over sqrt diag H_0^-1 at one estimate, and then of each at its own.
    sizes = swap.sign * np.log(errors(swap.there, params) / errors(swap.here, params))
    base, fit = (errors(p, params) for p in points)
    whole = np.log(fit / base)
    whole = np.where(np.isfinite(whole), whole, sizes)
    here = np.where(np.isfinite(sizes), sizes, 0.0)
    coefficient = np.array([name not in swap.here.model.likelihood.aux for name in params])
    # Under flat priors errors of coefficients go with the noise scale: log s_1 - log s_0.
    s = [f.model.noise(f.aux, np.nan) for f in fits]
    noise = float(np.log(s[1] / s[0])) if "likelihood" not in out and np.isfinite(s).all() and min(s) > 0 else 0.0
    sigma = np.where(coefficient, noise, 0.0)
    scale = fits[0].model.likelihood.noise_scale
    place = params.index(scale) if scale in params else None
    curving = next(name for name in _CURVING if name in out)
    if "sigma held" in out:
        _widen(out["sigma held"], sigma)
        here = here - sigma
        sigma = 0.0 * sigma
    _widen(out[curving], here)
    for name, part in _parts_of_sigma(out, place, s[0], noise, curving).items():
        _widen(out[name], part * sigma)
    along = np.nan_to_num(whole - here - sigma - (noise * coefficient if "sigma held" in out else 0.0))
    largest = max(out, key=lambda name: float(np.nanmax(np.abs(out[name].move / base), initial=0.0)))
    _widen(out[largest], along)


def _widen(effect: Effect, by: Array) -> None:
    effect.lower, effect.upper = effect.lower + by, effect.upper + by


def _parts_of_sigma(
    out: dict[str, Effect], place: int | None, sigma: float, change: float, rest: str
) -> dict[str, float]:
    """Which causes moved log sigma by `change`, in proportion; its place is among the parameters;
    `rest` where none would have moved it so."""
    if place is None or not change:
        return {}
    # d log sigma = d sigma / sigma of each cause; those that go the way of the change share it in proportion.
    moves = {name: float(one.move[place]) / sigma for name, one in out.items()}
    toward = {name: v for name, v in moves.items() if v * change > _SLIGHT * change**2}
    total = sum(toward.values())
    return {name: v / total for name, v in toward.items()} if toward else {rest: 1.0}

"""Whether a density, which anyone may write, is the density that NumPy has: asked of some rows before a chain starts."""

import numpy as np

from probreg.errors import Incompatible
from probreg.inference.base import Array
from probreg.likelihoods import SmoothLikelihood
from probreg.model.model import Model
from probreg.numerics.compiled import loops_of, tiles_of

_ROWS = 200
_CLOSE = 1e-6  # of the sums of sizes; rounding is 1e-13, a wrong term is above


def check_compiled_density(model: Model, point: Array) -> None:
    """Incompatible where density and `value_grad_hessian` differ at (vec beta, log aux) = point, over some of the rows."""
    likelihood, d, (p, m) = model.likelihood, model.design, model.shape
    assert isinstance(likelihood, SmoothLikelihood)
    assert likelihood.compiled_density is not None
    some = slice(None, None, max(1, d.n // _ROWS))
    X, y, beta = d.X[some], np.ascontiguousarray(d.observed[some], dtype=float), point[: p * m].reshape(p, m)
    shift = np.zeros((len(y), m)) if d.offset is None else np.broadcast_to(d.offset, (d.n, m))[some]
    aux = {**model.fixed, **dict(zip(model.unknown, np.exp(point[p * m :]).tolist(), strict=True))}
    with np.errstate(all="ignore"):
        log_p, g, _ = likelihood.value_grad_hessian(y, X @ beta + shift, **aux)
        g = g[:, [*range(m), *(m + likelihood.aux.index(a) for a in model.unknown)]]
        each = log_p - likelihood.base_measure(y)
    exact = np.r_[each.sum(), (X.T @ g[:, :m]).ravel(), g[:, m:].sum(0)]
    size = np.r_[np.abs(each).sum(), (np.abs(X).T @ np.abs(g[:, :m])).ravel(), np.abs(g[:, m:]).sum(0)]
    slopes, t = np.empty(len(exact) - 1), np.array(likelihood.settings(**aux), dtype=float)
    value = loops_of(likelihood.compiled_density).gradient(
        tiles_of(X), y, np.zeros(0), np.ascontiguousarray(shift.T), np.ascontiguousarray(beta), t, slopes
    )
    far = np.abs(np.r_[value, slopes] - exact) > _CLOSE * (size + 1e-3 * len(y))
    if np.isfinite(exact).all() and (far.any() or not np.isfinite(np.r_[value, slopes]).all()):
        what = f"log p {value:g} and {exact[0]:g}" if far[0] else "slopes that differ"
        raise Incompatible(
            f"the density of the {likelihood.name} likelihood is another density than its log_prob and value_grad_hessian: over "
            f"{len(y)} rows they have {what}. Write compiled_density, settings and base_measure to match them, or set compiled_density = None"
        )

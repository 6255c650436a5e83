"""A prior of groups of columns as other packages spell the group lasso: sum_g weight_g |w_g| beside a sum over rows.

| package | Gaussian | Bernoulli |
| --- | --- | --- |
| rss | RSS + lam sum_g weights_g norm(w_g) | |
| celer, skglm GroupLasso | RSS/(2N) + alpha sum_g weights_g norm(w_g), weights 1 unless given | |
| gglasso (R) | RSS/(2N) + lambda sum_g pf_g norm(w_g), pf_g the root of the size unless given | -log L / N + lambda sum_g pf_g norm(w_g) |
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from probreg.errors import Incompatible
from probreg.priors.base import GroupedPrior
from probreg.priors.joint import JointPrior
from probreg.priors.penalties.spelling import Setting, Spelling, Spellings

_SAME = 1e-13  # numbers that are meant to be equal may differ in their last bits


class GroupPenalty(NamedTuple):
    """-log p = sum_g weight_g |w_g| + constant, in units of sigma where `relative`."""

    names: tuple[str, ...]  # of the columns of X
    groups: tuple[tuple[int, ...], ...]  # places among them
    weights: np.ndarray  # (G,)
    relative: bool


def group_penalty(prior: JointPrior, columns: Sequence[str], intercept: str) -> GroupPenalty | None:
    """The prior of all columns but a free intercept as norms of groups about zero; None where it has no groups. Incompatible where
    it is more than that."""
    if not any(isinstance(b.prior, GroupedPrior) for b in prior.blocks):
        return None
    stated = [b for b in prior.blocks if prior.informative[list(b.columns)].any()]
    free = {columns[j] for b in prior.blocks if b not in stated for j in b.columns}
    block, of = stated[0], stated[0].prior
    if len(stated) > 1 or not isinstance(of, GroupedPrior) or np.any(of.location) or free - {intercept}:
        raise Incompatible(
            "other packages take one GroupLaplace prior about zero of all columns but the intercept; the penalty of each "
            "column is prior.as_penalty"
        )
    q = len(block.columns)
    scale, groups = np.broadcast_to(of.scales, q), of.members(q)
    for g in groups:
        if np.ptp(scale[g]) > _SAME * scale[g].max():
            apart = ", ".join(columns[block.columns[j]] for j in g)
            raise Incompatible(
                f"other packages take one scale of a group, and those of {apart} differ: standardise these columns first"
            )
    names = tuple(columns[j] for j in block.columns)
    return GroupPenalty(
        names, tuple(tuple(g.tolist()) for g in groups), np.array([1 / scale[g[0]] for g in groups]), of.sigma_units
    )


def group_spellings(found: GroupPenalty, at: Setting, notes: tuple[str, ...], *, intercept: bool) -> Spellings:
    """The calls of every package whose minimum is the mode."""
    weights = found.weights / (at.sigma or 1.0) if found.relative else found.weights
    each = "; ".join(", ".join(found.names[j] for j in g) for g in found.groups)
    of = (
        f"{weights[0]:.6g}"
        if np.ptp(weights) <= _SAME * weights.max()
        else f"({', '.join(f'{w:.6g}' for w in weights)})"
    )
    head = f"-log p(w) = {of} |w_g| for the groups {each}"
    if at.family == "gaussian":
        at.need(sigma="the weight of a penalty beside an RSS")
        weights = weights * (at.sigma or 1.0) ** 2  # beside RSS / 2
    rows = _rss(found, weights) if at.family == "gaussian" else ()
    if at.n is not None and at.family in ("gaussian", "bernoulli"):
        rows = (*rows, *_per_row(found, weights / at.n, at.family, intercept))
    return Spellings(found.names, np.nan, np.nan, rows, (*notes, "scikit-learn has no group lasso"), head)


def _rss(found: GroupPenalty, weights: np.ndarray) -> tuple[Spelling, ...]:
    lam, own = _shared(2.0 * weights, np.ones(len(weights)))
    said = "" if own is None else f", weights={_list(own)}"
    return (Spelling("rss", f"lam={lam:.12g}{said}", "RSS + lam sum_g weights_g |w_g|", {"lam": lam}),)


def _per_row(found: GroupPenalty, weights: np.ndarray, family: str, intercept: bool) -> tuple[Spelling, ...]:
    out, root = [], np.sqrt([len(g) for g in found.groups])
    if family == "gaussian":
        alpha, own = _shared(weights, np.ones(len(weights)))
        more = ("" if own is None else f", weights={_list(own)}") + ("" if intercept else ", fit_intercept=False")
        call = f"GroupLasso(groups={list(map(list, found.groups))}, alpha={alpha:.12g}{more})"
        criterion = "RSS/(2N) + alpha sum_g weights_g |w_g|"
        out += [Spelling(package, call, criterion, {"alpha": alpha}) for package in ("celer", "skglm")]
    order = [j for g in found.groups for j in g]
    if order == list(range(len(order))):  # it takes groups of neighbours
        lam, own = _shared(weights, root)
        each = ", ".join(str(k + 1) for k, g in enumerate(found.groups) for _ in g)
        more = ("" if own is None else f", pf=c({_list(own)[1:-1]})") + ("" if intercept else ", intercept=FALSE")
        loss, sum_of, of_y = ("ls", "RSS/(2N)", "") if family == "gaussian" else ("logit", "-log L / N", ", y -1 or 1")
        call = f"gglasso(group=c({each}), loss='{loss}', lambda={lam:.12g}{more})"
        criterion = f"{sum_of} + lambda sum_g pf_g |w_g|, pf_g the root of the size unless given{of_y}"
        out.append(Spelling("gglasso", call, criterion, {"lambda": lam}))
    return tuple(out)


def _shared(weights: np.ndarray, usual: np.ndarray) -> tuple[float, np.ndarray | None]:
    """The number that times the package's usual weights gives these, and None; the least of them and their ratios to it elsewhere."""
    ratio = weights / usual
    if np.ptp(ratio) <= _SAME * ratio.max():
        return float(ratio[0]), None
    return float(weights.min()), weights / weights.min()


def _list(values: np.ndarray) -> str:
    return f"[{', '.join(f'{v:.12g}' for v in values)}]"

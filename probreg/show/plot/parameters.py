"""Which parameters a picture draws, in which order, under which names and in which units. Names and numbers only."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from probreg.errors import DataError
from probreg.fits.fit import Fit

Order = Literal["estimate", "name"]
Scale = Literal["raw", "sd"]
Rename = Mapping[str, str]


def columns_of(fit: Fit) -> dict[str, int | None]:
    """The column of each coefficient by name, and None for each auxiliary parameter.

    >>> import probreg as pr
    >>> columns_of(pr.ols([[1.0], [2.0], [4.0]], [1.0, 2.0, 3.0], columns=["dose"]))
    {'Intercept': 0, 'dose': 1, 'sigma': None}
    """
    head = fit.model.design.head
    outcomes = fit.coef.size // len(head) if len(head) else 1
    names: dict[str, int | None] = {
        str(name): int(head[i // outcomes])
        for i, name in enumerate(fit.parameter_names)
    }
    return names | dict.fromkeys(fit.solution.scalars)


def intercepts(fits: Iterable[Fit]) -> set[str]:
    """The names of the intercepts, one for each outcome."""
    return {
        name
        for fit in fits
        if fit.model.design.intercept is not None
        for name, column in columns_of(fit).items()
        if column == fit.model.design.intercept
    }


def spreads(fit: Fit) -> dict[str, float]:
    """The standard deviation of the column of each coefficient; nan where none varies: the intercept, auxiliary parameters."""
    sd = np.asarray(fit.model.design.moments.scale, dtype=float)
    fixed = fit.model.design.intercept
    return {
        name: float(sd[j]) if j is not None and j != fixed and sd[j] > 0 else np.nan
        for name, j in columns_of(fit).items()
    }


def names_to_show(names: Sequence[str], rename: Rename | None) -> dict[str, str]:
    """The name to show for each: a new one for the whole, or for the column of "column: outcome".

    >>> names_to_show(["dose: beech", "sigma"], {"dose": "Dose (mg)"})
    {'dose: beech': 'Dose (mg): beech', 'sigma': 'sigma'}
    """
    new = {} if rename is None else dict(rename)
    parts = {name: name.partition(": ") for name in names}
    unknown = sorted(set(new) - set(names) - {head for head, *_ in parts.values()})
    if unknown:
        known = ", ".join(list(names)[:12]) + (", …" if len(names) > 12 else "")
        raise DataError(
            f"rename: {unknown[0]!r} is no name in this picture; those are: {known}"
        )
    return {
        name: new.get(name, new.get(head, head) + mark + tail)
        for name, (head, mark, tail) in parts.items()
    }


def order_names(
    names: Sequence[str],
    dropped: Collection[str],
    *,
    sort: Order | None,
    estimate: Mapping[str, Any],
    shown: Mapping[str, str],
) -> list[str]:
    """The names that are drawn, in their order: as in the fit, by name as shown, or by estimate from large to small."""
    kept = [name for name in names if name not in dropped]
    if not kept:
        raise DataError(
            f"intercept=False leaves nothing to draw: {', '.join(names)} is all there is"
        )
    if sort == "name":
        return sorted(kept, key=lambda name: shown[name])
    if sort == "estimate":
        size = {name: float(estimate.get(name, np.nan)) for name in kept}
        return sorted(
            kept, key=lambda name: -size[name] if np.isfinite(size[name]) else np.inf
        )
    return kept

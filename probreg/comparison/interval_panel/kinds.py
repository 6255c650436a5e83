"""The available intervals of a fit, by name."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from probreg.arguments.scalars import check_fields, shown_value
from probreg.errors import DataError
from probreg.fits.fit import Fit
from probreg.inference import Bootstrap, Conjugate, Method, MethodName
from probreg.model.model import Model

Array = np.ndarray


@dataclass(frozen=True)
class Interval:
    """A requested interval: its kind, its covariance, and for `coverage` the method that fits.

    Parameters
    ----------
    kind : str, optional
        As in `Fit.interval`; None is the default of the fit.
    covariance : str, optional
        The name of a kind such as "HC3".
    method : str or Method, optional
        None is "auto" for a mode, "conjugate" or else "laplace" for a posterior.

    Examples
    --------
    >>> Interval(covariance="HC3").name, Interval("profile").name
    ('HC3', 'profile')
    """

    kind: str | None = None
    covariance: str | None = None
    method: MethodName | str | Method | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def name(self) -> str:
        return self.covariance or self.kind or "default"

    def of(self, fit: Fit, prob: float) -> tuple[Array, Array]:
        """Return the interval ends of all coefficients, raveled column first; errors as in `Fit.interval`."""
        options: dict[str, Any] = (
            {} if self.covariance is None else {"covariance": self.covariance}
        )
        interval = fit.interval(prob, kind=self.kind, **options)
        return interval["lower"].values.ravel(), interval["upper"].values.ravel()

    def method_for(self, model: Model) -> str | Method:
        """Return the method of the fits in a simulation of this interval."""
        if self.method is not None:
            return self.method
        if self.kind == "bootstrap":
            return Bootstrap(reps=199)
        if self.kind not in ("eti", "hdi"):
            return "auto"
        if Conjugate().obstacle(model):
            return "laplace"
        return "conjugate"


INTERVALS: Mapping[str, Interval] = MappingProxyType(
    {
        "t": Interval("t"),
        "wald": Interval("wald"),
        "HC3": Interval(covariance="HC3"),
        "profile": Interval("profile"),
        "score": Interval("score"),
        "bootstrap": Interval("bootstrap"),
        "eti": Interval("eti"),
        "hdi": Interval("hdi"),
    }
)


def parse_kinds(
    kinds: "Iterable[str] | Mapping[str, Interval] | None",
) -> dict[str, Interval]:
    """Return the intervals by name. DataError for an unknown name."""
    if kinds is None:
        return dict(INTERVALS)
    if isinstance(kinds, Mapping):
        chosen = dict(kinds)
    elif isinstance(kinds, Iterable) and not isinstance(kinds, str):
        chosen = {kind: INTERVALS.get(kind) for kind in kinds}
    else:
        raise DataError(
            f"kinds is a list of names, such as ['t'], or a mapping to Interval(...), got {shown_value(kinds)}"
        )
    wrong = [kind for kind, v in chosen.items() if not isinstance(v, Interval)]
    if wrong or not chosen:
        found = f"no interval is called {wrong[0]!r}" if wrong else "kinds is empty"
        raise DataError(
            f"{found}; there are: {', '.join(INTERVALS)}, or a mapping to Interval(...)"
        )
    return chosen

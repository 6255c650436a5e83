"""The audit of a model: every way to its posterior, run and compared, and whether the slowest was worth it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from probreg.arguments.scalars import Flag, Seed, Several, checked
from probreg.assess.audit.judgement import (
    DIFFERENCE,
    RATIO,
    Agreement,
    Distance,
    agreement,
    moment_distance,
    needed,
    reference_of,
    verdict,
)
from probreg.assess.audit.rungs import EXACT, Rung, methods, parameter_names_of, run_rung
from probreg.fits.fit import Fit
from probreg.inference.sampling.laplace import further_modes
from probreg.model.model import Model
from probreg.system.notebook import notebook_html
from probreg.system.progress import progress_bar
from probreg.system.terminal import printed, table_lines

DIGITS = {"k_hat": 2, "ess": 0, "seconds": 3, "ess_per_second": 0}
SHOWN = [
    "difference",
    "difference_mcse",
    "param",
    "sd_low",
    "sd_high",
    "k_hat",
    "ess",
    "seconds",
    "ess_per_second",
    "agreement",
]


@dataclass(frozen=True, eq=False)
class Audit:
    """The rungs to one posterior by name, from the cheapest, and how each stands to the reference: the exact one, else
    NUTS. `reference` is None where neither gave a posterior."""

    model: Model
    rungs: Mapping[str, Rung]

    @property
    def reference(self) -> str | None:
        return reference_of(self.rungs)

    @property
    def fits(self) -> dict[str, Fit]:
        """The fits of the rungs that gave one."""
        return {k: r.fit for k, r in self.rungs.items() if r.fit is not None}

    @cached_property
    def table(self) -> Any:
        """One row per rung, unrounded: pandas DataFrame with difference (the largest of any mean, in SD of the reference), its
        Monte Carlo standard error difference_mcse and its param; sd_low and sd_high, the extreme ratios of standard
        deviations; k_hat; ess (the least of any parameter), seconds, ess_per_second; agreement; status.

        nan where there is none: the reference has no difference, a chain no k-hat.
        """
        import pandas as pd

        rows = [
            _row(r, self._apart.get(k), self._stands[k], parameter_names_of(self.model)) for k, r in self.rungs.items()
        ]
        return pd.DataFrame(rows, index=pd.Index(self.rungs, name="rung"))

    def to_pandas(self) -> Any:
        """The table."""
        return self.table

    @cached_property
    def parameters(self) -> Any:
        """One row per parameter and rung but the reference: pandas DataFrame with difference, difference_mcse, sd_ratio and
        sd_ratio_mcse."""
        import pandas as pd

        each = {
            rung: pd.DataFrame(
                {
                    "difference": d.difference,
                    "difference_mcse": d.difference_error,
                    "sd_ratio": d.ratio,
                    "sd_ratio_mcse": d.ratio_error,
                },
                index=pd.Index(parameter_names_of(self.model), name="param"),
            )
            for rung, d in self._apart.items()
        }
        return pd.concat(each, names=["rung"]) if each else pd.DataFrame()

    @property
    def needed(self) -> bool | None:
        """Whether NUTS was needed; None where the draws, or a sampler that did not converge, leave it open."""
        return needed(self.rungs, self._stands)

    @property
    def verdict(self) -> str:
        """One sentence; a second where more modes are possible than the one that all rungs start about."""
        said, told = verdict(self.rungs, self._stands, self._apart), further_modes(self.model)
        exact = any(k in EXACT and r.good for k, r in self.rungs.items())
        return said if told is None or exact else f"{said} All rungs start about one mode: {told}."

    @cached_property
    def _apart(self) -> dict[str, Distance]:
        if self.reference is None:
            return {}
        base = self.rungs[self.reference].moments
        assert base is not None  # what makes it the reference
        others = {k: r.moments for k, r in self.rungs.items() if k != self.reference}
        return {k: moment_distance(m, base) for k, m in others.items() if m is not None}

    @cached_property
    def _stands(self) -> dict[str, Agreement]:
        stands = dict.fromkeys(self.rungs, Agreement.NONE) | {k: agreement(d) for k, d in self._apart.items()}
        stands |= {k: Agreement.REFUSED for k, r in self.rungs.items() if r.refused}
        return stands if self.reference is None else stands | {self.reference: Agreement.REFERENCE}

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader has to know of the table."""
        told = (
            f"agrees: every mean within {DIFFERENCE} SD of the reference and every standard deviation within {100 * RATIO:g} %. "
            "Differs: further off, and by more than Monte Carlo error explains. Within noise: further off, by no more than it explains",
            "ess of laplace and importance is that of their weights, 1 / sum w^2, of nuts the least of any parameter. "
            "Seconds are of one run in this process, loading of the sampler's engine included",
        )
        return (*told, *(f"{k}: {r.status}" for k, r in self.rungs.items() if not r.good))

    def __repr__(self) -> str:
        return printed(*self._head, *table_lines(self._printed), *(f"note: {n}" for n in self.notes))

    def _repr_html_(self) -> str:
        return notebook_html(self._head, [self._printed], self.notes)

    @property
    def _head(self) -> list[str]:
        what = self.model.likelihood.describe(self.model.design.response)
        against = f"; differences in SD of {self.reference}, ratios to its SD" if self.reference else ""
        return [
            f"{what}: {len(parameter_names_of(self.model))} parameters, {self.model.design.total:g} observations{against}",
            self.verdict,
        ]

    @property
    def _printed(self) -> Any:
        """The table as text, an empty cell where there is no number."""
        out = self.table[SHOWN].astype(object)
        for name in SHOWN:
            out[name] = [_cell(v, DIGITS.get(name, 3)) for v in self.table[name]]
        return out.rename_axis(None)


def _cell(value: Any, places: int) -> str:
    """A number to so many places, thousands apart; words as they are.

    >>> _cell(1234.56, 0), _cell(float("nan"), 2), _cell("x", 2)
    ('1,235', '', 'x')
    """
    if isinstance(value, str):
        return value
    return f"{value:,.{places}f}" if np.isfinite(value) else "" if np.isnan(value) else f"{value:g}"


def _row(rung: Rung, apart: Distance | None, stands: Agreement, params: list[str]) -> dict[str, Any]:
    none = {"difference": np.nan, "difference_mcse": np.nan, "param": "", "sd_low": np.nan, "sd_high": np.nan}
    if apart is not None:
        at = apart.worst
        none = {
            "difference": abs(float(apart.difference[at])), "difference_mcse": float(apart.difference_error[at]), "param": params[at],
            "sd_low": float(np.nanmin(apart.ratio)), "sd_high": float(np.nanmax(apart.ratio)),
        }  # fmt: skip
    return none | {
        "k_hat": rung.k_hat,
        "ess": rung.ess,
        "seconds": rung.seconds,
        "ess_per_second": rung.ess / rung.seconds,
        "agreement": stands.value,
        "status": rung.status,
    }


@checked
def audit(
    model: Model, *, draws: Several = 1000, chains: Several = 4, seed: Seed = 0, progress: Flag | None = None
) -> Audit:
    """The posterior of a model by every rung side by side: an exact method, Laplace, importance sampling and NUTS.

    It says how far they are apart, what they cost, and whether NUTS was needed. A rung that refuses stands in the table
    with its reason. Importance sampling is run whatever its k-hat, which the table shows; it counts as refused above
    the limit of `Importance`.

    Parameters
    ----------
    model : Model
        A model.
    draws : int
        Draws of each chain.
    chains : int
        Number of chains of each rung.
    seed : int
        Of everything random.
    progress : bool, optional
        Whether a bar is shown; by default after a second, at a terminal or in a notebook.

    Returns
    -------
    Audit
        Table, verdict and fits.

    Raises
    ------
    Incompatible
        For what is no Model.

    Examples
    --------
    >>> from probreg.priors import Normal
    >>> x = [1.0, 2.0, 3.0, 5.0, 7.0, 8.0]
    >>> found = audit(Model.from_arrays(x, [1.0, 2.5, 2.0, 4.0, 7.0, 7.5]), draws=200, chains=2)
    >>> found.verdict.split(":")[0]
    'NUTS was not needed'
    """
    _ = model.design.basis, model.design.moments  # what the rungs share is made before the clock starts
    rungs = methods(model, draws, chains)
    with progress_bar("audit, methods", len(rungs), show=progress) as bar:
        return Audit(model, {k.name: run_rung(model, k, seed) for k in bar.over(rungs)})

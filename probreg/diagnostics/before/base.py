"""The base class of checks of a model before a fit, and their registry."""

from abc import abstractmethod
from typing import ClassVar

from probreg.diagnostics.findings import Finding, Reporter
from probreg.inference.modes.wide import SOON
from probreg.model.model import Model
from probreg.registry import Registry

CHECKS: Registry["Check"] = Registry("check")


class Check(Reporter):
    """A check of a model before a fit. `cheap` ones take no more than a pass over the columns."""

    cheap: ClassVar[bool] = True

    @abstractmethod
    def run(self, model: Model) -> list[Finding]:
        """Return at least one finding, with the verdict OK if nothing is wrong or the check does not apply."""

    def coded_levels_obstacle(self, model: Model) -> list[Finding] | None:
        """Return the findings of a check that needs products of all columns, if thousands of levels are stored as codes."""
        p = len(model.design.columns)
        if not model.design.coded or p <= SOON:
            return None
        return self.report_not_applicable(
            f"{p:,} columns are levels stored as codes, and the check takes up to {SOON:,}"
        )

"""The base class of checks of a model before a fit, and their registry."""

from probreg.diagnostics.findings import Finder, NotApplicable
from probreg.inference.modes.wide import SOON
from probreg.model.model import Model
from probreg.registry import Registry

CHECKS: Registry["Check"] = Registry("check")


class Check(Finder[Model]):
    """A check of a model before a fit."""


def refuse_coded_levels(model: Model) -> None:
    """Raise NotApplicable for a check that needs products of all columns, if thousands of levels are stored as codes."""
    p = len(model.design.columns)
    if model.design.has_codes and p > SOON:
        raise NotApplicable(
            f"{p:,} columns are levels stored as codes, and the check takes up to {SOON:,}"
        )

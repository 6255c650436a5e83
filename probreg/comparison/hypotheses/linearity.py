"""The test that a smooth function is in the null space of its penalty, such as a straight line: tau = 0 of its range."""

from typing import Any

from probreg.comparison.hypotheses.result import Hypothesis, Test
from probreg.data.formula.functions import functions_called, term_functions
from probreg.diagnostics.after.functional_form import linearity_test
from probreg.fits.fit import Fit

_LINEAR = " is linear"


def asks_linearity(text: Any) -> bool:
    """Whether a hypothesis is `s(x) is linear`."""
    return isinstance(text, str) and text.rstrip().endswith(_LINEAR)


def of_function(fit: Fit, text: str) -> Hypothesis:
    """Test that a smooth function, or every function of a term, has no range."""
    functions = functions_called(
        fit.model.design, text.rstrip().removesuffix(_LINEAR).strip()
    )
    result = linearity_test(fit, functions)
    names = [f.label for f in functions]
    flat = {len(f.of.flat) for f in functions}
    shape = "in the null space of its penalty"
    if len(flat) == 1:
        shape = {0: "constant", 1: "a straight line"}.get(flat.pop(), shape)
    table = fit.smooths.loc[names, ["edf", "columns"]].reset_index()
    notes: tuple[str, ...] = (
        "the p-value is from 20,000 draws of the statistic under the null, with a fixed seed",
    )
    if len(term_functions(fit.model.design)) > len(functions):
        notes += (
            "the scales of the other smooth functions are taken as known, relative to the noise",
        )
    test = Test(result.name, result.statistic, "simulated", (), result.p_value)
    null = (
        f"{', '.join(names)} {'is' if len(names) == 1 else 'are each'} {shape}: tau = 0"
    )
    return Hypothesis(text, null, table, {result.name: test}, notes=notes)

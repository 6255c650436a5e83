"""The shares of causes in words and in cells: what a cause does to an estimate, what is slight, and why a cell is empty."""

import numpy as np

from probreg.arguments.types import Dataset
from probreg.comparison.differences import STRUCTURE
from probreg.fits.fit import Fit
from probreg.inference import Status

Array = np.ndarray
NOTHING = 1e-9  # a share that is rounding
CHANCE = "Monte Carlo error"
# standard errors, and of their log ratio: less is no difference to speak of
SLIGHT = 0.01


def cell(value: float) -> str:
    """A share to three decimals, 0 without a sign or decimals.

    >>> cell(-0.0004), cell(0.0005), cell(np.nan)
    ('0', '+0.001', '')
    """
    text = f"{value:+.3f}"
    if not np.isfinite(value):
        return ""
    if float(text) == 0.0:
        return "0"
    return text


def why_empty(one: Dataset, quantity: str) -> str:
    """What one of the two lacks where a parameter has no shift or no ratio of errors."""
    if np.isnan([float(one["baseline"]), float(one["other"])]).any():
        return "no estimate"
    errors = [float(one["baseline_se"]), float(one["other_se"])][
        : 1 if quantity == "shift" else 2
    ]
    return "no SE" if np.isnan(errors).any() else "SE is 0"


def lack_of_estimate(fit: Fit) -> tuple[str, str]:
    """Why a fit has no estimate: separation, or columns that are not identified; and what it says of it."""
    if fit.solution.status is Status.NO_MAXIMUM:
        cause = "separation"
    else:
        cause = "identification"
    first, *more = (fit.solution.detail or fit.solution.status.value).split("; ")
    return cause, first + (f" and {len(more)} more" if more else "")


def kind_and_subject(cause: str) -> tuple[str, str]:
    """Kind and subject of a cause; a column may itself have a name such as "shares held".

    >>> kind_and_subject("prior of shares held"), kind_and_subject("sigma held"), kind_and_subject("skewness")
    (('prior', 'shares held'), ('held', 'sigma'), ('', 'skewness'))
    """
    if cause.startswith("prior of "):
        return "prior", cause.removeprefix("prior of ")
    if cause.endswith(" held"):
        return "held", cause.removesuffix(" held")
    return "", cause


def two_lines(head: str) -> tuple[str, str]:
    """A head over two lines, cut before its last word, or after "prior of"."""
    kind, subject = kind_and_subject(head)
    if kind == "prior":
        return "prior of", subject
    first, _, last = head.rpartition(" ")
    return first, last


def expm1_over_x(log_ratio: Array) -> Array:
    """Return (r - 1) / log r for r, the ratio of two widths: the factor from a share of log r to relative widening.

    >>> expm1_over_x(np.array([0.0, np.log(3.0)])).round(3)
    array([1.  , 1.82])
    """
    safe = np.where(log_ratio == 0.0, 1.0, log_ratio)
    return np.where(log_ratio == 0.0, 1.0, np.expm1(safe) / safe)


def moved_by(
    cause: str,
    shift: float,
    log_se: float,
    difference: float,
    log_ratio: float,
    *,
    known: bool = True,
) -> str:
    """What a cause does to an estimate and its standard error, and of how much it is a share; slight parts are left out. Where
    no exact answer is `known`, what lies within Monte Carlo error may have another cause.

    >>> moved_by("skewness", 0.2, 0.001, 0.25, -0.1), moved_by("prior of x", -0.94, -0.5, -0.95, -0.5)
    ('skewness moves it by +0.2 SE (+0.25 in all)', 'the prior of x moves it by -0.94 SE (-0.95 in all) and multiplies its SE by 0.607')
    """
    if cause == CHANCE and not known:
        return _describe_chance(shift, log_se, difference, log_ratio)
    plural = (
        (" and " in cause and not kind_and_subject(cause)[0])
        or cause in STRUCTURE
        or cause.startswith("degrees of freedom of")
    )
    said = []
    wider = 1.96 * abs(np.nan_to_num(log_se))
    widens = wider > 0.25 * abs(shift) and f"{np.exp(log_se):.3g}" != "1"
    if abs(shift) > 0.25 * wider or not widens:
        part = f"{shift:+.2g}"
        whole = f"{difference:+.2g}"
        said.append(
            f"{'move' if plural else 'moves'} it by {part} SE"
            + (f" ({whole} in all)" if whole != part else "")
        )
    if widens:
        part, whole = (f"{np.exp(v):.3g}" for v in (log_se, log_ratio))
        verb = "multiply" if plural else "multiplies"
        said.append(
            f"{verb} its SE by {part}" + (f" ({whole} in all)" if whole != part else "")
        )
    return f"{cause_phrase(cause)} {' and '.join(said)}"


def _describe_chance(
    shift: float, log_se: float, difference: float, log_ratio: float
) -> str:
    """Describe the share that Monte Carlo error or the shape of a posterior may explain.

    >>> _describe_chance(0.05, 0.001, 0.05, 0.001), _describe_chance(0.05, 0.1, 0.3, 0.1)
    ('+0.05 SE cannot be told from Monte Carlo error', '+0.05 of +0.3 SE and an SE ratio of 1.11 cannot be told from Monte Carlo error')
    """
    part = f"{shift:+.2g}"
    whole = f"{difference:+.2g}"
    said = []
    wider = 1.96 * abs(np.nan_to_num(log_se))
    widens = wider > 0.25 * abs(shift) and f"{np.exp(log_se):.3g}" != "1"
    if abs(shift) > 0.25 * wider or not widens:
        said.append(f"{part} SE" if part == whole else f"{part} of {whole} SE")
    if widens:
        part, whole = (f"{np.exp(v):.3g}" for v in (log_se, log_ratio))
        said.append(
            f"an SE ratio of {part}" + (f" ({whole} in all)" if whole != part else "")
        )
    return f"{' and '.join(said)} cannot be told from Monte Carlo error"


def cause_phrase(cause: str) -> str:
    """Return a cause as the subject of a sentence.

    >>> cause_phrase("prior of x"), cause_phrase("skewness"), cause_phrase("sigma held")
    ('the prior of x', 'skewness', 'holding sigma')
    """
    kind, subject = kind_and_subject(cause)
    if kind == "held":
        return f"holding {subject}"
    named = (
        cause.startswith(("prior", "degrees of freedom of", "uncertainty of"))
        or cause == "small sample"
    )
    return f"the {cause}" if named else cause

"""The priors of smooth functions as penalties: what each penalises, and its weight.

With J(f) = unit |u|^2 of the coefficients u ~ N(0, tau^2 I), -2 log p = |u|^2 / tau^2 = J(f) / (tau^2 unit): the mode minimises
RSS + sp J(f), sp = sigma^2 / (tau^2 unit), or -2 log L + sp J(f) with sp = 1 / (tau^2 unit) (Wood 2017).
"""

import numpy as np

from probreg.data.formula.functions import term_functions
from probreg.errors import Incompatible
from probreg.model.prior_words import Stated
from probreg.priors.base import GaussianPrior
from probreg.priors.flat import Flat
from probreg.priors.joint import BlockPrior
from probreg.priors.penalties.spelling import Spelling, Spellings


def smooth_penalties(model: Stated, sigma: float | None) -> Spellings:
    """The penalties of the smooth functions of a model with given scales, at the noise scale `sigma` if it is known. Incompatible without them."""
    functions = term_functions(model.design)
    design = model.design
    blocks = {
        tuple(design.columns[j] for j in b.columns): b for b in model.joint.blocks
    }
    ranges = {block for f in functions for block in f.of.blocks}
    wrong = [
        b
        for names, b in blocks.items()
        if names not in ranges and not isinstance(b.prior, Flat)
    ]
    if wrong:
        raise Incompatible(
            f"penalties of smooth functions are stated beside flat columns, and {design.describe_columns(wrong[0].columns)} has a "
            f"{wrong[0].prior.name} prior"
        )
    gaussian = model.likelihood.least_squares
    noise = sigma if gaussian else 1.0
    rows = list[Spelling]()
    criterion = "RSS" if gaussian else "-2 log L"
    for f in functions:
        penalty = None if f.smooth is None else f.smooth.penalty
        for name, block in zip(f.of.labels, f.of.blocks):
            unit = 1.0 if penalty is None else penalty.unit
            weight = _weight(blocks.get(block), name, noise) / unit
            if penalty is None:
                formula = "|u|², u the coefficients of the block"
            else:
                formula = penalty.words
            rows.append(
                Spelling(
                    name,
                    f"sp = {weight:.12g}",
                    f"{criterion} + sp J(f), J = {formula}",
                    {"sp": weight},
                )
            )
    columns = tuple(c for block in sorted(ranges) for c in block)
    return Spellings(
        columns,
        0.0,
        np.nan,
        tuple(rows),
        (),
        "penalties of smooth functions, by block:",
    )


def _weight(block: BlockPrior | None, name: str, noise: float | None) -> float:
    """sigma^2 / tau^2 of a block with the prior N(0, tau^2 I)."""
    if block is None or isinstance(block.prior, Flat):
        return 0.0
    if not isinstance(block.prior, GaussianPrior):
        raise Incompatible(
            f"{name} has no normal prior of a given scale: take the model of a fit, fit.model.penalty()"
        )
    P = block.prior.precision(len(block.columns))
    if not np.allclose(P, P[0, 0] * np.eye(len(P)), rtol=1e-12, atol=0) or np.any(
        block.prior.center(len(P))
    ):
        raise Incompatible(
            f"{name}: a penalty of one weight is a normal prior about zero of one scale"
        )
    if block.prior.sigma_units:
        return float(P[0, 0])
    if noise is None:
        raise Incompatible(
            f"{name}: the weight beside RSS needs sigma: pass sigma=, or take the model of a fit"
        )
    return float(P[0, 0] * noise**2)

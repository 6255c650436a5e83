"""Scales of the columns under their priors, and the leverage of the rows in the design."""

from typing import NamedTuple

import numpy as np

from probreg.data.grouped_moments import spreads_of_columns
from probreg.data.implicit_columns import LazyColumns
from probreg.diagnostics.before.base import CHECKS, Check, refuse_coded_levels
from probreg.diagnostics.before.collinearity import surplus
from probreg.diagnostics.findings import Finding, NotApplicable, Verdict
from probreg.model.model import Model
from probreg.priors import AffinePrior, BlockPrior, GaussianPrior, joint
from probreg.priors.joint import first_of
from probreg.system.terminal import few_names

Array = np.ndarray


@CHECKS.register
class ScaleCheck(Check):
    """Reports nearly constant columns, and priors on the raw columns that
    allow hardly any effect, or that are stated for columns far from unit scale.

    >>> from probreg.priors import Normal
    >>> X = np.arange(4.0)[:, None] / 1000
    >>> y = [0, 1, 0, 1]
    >>> model = Model.from_arrays(X, y, columns=["dose"], likelihood="bernoulli", prior=Normal(1.0))
    >>> print(ScaleCheck().run(model)[0].sentence)
    under the normal prior one sd of dose (0.00112) changes the linear predictor by about 0.00112: it nearly fixes the coefficient
    """

    name = "scale"
    title = "Scales"

    def find(self, model: Model) -> list[Finding]:
        spreads = _spreads(model)
        findings = self._report_constant_columns(model, spreads)
        d = model.design
        outcomes = model.likelihood.predictors_apart
        # priors as stated, before their scales are bound to the rows
        stated_blocks = joint(
            model.prior, d.columns, d.is_intercept, outcomes=outcomes
        ).blocks
        for block, before in zip(first_of(model.joint.blocks), first_of(stated_blocks)):
            # columns of smooth functions have no unit
            if not d.of_terms[list(block.columns)].all():
                relative = before.prior.data_dependent
                findings += self._report_prior_effect(model, spreads, block, relative)
        return findings or self.report("columns and priors have comparable scales")

    def _report_constant_columns(
        self, model: Model, spreads: "_Spreads"
    ) -> list[Finding]:
        rounding = 1e-13  # sd over size of a constant column
        least_variation = 1e-6  # sd over size below which a column has fewer than ten significant digits of variation
        findings = []
        size = np.hypot(spreads.mean, spreads.scale)
        relative = spreads.scale / np.where(size > 0, size, 1.0)
        for j in np.flatnonzero((relative > rounding) & (relative < least_variation)):
            name = model.design.columns[j]
            sentence = f"{name} is nearly constant: it varies by {spreads.scale[j]:.3g} around {spreads.mean[j]:.6g}"
            remedy = (
                "subtract a constant before you store the data, because digits are lost"
            )
            findings += self.report(sentence, Verdict.WARNING, remedy, (name,))
        return findings

    def _report_prior_effect(
        self, model: Model, spreads: "_Spreads", block: BlockPrior, relative: bool
    ) -> list[Finding]:
        """Compare the effect of one sd that a prior allows with 1 on the link scale, sigma, or the sd of y."""
        least_effect = 0.01  # a prior that allows a smaller effect of one sd nearly fixes the coefficient
        # standard deviations for which one prior scale has a similar meaning
        near_one = (0.1, 10.0)
        scale = prior_scale(block)
        if scale is None:
            return []
        sd = spreads.scale
        unit = 1.0
        if model.likelihood.noise_scale is not None and not block.prior.sigma_units:
            unit = spreads.y_scale
        is_far = (sd > 0) & ((sd < near_one[0]) | (sd > near_one[1]))
        rows = model.design.sample.X
        pinned = []
        moderate = []
        for s, j in zip(scale, block.columns, strict=True):
            if not sd[j] > 0 or _is_indicator(rows, j) or not (relative or is_far[j]):
                continue
            effect = s * sd[j]
            if effect < least_effect * unit:
                pinned.append((effect, j))
            elif not relative:
                moderate.append((effect, j))
        findings = []
        for effects, verdict in ((pinned, Verdict.WARNING), (moderate, Verdict.NOTE)):
            if not effects:
                continue
            columns = [model.design.columns[j] for _, j in effects]
            several = len(effects) > 1
            change = _describe_change(model, spreads, block, effects)
            sentence = f"under the {block.prior.name} prior one sd of {change}"
            if verdict is Verdict.WARNING:
                sentence += f": it nearly fixes the coefficient{'s' * several}"
            remedy = "use a larger scale"
            if not relative:
                remedy = "give a scale in the units of each column, or standardise the columns"
                remedy += " (scaled=True)" * isinstance(block.prior, AffinePrior)
            findings += self.report(sentence, verdict, remedy, columns)
        return findings


def _describe_change(
    model: Model,
    spreads: "_Spreads",
    block: BlockPrior,
    effects: list[tuple[float, int]],
) -> str:
    """Describe the change of the linear predictor by one sd of the columns, from pairs of a change and a column."""
    sizes = [size for size, _ in effects]
    names = few_names([model.design.columns[j] for _, j in effects])
    change = f"change the linear predictor by {min(sizes):.3g} to {max(sizes):.3g}"
    if len(effects) == 1:
        names += f" ({spreads.scale[effects[0][1]]:.3g})"
        change = f"changes the linear predictor by about {sizes[0]:.3g}"
    if block.prior.sigma_units:
        change += " sigma"
    elif model.likelihood.noise_scale is not None:
        change += f" (sd of {model.design.response}: {spreads.y_scale:.3g})"
    return f"{names} {change}"


class _Spreads(NamedTuple):
    mean: Array  # (p,)
    scale: Array  # (p,), divisor n
    y_scale: float


def _spreads(model: Model) -> _Spreads:
    """Return means and standard deviations, without products of columns."""
    d = model.design
    w = d.row_weights
    if isinstance(d.X, LazyColumns) and d.has_codes:
        mean, scale = spreads_of_columns(d.X, w)
    else:
        mean = w @ d.X / w.sum()
        scale = np.sqrt(w @ (d.X - mean) ** 2 / w.sum())
    return _Spreads(mean, scale, d.y_scale if d.observed.ndim == 1 else np.nan)


def prior_scale(block: BlockPrior) -> Array | None:
    """Return one scale for each column of a block, or None if its prior has none.

    >>> from probreg.priors import Normal
    >>> from probreg.priors.joint import BlockPrior
    >>> prior_scale(BlockPrior(Normal(2.0), (1, 2)))
    array([2., 2.])
    """
    q = len(block.columns)
    prior = block.prior
    if isinstance(prior, GaussianPrior):
        sd = prior.independent(q)
        if sd is not None:
            return sd if np.isfinite(sd).all() else None
        diagonal = np.diag(prior.precision(q))
        if np.all(diagonal):
            return diagonal**-0.5
    return np.broadcast_to(prior.scales, q) if isinstance(prior, AffinePrior) else None


def _is_indicator(X: Array, j: int) -> bool:
    if isinstance(X, LazyColumns) and X.of_indicators and j not in X.head_places:
        return True
    x = X[:, j]
    return bool(np.all((x == 0) | (x == 1)))


@CHECKS.register
class DesignLeverageCheck(Check):
    """Reports rows with a leverage h = x'(X'X)^-1 x of at least 0.2 and four times the mean; from 0.5 on the row's
    response has more weight in its fitted value than all others together.

    >>> model = Model.from_arrays([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 9.0], range(10))
    >>> DesignLeverageCheck().run(model)[0].sentence
    'row 9 has leverage 0.992 (mean 0.2)'
    """

    name = "design_leverage"
    title = "Leverage in the design"

    def find(self, model: Model) -> list[Finding]:
        alone = 1.0 - 1e-10  # the fit equals the response of the row, for any response
        # risky by Huber (1981); with few rows all leverages are, so a multiple of their mean is required too
        high = 0.2
        refuse_coded_levels(model)
        design = model.design
        if surplus(model) is not None:
            raise NotApplicable("more columns than rows")
        w = design.row_weights
        h = design_leverage(model)
        mean = w @ h / w.sum()
        if mean >= alone:
            return self.report(
                "every row has leverage 1: as many coefficients as observations"
            )
        is_far = (h >= max(high, 4.0 * mean)) | (h >= alone)
        order = [i for i in np.argsort(-h) if w[i] > 0 and is_far[i]]
        if not order:
            largest = h[w > 0].max(initial=0)
            return self.report(f"largest leverage {largest:.3g} (mean {mean:.2g})")
        names = design.row_names[order].tolist()
        top = h[order[0]]
        sentence = f"row {names[0]} has leverage {top:.3g} (mean {mean:.2g})"
        if len(order) > 1:
            sentence += f"; {len(order) - 1} more: {few_names(names[1:])}"
        remedy = "check the row, and report the fit without it too"
        verdict = Verdict.WARNING if top >= 0.5 else Verdict.NOTE
        return self.report(sentence, verdict, remedy, rows=names)


def design_leverage(model: Model) -> Array:
    """Return h_i = x_i'(X'WX)^-1 x_i, (n,), of one observation of each row; weighted by the frequencies they sum to rank X.

    Effects that vary by a group are left out. Precisions and sampling weights w multiply the leverage: w_i x_i'(X'WX)^-1 x_i.

    >>> design_leverage(Model.from_arrays([1.0, 2.0, 3.0], [1.0, 2.0, 4.0])).round(3)
    array([0.833, 0.333, 0.833])
    """
    design = model.design
    design.need_rows("a leverage for each row")
    # without effects of groups, which have a prior
    head = set(design.ungrouped.tolist())
    kept_columns = [j for j in design.moments.rank.kept if j in head]
    U = design.X
    if design.frame.intercepts & set(kept_columns):
        U = design.frame.rows(U)
    U = U[:, kept_columns]
    w = design.square_weights
    weighted = U if w is None else U * np.sqrt(w)[:, None]
    if design.weight_kind != "frequency":
        U = weighted
    return ((U @ np.linalg.inv(np.linalg.qr(weighted, mode="r"))) ** 2).sum(1)

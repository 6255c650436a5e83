"""The table of averaged effects, and contrasts of them."""

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from probreg.comparison.effects.evaluation import (
    EffectLaw,
    Evaluation,
    zero_tests,
)
from probreg.errors import DataError, Incompatible
from probreg.fits.goodness import has_tests
from probreg.fits.prediction import closed_error
from probreg.formula.hypothesis import matrix, parse_hypothesis
from probreg.inference.uncertainty.covariance import refuse_settings
from probreg.inference.uncertainty.intervals.arithmetic import (
    equal_tail,
    mean_and_sd,
    sample_covariance,
)
from probreg.inference.uncertainty.multiplicity import NO_TESTS, check_adjust
from probreg.tables import PrintsTable, Table
from probreg.tables.render import format_p_value

Array = np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class Effects(PrintsTable):
    """Averages over rows with their intervals.

    `table` is a pandas DataFrame, one row per effect: its labels (variable, contrast, by, at, level), estimate, std_error (of a
    point estimate) or sd (of a posterior), lower, upper, for comparisons and slopes of maximum likelihood p_value (of no difference, a ratio
    of 1, or a slope of 0); unrounded, with the settings prob, kind, method and "what" in `attrs`. `covariance`
    (R, R) is the covariance of the estimates on the scale `scale`, where they are nearly normal ("identity", "log",
    "logit"), `draws` (S, R) are the posterior draws of the estimates, or None. `average_over` is "population" if errors include
    the sampling of the rows, and "sample" if the rows are fixed.
    """

    table: Any
    what: str
    prob: float
    kind: str
    method: str
    scale: str
    covariance: Array
    draws: Array | None
    average_over: str = "sample"
    law: EffectLaw | None = None  # of a point estimate, or of an exact posterior
    has_tests: bool = False

    def __post_init__(self) -> None:
        names = ("prob", "kind", "method", "what", "average_over")
        self.table.attrs = {name: getattr(self, name) for name in names}

    @property
    def _display_table(self) -> Table:
        how = f"{self.method}, {100 * self.prob:g} % intervals: {self.kind}"
        formats = dict.fromkeys(["p_value", "p_unadjusted"], format_p_value)
        return Table.from_pandas(
            self.table, index=False, formats=formats, head=(self.what, how)
        )

    def hypothesis(
        self, text: str = "pairwise", *, adjust: str | None = None
    ) -> "Effects":
        """Return contrasts of these effects with their intervals and, for maximum likelihood, their tests.

        Parameters
        ----------
        text : str
            "pairwise": all differences. Otherwise equations such as "b1 = b2" or "b3 - b2 = b2 - b1, b1 = 2", where b1 is the first
            row of the table; each estimate is the left side minus the right side.
        adjust : {"holm", "bonferroni", "single-step", "tukey"}, optional
            As in `comparisons`; "tukey" is for "pairwise".

        Returns
        -------
        Effects
            `table` with one row per contrast.

        Raises
        ------
        DataError
            For a text that is no equation of rows.
        Incompatible
            For `adjust` of a posterior or of a mode under a prior.

        Examples
        --------
        >>> import probreg as pr
        >>> fit = pr.ols("y ~ g", {"y": [1.0, 2.0, 5.0, 6.0, 9.0, 9.5], "g": [*"aabbcc"]})
        >>> pr.predictions(fit, by="g").hypothesis("b3 - b2 = b2 - b1").table["estimate"].round(6).tolist()
        [-0.25]
        """
        import pandas as pd

        check_adjust(adjust)
        names, L, r = self._read_contrasts(text)
        error = "sd" if "sd" in self.table else "std_error"
        columns = {"estimate": L @ self.table["estimate"].to_numpy() - r}
        kind = self.kind
        draws = law = None
        if self.draws is not None:
            if adjust is not None:
                raise Incompatible(NO_TESTS)
            draws = self.draws @ L.T - r
            cov = sample_covariance(draws)
            columns[error] = mean_and_sd(draws)[1]
            columns["lower"], columns["upper"] = equal_tail(draws, self.prob)
        else:
            assert self.law is not None  # without draws
            law = self.law.of_combinations(L)
            slope = np.ones(len(self.table))
            if error == "std_error":
                se = np.sqrt(np.diagonal(self.covariance))
                errors = self.table[error].to_numpy()
                slope = np.divide(errors, se, out=slope, where=se > 0)
            half = L * slope
            cov = half @ self.covariance @ half.T
            se = np.sqrt(np.diagonal(cov))
            df = law.df_of(np.eye(len(se)))
            tests = zero_tests(
                columns["estimate"],
                se,
                cov,
                df,
                self.prob,
                adjust=adjust,
                pairs_of=len(self.table) if text == "pairwise" else None,
                tested=self.has_tests,
            )
            common_df = None if isinstance(df, np.ndarray) else df
            columns[error] = closed_error(se, common_df, posterior=error == "sd")
            columns["lower"] = columns["estimate"] - tests.critical * se
            columns["upper"] = columns["estimate"] + tests.critical * se
            columns |= tests.columns
            if not np.isnan(se).all():
                kind = tests.words + law.describe(df)
        return replace(
            self,
            table=pd.DataFrame({"contrast": names, **columns}),
            what=f"contrasts of the {self.what}",
            kind=kind,
            scale="identity",
            covariance=cov,
            draws=draws,
            law=law,
        )

    def _read_contrasts(self, text: str) -> tuple[list[str], Array, Array]:
        """Return the names of contrasts, their weights L (q, R) of the effects and the values r (q,) of their right sides."""
        R = len(self.table)
        if text == "pairwise":
            labels = self.table.loc[:, :"estimate"].iloc[:, :-1].astype(str)
            labels = labels.loc[:, labels.nunique() > 1]
            rows = labels.agg(", ".join, axis=1)
            pairs = list(combinations(range(R), 2))
            L = np.array([np.eye(R)[j] - np.eye(R)[i] for i, j in pairs])
            names = [f"{rows[j]} against {rows[i]}" for i, j in pairs]
            return names, L.reshape(-1, R), np.zeros(len(pairs))
        rows = [f"b{i + 1}" for i in range(R)]
        restrictions = parse_hypothesis(text, rows)
        if any(restriction.relation != "=" for restriction in restrictions):
            raise DataError(f"{text!r} has an inequality: write equations with =")
        names = [restriction.words(rows) for restriction in restrictions]
        return names, *matrix(restrictions, R)


def evaluate_effects(evaluation: Evaluation, *, what: str) -> Effects:
    """Return the table of effects, by the delta method for a mode and from the draws for a posterior.

    An adjustment adds p-values and simultaneous intervals; for sampled rows the standard errors include the sampling of the rows.
    """
    import pandas as pd

    fit = evaluation.fit
    quantity = evaluation.rows.quantity
    levels = () if quantity.has_scalar_mean else quantity.levels
    by_level = [{"level": str(v)} for v in levels] or [{}]
    labels = [
        {**effect.labels, **group.labels, **level}
        for effect in evaluation.effects
        for group in evaluation.groups
        for level in by_level
    ]
    posterior = fit.solution.draws
    refuse_settings(evaluation.covariance, **evaluation.settings)
    if posterior is not None and evaluation.covariance is not None:
        raise Incompatible(
            "covariance= is for point estimates: the intervals of a posterior come from its draws"
        )
    if evaluation.adjust is not None and posterior is not None:
        raise Incompatible(NO_TESTS)
    evaluated = evaluation.evaluate()
    over = "sample"
    where = "the rows are fixed"
    if evaluation.has_sampled_rows:
        over = "population"
        where = "the rows are a sample of it"
        if evaluated.rows is None:
            where = "the effect is the same in every row"
    return Effects(
        pd.DataFrame(labels).assign(**evaluated.columns),
        f"{what}; average over the {over} ({where})",
        evaluation.prob,
        evaluated.kind,
        fit.described["method"],
        evaluation.scale.link.name,
        evaluated.covariance,
        evaluated.draws,
        over,
        evaluated.law,
        has_tests(fit),
    )

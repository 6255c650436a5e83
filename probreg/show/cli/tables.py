"""The tables that commands write for programs: fits, findings and data sets, under names that stay."""

from collections.abc import Iterable, Mapping
from typing import Any

from probreg.arguments.types import DataFrame
from probreg.assess.before import Findings
from probreg.comparison.models.model_comparison import ModelComparison
from probreg.datasets.loader import DatasetCard
from probreg.fits.fit import Fit
from probreg.show.cli.spelling import as_options
from probreg.tables.data import records

_ESTIMATES = {
    "mean": "estimate",
    "median": "estimate",
    "sd": "std_error",
}  # of a posterior, under one name with the others
_FIRST = ["fit", "outcome", "coef", "estimate", "std_error", "lower", "upper"]


def estimates_of(
    fits: Mapping[str, Fit], prob: float, covariance: Any = None
) -> DataFrame:
    """Every coefficient and nuisance parameter of every fit, one row each."""
    import pandas as pd

    each = []
    for name, fit in fits.items():
        summary = fit.summary(prob, covariance=covariance)
        table = (
            pd.DataFrame(summary)
            .reset_index()
            .rename(columns={"index": "coef", **_ESTIMATES})
        )
        each.append(table.assign(fit=name))
    whole = pd.concat(each, ignore_index=True)
    for name in ("statistic", "p_value"):
        whole[name] = whole.get(name)
    return whole[
        [c for c in _FIRST if c in whole] + [c for c in whole if c not in _FIRST]
    ]


def fit_object(
    name: str, fit: Fit, prob: float, covariance: Any = None
) -> dict[str, Any]:
    """A fit as an object: how it was made and ended, its statistics and its table."""
    said = fit.summary(prob, covariance=covariance).attrs
    (statistics,) = records(fit.glance())
    return {
        "name": name,
        "models": said["models"],
        "method": fit.method.name,
        "target": fit.target,
        "status": fit.solution.status.value,
        "good": fit.solution.status.good,
        "seed": fit.seed,
        "interval": {"prob": prob, "kind": said["kind"]},
        "covariance": said.get("covariance"),
        "statistics": statistics,
        "notes": list(fit.described["notes"]),
        "table": [
            {k: v for k, v in row.items() if k != "fit"}
            for row in records(estimates_of({name: fit}, prob, covariance))
        ],
    }


def compared_object(
    fits: Mapping[str, Fit], judged: ModelComparison, prob: float, *, alike: bool
) -> dict[str, Any]:
    """What fits say of rows left out, and each of them; where they are of the same columns, why they differ."""
    from probreg.comparison import compare

    found: dict[str, Any] = {
        "models": records(judged.table.rename_axis("fit")),
        "notes": list(judged.notes),
    }
    if alike and len(fits) > 1:
        of = compare(fits, prob)
        found |= {"reasons": of.reasons, "notes": [*judged.notes, *of.notes]}
    found["notes"] = [as_options(note) for note in found["notes"]]
    return found | {"fits": [fit_object(name, fit, prob) for name, fit in fits.items()]}


def catalogue_table(cards: Iterable[DatasetCard]) -> DataFrame:
    """One row for each data set."""
    import pandas as pd

    return pd.DataFrame(
        [
            {
                k: getattr(card, k)
                for k in ("name", "rows", "title", "question", "response")
            }
            for card in cards
        ]
    )


def findings_table(found: Findings) -> DataFrame:
    """Findings with their verdict, worst first; columns and rows of the data that they are about are lists."""
    import pandas as pd

    cells = [
        {
            "verdict": f.verdict.name.lower(),
            "check": f.check,
            "sentence": f.sentence,
            "remedy": f.remedy,
            "columns": list(f.columns),
            "rows": list(f.rows),
            "statistic": f.statistic,
            "p_value": f.p_value,
            "applies": f.applies,
        }
        for f in found
    ]
    return pd.DataFrame(cells)

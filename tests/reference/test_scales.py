"""Scales of a normal prior at the maximum of the likelihood and of the restricted one, against lme4 and MixedModels.jl.

Groups are columns of indicators under one normal prior. Dyestuff: Davies & Goldsmith 1972; cbpp: Lesnoff et al. 2004. Numbers are
those of the packages' own tests and documentation.
"""

import numpy as np
import pytest

import probreg as pr
from probreg.inference import Evidence
from probreg.priors import Normal, Reference
from tests.conftest import reference_path


def table_of(name: str) -> dict[str, np.ndarray]:
    import pandas as pd

    return {
        c: v.to_numpy()
        for c, v in pd.read_csv(reference_path(f"multilevel/{name}.csv")).items()
    }


def indicators(values: np.ndarray, name: str, first: int = 0) -> dict[str, np.ndarray]:
    return {
        f"{name}{v}": (values == v).astype(float) for v in np.unique(values)[first:]
    }


def of_groups(
    formula: str, data: dict[str, np.ndarray], groups: dict[str, np.ndarray], **more
) -> pr.Model:
    formula = f"{formula} + {' + '.join(groups)}"
    return pr.Model.from_formula(
        formula, data | groups, prior={tuple(groups): Normal(Reference())}, **more
    )


def test_dyestuff():
    data = table_of("Dyestuff")
    model = of_groups("Yield ~ 1", data, indicators(data["Batch"], "batch"))
    ml, reml = (pr.fit(model, Evidence(criterion=c)) for c in ("ML", "REML"))
    assert -2.0 * ml.solution.stats["log_likelihood_of_scales"] == pytest.approx(
        327.3270598811, abs=1e-9
    )
    assert -2.0 * reml.solution.stats["log_evidence"] == pytest.approx(
        319.6542768423, abs=1e-9
    )
    assert ml.model.joint.blocks[-1].prior.scale == pytest.approx(37.260344, abs=1e-5)
    assert ml.aux["sigma"] == pytest.approx(49.510100, abs=1e-5)
    assert ml.std_error.sel(coef="Intercept").item() == pytest.approx(
        17.694553, abs=1e-5
    )
    assert reml.std_error.sel(coef="Intercept").item() ** 2 == pytest.approx(
        375.716710, abs=1e-4
    )


def test_cbpp():
    """Incidence in trials by period and herd; the likelihood is Laplace's, as in glmer."""
    data = table_of("cbpp")
    columns = data | indicators(data["period"], "period", first=1)
    herds = indicators(data["herd"], "herd")
    model = of_groups(
        "p(incidence, size) ~ period2 + period3 + period4",
        columns,
        herds,
        likelihood="binomial",
    )
    fit = pr.fit(model, Evidence(criterion="ML"))
    assert fit.solution.stats["log_likelihood_of_scales"] == pytest.approx(
        -92.02628187, abs=1e-8
    )
    assert fit.model.joint.blocks[-1].prior.scale == pytest.approx(0.64226, abs=1e-5)
    np.testing.assert_allclose(
        fit.coef.values[:4], [-1.3985, -0.9923, -1.1287, -1.5803], atol=6e-5
    )

"""The bootstrap of models with groups: whole groups, or effects drawn anew."""

import numpy as np
import pytest

import probreg as pr
from probreg.errors import Incompatible

SLEEP = pr.load_dataset("sleepstudy")


@pytest.mark.parametrize("kind", ["pairs", "parametric"])
def test_standard_errors_are_of_groups_and_not_of_rows(kind):
    model = pr.Model.from_formula("reaction ~ days + (days || subject)", SLEEP)
    fit = pr.fit(model, pr.Bootstrap("evidence", kind=kind, reps=200))
    # 200 replicates tell a standard error within some 5 %, resampling 18 groups within sqrt(17/18)
    known = pr.fit(model).std_error.sel(coef="days").item()
    assert 0.8 * known < fit.std_error.sel(coef="days").item() < 1.2 * known
    assert np.isfinite(fit.predict(SLEEP.head(3))["mean_upper"]).all()
    # replicates hold the standard deviations, so that these have no interval
    assert fit.summary().loc["sd(days | subject)", ["lower", "upper"]].isna().all()
    assert "sd(days | subject) 5.9" in repr(fit)


def test_what_keeps_the_effects_is_refused():
    model = pr.Model.from_formula("reaction ~ days + (1 | subject)", SLEEP)
    for kind in ("residual", "wild"):
        with pytest.raises(Incompatible, match="keeps the effects of groups"):
            pr.fit(model, pr.Bootstrap("evidence", kind=kind, reps=50))
    crossed = pr.Model.from_formula("reaction ~ 1 + (1 | subject) + (1 | days)", SLEEP)
    with pytest.raises(Incompatible, match="one grouping"):
        pr.fit(crossed, pr.Bootstrap("evidence", reps=50))

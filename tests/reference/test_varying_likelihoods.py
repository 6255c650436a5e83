"""One likelihood of a fit of varying effects, and profiles over it, against lme4 on sleepstudy."""

import numpy as np
import pytest

import probreg as pr
from probreg.errors import Incompatible


@pytest.fixture(scope="module")
def sleep():
    return pr.Model.from_formula(
        "reaction ~ days + (days | subject)", pr.load_dataset("sleepstudy")
    )


@pytest.fixture(scope="module")
def ml(sleep):
    return pr.fit(sleep, pr.Evidence(criterion="ML"))


@pytest.fixture(scope="module")
def reml(sleep):
    return pr.fit(sleep)


def test_the_log_likelihood_of_ml_is_that_of_aic(ml, tmp_path):
    # lme4: logLik(fm1ML), deviance(fm1ML)
    assert ml.log_likelihood == pytest.approx(-1751.9393444637 / 2, rel=1e-10)
    assert ml.deviance == pytest.approx(1751.9393444637, rel=1e-10)
    assert ml.aic == pytest.approx(2 * 6 - 2 * ml.log_likelihood)
    row = ml.glance().iloc[0]
    assert (row["logLik"], row["deviance"]) == (ml.log_likelihood, ml.deviance)
    assert ml.conditional_log_likelihood > ml.log_likelihood + 40
    again = pr.load_fit(ml.save(tmp_path / "ml.nc"))
    assert again.log_likelihood == pytest.approx(ml.log_likelihood, rel=1e-12)
    assert again.conditional_log_likelihood == pytest.approx(
        ml.conditional_log_likelihood, rel=1e-12
    )


def test_reml_has_no_likelihood_and_says_so(reml):
    for name in ("log_likelihood", "deviance"):
        with pytest.raises(Incompatible, match="restricted likelihood"):
            getattr(reml, name)
    assert np.isnan(reml.glance()["deviance"].iloc[0])


# ---- profiles of coefficients ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_profiles_of_coefficients_move_the_scales_too(ml):
    # lme4: confint(fm1ML): (Intercept) 237.680696 265.129515, Days 7.358653 13.575919
    table = ml.summary(kind="profile")[["lower", "upper"]].iloc[:2].to_numpy()
    assert table == pytest.approx(
        np.array([[237.680696, 265.129515], [7.358653, 13.575919]]), rel=1e-6
    )


@pytest.mark.slow
def test_a_profile_end_is_where_the_maximised_likelihood_has_fallen(ml):
    # the column dropped, its share in the offset: the maximum over everything else is half a square of z below the top
    data = pr.load_dataset("sleepstudy")
    lower = float(ml.summary(prob=0.9, kind="profile")["lower"].iloc[1])
    held = pr.Model.from_formula(
        "shifted ~ 1 + (days | subject)",
        data.assign(shifted=data["reaction"] - lower * data["days"]),
    )
    fell = 2.0 * (
        ml.log_likelihood - pr.fit(held, pr.Evidence(criterion="ML")).log_likelihood
    )
    assert np.sqrt(fell) == pytest.approx(1.6448536, rel=1e-5)


def test_where_there_is_no_profile_of_coefficients_a_reason_is_given(sleep, reml):
    with pytest.raises(Incompatible, match="REML has no likelihood of coefficients"):
        reml.summary(kind="profile")
    stated = sleep.with_prior({"days | subject": pr.Covariance(sd=pr.HalfNormal(50.0))})
    with pytest.raises(Incompatible, match="prior"):
        pr.fit(stated, pr.Evidence(criterion="ML")).summary(kind="profile")

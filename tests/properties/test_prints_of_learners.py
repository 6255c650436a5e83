"""Prints name the learner and what its linear predictor means."""

import numpy as np
import pytest

import probreg as pr
from probreg import kernels, online

SHIFTED = np.r_[np.linspace(-2.0, -0.5, 10), np.linspace(0.5, 2.0, 10)]
TITLES = {
    "least mean squares": online.lms(0.1),
    "normalised least mean squares": online.nlms(0.1),
    "implicit least mean squares": online.implicit_lms(0.1),
    "exponentiated gradient": online.eg_pm(0.1),
    "perceptron": online.perceptron(),
    "recursive least squares": online.rls(precision=1.0),
    "gradient descent on the hinge loss": online.descent(online.HINGE, 0.1),
}


@pytest.mark.parametrize("title", TITLES)
@pytest.mark.filterwarnings("ignore::probreg.errors.ProbregWarning")
def test_a_run_is_called_by_the_name_of_its_learner(title):
    y = np.where(SHIFTED > 0, 1.0, -1.0)
    path = online.run(TITLES[title], SHIFTED[:, None] / 2.0, y)
    assert path.learner.title == title
    assert title in str(path)


def test_a_perceptron_has_no_logit_scale():
    fit = pr.fit(
        pr.Model.from_arrays(SHIFTED, (SHIFTED > 0) * 1, likelihood="bernoulli"),
        "perceptron",
        seed=1,
    )
    assert "logit" not in str(fit)
    assert "logit" not in str(pr.compare({"a": fit, "b": fit}))
    assert "logit" in str(pr.fit(fit.model.with_prior(pr.Normal(1.0))))


def test_a_mode_without_effective_degrees_of_freedom_prints_none():
    y = SHIFTED + np.sin(3.0 * SHIFTED)
    table = pr.table({"svr": pr.svr(SHIFTED[:, None], y, C=1.0, epsilon=0.1)})
    assert "nan" not in str(table)


def test_a_kernel_by_its_name_is_the_covariance_function():
    y = np.sin(SHIFTED)
    for base in (online.lms(0.5), online.rls(precision=1.0)):
        named, given = (
            online.run(online.kernel(base, k), SHIFTED[:, None], y)
            for k in ("rbf", kernels.RBF())
        )
        assert np.array_equal(named.predictions, given.predictions)
        assert f"{base.title} with the kernel RBF" in str(named)

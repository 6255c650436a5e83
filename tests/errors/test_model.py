"""Bad input to `Model` and `fit`: each is refused in a sentence that names what was met, where, and what to do."""

import re
from typing import Any

import numpy as np
import pytest

import probreg as pr
from probreg.priors import Normal

N = 12
X = np.random.default_rng(41).normal(size=(N, 2))
REAL = X @ [1.0, -0.5] + np.cos(np.arange(N))
TWO, THREE, COUNT = np.arange(N) % 2, np.arange(N) % 3, np.arange(N) % 4
Y = {
    "gaussian": REAL,
    "student": REAL,
    "bernoulli": TWO,
    "categorical": THREE,
    "poisson": COUNT,
}


def put(values: Any, row: int, value: Any) -> np.ndarray:
    out = np.array(values, dtype=object if isinstance(value, str) else float)
    out[row] = value
    return out


def model(
    y: Any = REAL, x: Any = X, likelihood: Any = "gaussian", **more: Any
) -> pr.Model:
    return pr.Model.from_arrays(x, y, likelihood=likelihood, **more)


ROWS = [
    (lambda: model(REAL[:-1]), "X has 12 rows and y has 11: they must match"),
    (
        lambda: model(np.zeros(0), np.zeros((0, 2))),
        r"there are no rows: X has shape \(0, 2\)",
    ),
    (
        lambda: model(x=np.where(np.arange(24).reshape(N, 2) == 7, np.nan, X)),
        "column 'x2' holds nan in row 3",
    ),
    (
        lambda: model(x=np.where(np.arange(24).reshape(N, 2) == 6, -np.inf, X)),
        "column 'x1' holds -inf in row 3",
    ),
    (
        lambda: model(x=X.astype(str)),
        "X must be numeric; row 0, column 0 holds .*; for categories use a formula",
    ),
    (
        lambda: model(x=X[None]),
        r"X is a matrix \(rows, columns\), got an array of shape \(1, 12, 2\)",
    ),
    (
        lambda: model(columns=["a"]),
        r"expected 1 columns \(a\), got an array of shape \(12, 2\)",
    ),
    (lambda: model(columns=["a", "a"]), "column names repeat: .*'a'"),
    (
        lambda: model(columns=["Intercept", "a"]),
        "already has a column called 'Intercept'",
    ),
    (
        lambda: model(np.c_[REAL, REAL]),
        r"a Gaussian response is one column, got an array of shape \(12, 2\)",
    ),
    (
        lambda: model(weights=np.ones(5)),
        r"weights are one number per row: expected shape \(12,\), got \(5,\)",
    ),
    (lambda: model(weights=np.ones((N, 1))), r"expected shape \(12,\), got \(12, 1\)"),
    (
        lambda: model(weights=put(np.ones(N), 4, -1.0)),
        "the weight of row 4 is -1.0; .* not negative",
    ),
    (lambda: model(weights=put(np.ones(N), 4, np.nan)), "the weight of row 4 is nan"),
    (
        lambda: model(weights=np.zeros(N)),
        "the weights sum to zero: no observation is left",
    ),
    (
        lambda: model(offset=put(np.ones(N), 2, np.inf)),
        "the offset of row 2 is inf; offsets are finite",
    ),
    (
        lambda: model(offset=np.ones(5)),
        r"an offset has one value per row: expected 12 rows, got shape \(5,\)",
    ),
    (
        lambda: model(offset=np.ones((N, 3))),
        "the offset has 3 columns; this likelihood has 1 linear predictors",
    ),
    (lambda: model(3.0), "y has one value per row of X, got 3.0"),
    (
        lambda: model(x=np.zeros((N, 0)), intercept=False),
        "there are no columns: .* intercept=False",
    ),
    (lambda: model(weights=["a"] * N), "weights must be numeric; row 0 holds 'a'"),
    (lambda: model(offset=["a"] * N), "an offset must be numeric; row 0 holds"),
]


@pytest.mark.parametrize(("build", "message"), ROWS, ids=[m for _, m in ROWS])
def test_rows_that_do_not_fit(build, message):
    with pytest.raises(pr.DataError, match=message):
        build()


RESPONSES = [
    (
        "gaussian",
        put(REAL, 3, np.nan),
        "a Gaussian response is finite; row 3 holds nan",
    ),
    ("student", put(REAL, 3, np.inf), "a StudentT response is finite; row 3 holds inf"),
    (
        "gaussian",
        np.array(["a", "b"] * 6),
        "a Gaussian response must be numeric; row 0 holds .*'a'.*use Bernoulli",
    ),
    (
        "poisson",
        np.array(["a", "b"] * 6),
        "a Poisson response must be numeric; row 0 holds",
    ),
    (
        "gaussian",
        np.full(N, 2.5),
        r"the response is constant \(every one of 12 rows holds 2.5\)",
    ),
    ("student", np.full(N, 2.5), "the response is constant"),
    ("bernoulli", np.ones(N), r"class 0 occurs in none of"),
    (
        "bernoulli",
        THREE,
        r"two levels; this one has 3 levels \(0, 1, 2\)\. For more than two use Categorical",
    ),
    (
        "bernoulli",
        put(TWO, 5, 0.25),
        "row 5 holds 0.25. For shares of several trials give",
    ),
    ("bernoulli", put(TWO, 5, np.nan), "row 5 of the response holds nan"),
    ("poisson", put(COUNT, 2, -1.0), "counts 0, 1, 2, ...; row 2 holds -1"),
    ("poisson", put(COUNT, 2, 0.5), "counts 0, 1, 2, ...; row 2 holds 0.5"),
    ("poisson", np.zeros(N), "the response is 0 in every one of 12 rows"),
    (
        "categorical",
        REAL,
        "holds class labels; row 0 holds .* For real numbers use Gaussian",
    ),
    ("categorical", np.full(N, "a"), "two or more classes; this one is constant"),
    ("categorical", put(THREE, 1, np.nan), "row 1 of the response holds nan"),
    (
        "categorical",
        np.array(["a", 1, "b"] * 4, dtype=object),
        "mixes kinds of values .*int, str",
    ),
    (
        "bernoulli",
        np.array(["a", None] * 6, dtype=object),
        r"row 1 of the response holds None \(6 such rows\): drop",
    ),
    (
        "categorical",
        np.array(["a", "b", None] * 4, dtype=object),
        r"row 2 of the response holds None \(4 such rows\)",
    ),
    (
        "categorical",
        np.array(["a", "b", np.nan] * 4, dtype=object),
        r"row 2 of the response holds nan \(4 such rows\)",
    ),
]


@pytest.mark.parametrize(
    ("likelihood", "y", "message"), RESPONSES, ids=[f"{k}-{m}" for k, _, m in RESPONSES]
)
def test_responses_of_the_wrong_kind(likelihood, y, message):
    with pytest.raises(pr.DataError, match=message):
        model(y, likelihood=likelihood)


def test_a_class_for_almost_every_row_is_an_identifier():
    with pytest.raises(
        pr.DataError, match="30 classes in 30 rows: are these identifiers or numbers"
    ):
        model(
            np.array([f"id{i}" for i in range(30)]),
            np.zeros((30, 1)),
            likelihood="categorical",
        )


@pytest.mark.parametrize(
    "likelihood", ["gaussian", "student", "poisson", "categorical"]
)
def test_an_event_is_for_bernoulli(likelihood):
    kind = type(pr.LIKELIHOODS[likelihood]()).__name__
    with pytest.raises(
        pr.DataError,
        match=f"event=1 was given, but a {kind} response has no event; that is for Bernoulli",
    ):
        model(Y[likelihood], likelihood=likelihood, event=1)


@pytest.mark.parametrize("likelihood", ["gaussian", "student", "poisson", "bernoulli"])
def test_a_reference_is_for_categorical(likelihood):
    with pytest.raises(
        pr.DataError,
        match=r"reference=1 was given, but a .* response has no reference; that is for Categorical",
    ):
        model(Y[likelihood], likelihood=likelihood, reference=1)


TRIALS = [
    (
        {"trials": np.full(N, 2)},
        pr.DataError,
        "row 3 has 3 successes in 2 trials .*; .* 0 <= successes <= trials",
    ),
    (
        {"trials": np.full(N, 4.5)},
        pr.DataError,
        "row 0 has 0 successes in 4.5 trials .*; they are whole numbers",
    ),
    (
        {"trials": np.full(3, 9)},
        pr.DataError,
        r"one value per row: expected \(12,\), got \(12,\) and \(3,\)",
    ),
    (
        {"trials": np.full(N, np.inf)},
        pr.DataError,
        "row 0 has 0 successes in inf trials",
    ),
    (
        {"trials": np.full(N, 9), "likelihood": "poisson"},
        pr.Incompatible,
        "successes out of trials are Binomial observations, not poisson",
    ),
    ({"trials": ["a"] * N}, pr.DataError, "trials must be numeric; row 0 holds"),
    (
        {"trials": np.full(N, 9), "likelihood": pr.Multinomial()},
        pr.Incompatible,
        "Binomial observations, not multinomial",
    ),
    (
        {"trials": np.full(N, 9), "event": 1},
        pr.DataError,
        r"a Binomial response has no event; .* p\(n - k, n\)",
    ),
    (
        {"trials": COUNT},
        pr.DataError,
        "class failure occurs in none of .* rows",
    ),
    (
        {"likelihood": "binomial"},
        pr.DataError,
        "row 2 has 2 successes in 1 trials; expected at most as many: write p.successes",
    ),
    (
        {"likelihood": pr.Binomial(trials=2)},
        pr.DataError,
        "row 3 has 3 successes in 2 trials",
    ),
    (
        {"likelihood": pr.Binomial(trials=9), "trials": np.full(N, 8)},
        pr.DataError,
        "row 0 has 8 trials, and this Binomial has 9",
    ),
]


@pytest.mark.parametrize(
    ("options", "error", "message"), TRIALS, ids=[m for *_, m in TRIALS]
)
def test_successes_that_trials_do_not_hold(options, error, message):
    with pytest.raises(error, match=message):
        model(COUNT, **({"likelihood": "bernoulli"} | options))


COUNTS = np.column_stack([COUNT, COUNT[::-1], np.ones(N)])
TABLES = [
    (
        COUNTS,
        "bernoulli",
        pr.DataError,
        "y has 3 columns, which may be failures or trials: pass the successes as y, and trials=",
    ),
    (
        COUNTS[:, :2],
        "binomial",
        pr.DataError,
        "y has 2 columns, which may be failures or trials",
    ),
    (
        COUNTS,
        "poisson",
        pr.DataError,
        r"a Poisson response is one column, .* \(12, 3\); .* for counts by class Multinomial",
    ),
    (
        COUNTS - 1,
        "multinomial",
        pr.DataError,
        "a Multinomial response holds counts 0, 1, 2, ...; row 0 holds -1",
    ),
    (COUNTS * [1, 1, 0.5], "categorical", pr.DataError, "row 0 holds 0.5"),
    (
        COUNTS * [1, 1, 0],
        "multinomial",
        pr.DataError,
        "class 2 .* its probability is estimated as 0",
    ),
    (
        COUNT,
        "multinomial",
        pr.DataError,
        "a table of counts, .* For one class per row use Categorical",
    ),
]


@pytest.mark.parametrize(
    ("y", "likelihood", "error", "message"), TABLES, ids=[m for *_, m in TABLES]
)
def test_tables_of_counts_that_do_not_fit(y, likelihood, error, message):
    with pytest.raises(error, match=message):
        model(y, likelihood=likelihood)


@pytest.mark.parametrize("trials", [0, True, 2.5])
def test_the_trials_of_every_row_are_a_whole_number(trials):
    with pytest.raises(pr.DataError, match="whole number of at least 1"):
        pr.Binomial(trials=trials)


LEVELS = [
    (
        {"likelihood": "bernoulli", "event": "maybe"},
        "event='maybe' is not a level of the response: 0, 1",
    ),
    (
        {"likelihood": "categorical", "reference": "z"},
        "reference='z' is not a level of the response: 0, 1, 2",
    ),
    (
        {"likelihood": pr.Categorical(reference=7)},
        "reference=7 is not a level of the response",
    ),
]


@pytest.mark.parametrize(("options", "message"), LEVELS, ids=[m for _, m in LEVELS])
def test_levels_that_do_not_occur(options, message):
    name = "bernoulli" if options["likelihood"] == "bernoulli" else "categorical"
    with pytest.raises(pr.DataError, match=message):
        model(Y[name], **options)


def test_a_symmetric_softmax_has_no_reference():
    with pytest.raises(
        pr.DataError,
        match="a symmetric softmax has no reference class, got reference=1",
    ):
        pr.Categorical(symmetric=True, reference=1)
    with pytest.raises(
        pr.DataError,
        match="a symmetric softmax has no reference class, got reference=1",
    ):
        model(THREE, likelihood=pr.Categorical(symmetric=True), reference=1)


PRIORS = [
    ({"prior": {"z": Normal(1.0)}}, pr.DataError, "a prior was given for 'z', which is not a column: Intercept, x1, x2"),
    ({"prior": {"x1": 2.0}}, pr.DataError, "the prior of 'x1' is a Prior, got 2.0: write pr.Normal"),
    ({"prior": {"x1": pr.HalfNormal(1.0)}}, pr.DataError, "the prior of 'x1' is a Prior, got HalfNormal, .* positive number.*aux="),
    ({"prior": {"x1": "half_normal(1)"}}, pr.DataError, "the prior of 'x1' is a Prior, got HalfNormal, .* positive number.*aux="),
    ({"prior": "half_normal(1)"}, pr.DataError, "positive number"),
    ({"prior": {"x1": pr.Normal}}, pr.DataError, r"the prior of 'x1' is a Prior, got the class Normal: write Normal\("),
    ({"prior": pr.Normal}, pr.DataError, r"got the class Normal: write Normal\("),
    ({"prior": 2.0}, pr.DataError, r"prior is a Prior or a mapping from columns to Priors, got 2.0: write pr.Normal\(2.0\)"),
    ({"prior": None}, pr.DataError, r"prior is a Prior or a mapping .*, got None: write pr.Flat\(\) for no prior"),
    ({"prior": "flatt"}, pr.ProbregError, "no prior is called 'flatt'; did you mean 'flat'"),
    ({"prior": pr.StudentT()}, pr.DataError, "prior is a Prior or a mapping .*, a StudentT from probreg.likelihoods"),
    ({"prior": {"x1": Normal(2.0), ("x1", "x2"): Normal(1.0)}}, pr.DataError, "two priors were given for x1"),
    ({"prior": Normal((1.0, 2.0, 3.0))}, pr.DataError, "stated for 3 columns and touches 2: x1, x2.*intercept is free"),
    ({"prior": {("x1", "x2"): Normal((1.0, 2.0, 3.0))}}, pr.DataError, "stated for 3 columns and touches 2: x1, x2$"),
    ({"prior": Normal((1.0, 2.0, 3.0)), "intercept": False}, pr.DataError, "stated for 3 columns and touches 2: x1, x2$"),
    ({"prior": Normal(1.0, sigma_units=True), "likelihood": "bernoulli"}, pr.Incompatible, "in units of sigma needs a likelihood with a noise scale; bernoulli"),
    ({"prior": pr.priors.StudentT(1.0), "likelihood": pr.Categorical(symmetric=True)}, pr.Incompatible, "got student.*likelihood='categorical'"),
    ({"prior": pr.priors.GroupLaplace(1.0), "likelihood": pr.Categorical(symmetric=True)}, pr.Incompatible, "got group_laplace"),
    ({"prior": pr.Laplace(pr.HalfNormal(1.0)), "likelihood": pr.Categorical(symmetric=True)}, pr.Incompatible, "got .* of unknown scale"),
    ({"prior": Normal(1.0, location=0.5), "likelihood": pr.Categorical(symmetric=True)}, pr.Incompatible, "location 0"),
    ({"prior": pr.Laplace(1.0, location=0.5), "likelihood": pr.Categorical(symmetric=True)}, pr.Incompatible, "location 0"),
    ({"likelihood": Normal(1.0)}, pr.Incompatible, "likelihood is a Likelihood or the name of one, got Normal from probreg.priors"),
    ({"likelihood": pr.priors.StudentT(1.0)}, pr.Incompatible, "got StudentT from probreg.priors"),
    ({"likelihood": "gausian"}, pr.ProbregError, "no likelihood is called 'gausian'; did you mean 'gaussian'"),
    ({"aux": {"phi": 1.0}}, pr.DataError, "a gaussian likelihood has no parameter 'phi'; it has: sigma"),
    ({"aux": {"sigma": 1.0}, "likelihood": "poisson"}, pr.DataError, "a poisson likelihood has no parameter 'sigma'; it has: none"),
    ({"aux": {"sigma": Normal(1.0)}}, pr.DataError, "sigma is positive: its prior is one of .*HalfNormal.*, not Normal"),
    ({"aux": {"sigma": 0.0}}, pr.DataError, "sigma is a positive finite number or a prior such as HalfNormal.*got 0.0"),
    ({"aux": {"sigma": np.nan}}, pr.DataError, "sigma is a positive finite number or a prior .*got nan"),
    ({"aux": {"sigma": np.inf}}, pr.DataError, "sigma is a positive finite number or a prior .*got inf"),
    ({"aux": {"sigma": "half_norml"}}, pr.DataError, "sigma is a positive finite number or a prior .*got 'half_norml'"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "error", "message"), PRIORS, ids=[m for *_, m in PRIORS]
)
def test_priors_and_parameters_that_do_not_belong(options, error, message):
    likelihood = options.get("likelihood", "gaussian")
    name = likelihood if isinstance(likelihood, str) else likelihood.name
    with pytest.raises(error, match=message):
        model(Y.get(name, REAL), **options)


def test_a_prior_is_checked_when_it_is_changed():
    with pytest.raises(pr.DataError, match="not a column"):
        model().with_prior({"z": Normal(1.0)})
    with pytest.raises(pr.DataError, match="no parameter 'phi'"):
        model().with_aux(phi=1.0)


SETTINGS = [
    (lambda: Normal(0.0), "Normal scale is a positive finite number .*, got 0.0"),
    (
        lambda: Normal((1.0, -2.0)),
        "Normal scale is a positive .* where entry 1 is -2.0",
    ),
    (lambda: Normal(np.nan), "Normal scale is a positive .*, got nan"),
    (
        lambda: Normal(1.0, location=np.inf),
        "Normal location is a finite number .*, got inf",
    ),
    (lambda: Normal([[1.0]]), r"one per column\).*, got \[\[1.0\]\]"),
    (
        lambda: Normal((1.0, 2.0), location=(0.0, 1.0, 2.0)).size,
        r"different numbers of columns: \[2, 3\]",
    ),
    (lambda: pr.Laplace(-1.0), "Laplace scale is a positive .*, got -1.0"),
    (
        lambda: pr.priors.StudentT(1.0, nu=0.0),
        "StudentT nu is a positive finite number, got 0.0",
    ),
    (lambda: pr.StudentT(nu=-1.0), "StudentT nu is a positive finite number, got -1.0"),
    (
        lambda: Normal(precision_matrix=((1.0, 2.0), (2.0, 1.0))),
        "positive definite: its smallest eigenvalue is -1",
    ),
    (
        lambda: Normal(precision_matrix=((1.0, 0.5), (0.2, 1.0))),
        "a precision matrix is symmetric, and this one is not",
    ),
    (
        lambda: Normal(precision_matrix=((1.0, 0.5),)),
        r"a precision matrix is square, got shape \(1, 2\)",
    ),
    (
        lambda: Normal(2.0, precision_matrix=((1.0,),)),
        "a scale or a precision_matrix, not both",
    ),
    (
        lambda: pr.HalfNormal(0.0),
        "HalfNormal scale is a positive finite number, got 0.0",
    ),
    (
        lambda: pr.priors.HalfStudentT(1.0, nu=-2.0),
        "HalfStudentT nu is a positive finite number, got -2.0",
    ),
    (lambda: pr.priors.HalfCauchy(-1.0), "HalfCauchy scale is a positive"),
    (
        lambda: pr.HalfNormal(np.inf),
        "HalfNormal scale is a positive finite number, got inf",
    ),
    (lambda: pr.StudentT(nu=np.inf), "nu is a positive finite number, got inf"),
    (
        lambda: pr.priors.StudentT(nu=np.inf),
        "StudentT nu is a positive finite number, got inf",
    ),
    (lambda: Normal("wide"), "Normal scale is a positive .*, got 'wide'"),
    (lambda: pr.priors.Exponential(0.0), "Exponential scale is a positive"),
    (lambda: pr.priors.Uniform(2.0, 1.0), r"needs 0 <= low < high, got \(2.0, 1.0\)"),
    (lambda: pr.priors.InverseGamma(0.0, 1.0), "InverseGamma shape is a positive"),
    (lambda: pr.priors.InverseGamma(1.0, -1.0), "InverseGamma scale is a positive"),
]


@pytest.mark.parametrize(("build", "message"), SETTINGS, ids=[m for _, m in SETTINGS])
def test_settings_out_of_range(build, message):
    with pytest.raises(pr.DataError, match=message):
        build()


def test_fit_is_asked_for_what_it_has():
    m = model()
    with pytest.raises(
        pr.ProbregError, match="no method is called 'newtn'; did you mean 'newton'"
    ):
        pr.fit(m, "newtn")
    with pytest.raises(pr.Incompatible, match="method is a Method or a name, got 3"):
        pr.fit(m, 3)
    with pytest.raises(
        pr.Incompatible, match="method is a Method or a name, got the class Newton"
    ):
        pr.fit(m, pr.Newton)


def test_intervals_are_asked_for_what_they_are():
    mode, posterior = pr.fit(model()), pr.fit(model(), "conjugate")
    for fit in (mode, posterior):
        for prob in (95, 0.0, 1.0, -0.5):
            for ask in (fit.interval, fit.summary):
                with pytest.raises(
                    pr.DataError,
                    match=re.escape(
                        f"between 0 and 1, got {prob}; for 95 % write prob=0.95"
                    ),
                ):
                    ask(prob)
            with pytest.raises(pr.DataError, match=r"for 95 % write prob=0.95"):
                fit.predict(prob=prob)
            with pytest.raises(pr.DataError, match=r"for 95 % write prob=0.95"):
                fit.aux_interval("sigma", prob)
    with pytest.raises(
        pr.Incompatible, match=r"a mode has intervals of kind t, wald, .*, not 'eti'"
    ):
        mode.interval(kind="eti")
    with pytest.raises(
        pr.Incompatible, match="a posterior has intervals of kind eti, hdi, not 'wald'"
    ):
        posterior.interval(kind="wald")
    with pytest.raises(pr.Incompatible, match="no degrees of freedom here"):
        pr.fit(model(TWO, likelihood="bernoulli")).interval(kind="t")
    with pytest.raises(pr.DataError, match=r"'nu' was not estimated; .*: sigma"):
        mode.aux_interval("nu")


NEW = [
    (np.ones((2, 3)), r"expected 2 columns \(x1, x2\), got an array of shape \(2, 3\)"),
    ({"x1": [1.0]}, "the data have no column 'x2'. They have: x1"),
    (np.array([[1.0, np.nan]]), "column 'x2' holds nan in row 0"),
    (np.array([["a", "b"]]), "must be numeric"),
]


@pytest.mark.parametrize(("data", "message"), NEW, ids=[m for _, m in NEW])
def test_new_rows_that_do_not_fit(data, message):
    with pytest.raises(pr.DataError, match=message):
        pr.fit(model()).predict(data)


def test_more_columns_than_rows():
    wide = model(REAL[:4], np.random.default_rng(0).normal(size=(4, 6)))
    with pytest.warns(pr.ProbregWarning, match="not identified"):
        fit = pr.fit(wide)
    assert np.isnan(fit.std_error).any()
    with pytest.raises(pr.Incompatible, match="improper"):
        pr.fit(wide, "conjugate")
    assert np.isfinite(
        pr.fit(wide.with_prior(Normal(1.0)).with_aux(sigma=1.0)).coef
    ).all()


def test_an_exact_line_has_no_noise_to_estimate():
    exact = model(X @ [1.0, 2.0])
    for method in ("conjugate", "quadrature"):
        with pytest.raises(pr.Incompatible, match=r"reproduce.? the response exactly"):
            pr.fit(exact, method)


def test_as_many_rows_as_columns_leave_no_degrees_of_freedom():
    fit = pr.fit(model(REAL[:3], X[:3]), "closed_form")
    assert fit.solution.df == 0
    assert any("no degrees of freedom are left" in n for n in fit.described["notes"])
    assert np.isnan(fit.std_error).all()
    assert np.isfinite(fit.coef).all()
    rng = np.random.default_rng(3)
    saturated = pr.Model.from_arrays(
        rng.normal(size=(6, 5)), 100.0 + rng.normal(size=6)
    )
    fit = pr.fit(saturated)
    assert fit.solution.aux == {"sigma": 0.0}  # not what rounding leaves of it
    assert np.isnan(
        [fit.log_likelihood, fit.residual_sd, fit.summary().loc["sigma", "estimate"]]
    ).all()
    with pytest.raises(pr.Incompatible, match="no degrees of freedom left"):
        _ = fit.aic
    said = repr(fit.summary())
    assert "no degrees of freedom are left" in said
    assert not any(
        word in said.replace(said[said.index("note:") :], "")
        for word in ("sigma 0", "AIC", "log-likelihood", "t(0)")
    )
    assert "e-1" not in repr(pr.table({"ML": fit})) + repr(pr.compare({"ML": fit}))


@pytest.mark.slow
def test_a_prior_in_raw_units_on_as_many_columns_as_rows_says_what_serves():
    rng = np.random.default_rng(3)
    for shape in ((6, 5), (4, 6)):
        weak = pr.Model.from_arrays(
            rng.normal(size=shape), rng.normal(size=shape[0]), prior="weak"
        )
        for method, error in (
            ("auto", pr.NotConverged),
            ("laplace", pr.Incompatible),
        ):
            with pytest.raises(error, match="InverseGamma"):
                pr.fit(weak, method)
    assert pr.fit(
        weak.with_aux(sigma=pr.priors.InverseGamma(1.0, 1.0))
    ).solution.status.good
    assert np.isfinite(pr.fit(weak.with_aux(sigma=1.0)).std_error).all()
    assert np.isfinite(
        pr.fit(weak.with_aux(sigma=pr.HalfNormal(1.0)), "posterior", seed=1).std_error
    ).all()
    assert np.isfinite(
        pr.fit(weak.with_prior(pr.Normal(2.5, sigma_units=True))).std_error
    ).all()


def test_errors_that_one_argument_resolves_carry_it():
    X = np.array([[1.0], [2.0], [3.0], [5.0]])
    fit = pr.fit(pr.Model.from_arrays(X, [0, 1, 0, 1], likelihood="bernoulli"))
    with pytest.raises(pr.Incompatible) as no_degrees:
        fit.interval(0.95, "t")
    assert no_degrees.value.remedy.argument_text == "kind='wald'"


@pytest.mark.parametrize(
    ("recipe", "option"),
    [
        (pr.ols, {"likelihood": "poisson"}),
        (pr.poisson, {"likelihood": "gaussian"}),
        (pr.ridge, {"lam": 1.0, "prior": pr.Normal(2.0)}),
        (pr.quantile_regression, {"likelihood": "gaussian"}),
    ],
)
def test_what_a_recipe_chooses_is_no_option_of_it(recipe, option):
    name = list(option)[-1]
    with pytest.raises(
        pr.Incompatible, match=rf"this function chooses the {name}; write"
    ):
        recipe("y ~ x", {"x": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 2.0]}, **option)


def test_a_formula_after_the_table_is_named():
    table = {"x": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 4.0]}
    with pytest.raises(pr.DataError, match=r"'y ~ x' is the second argument"):
        pr.ols(table, "y ~ x")

"""Laws of the comparison: its numbers are those of the fits, its shares those of linear algebra, its spellings those of
scikit-learn. Null: the table adds nothing of its own to what the fits say."""

import re
from dataclasses import replace

import numpy as np
import pytest

import probreg as pr
from probreg.comparison import Comparison, compare, prior_weights
from probreg.inference import Draws
from probreg.recipes import logistic, ols, poisson, ridge, softmax
from probreg.tables.render import decimals, format_rounded

EXACT = 1e-12  # the same numbers, copied: rounding of a division at most


def rows(n: int = 80, p: int = 3, seed: int = 7) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) * [0.5, 2.0, 10.0][:p] + [1.0, -3.0, 40.0][:p]
    return X, X @ [1.4, -0.3, 0.05][:p] + rng.normal(size=n) + 0.7


def gaussian(**options) -> pr.Model:
    return pr.Model.from_arrays(*rows(), columns=["a", "b", "c"], **options)


def binary(**options) -> pr.Model:
    X, y = rows()
    return pr.Model.from_arrays(
        X,
        np.where(y > np.median(y), "yes", "no"),
        likelihood="bernoulli",
        response="answer",
        **options,
    )


def classes(symmetric: bool, **options) -> pr.Model:
    X, y = rows()
    names = np.array(["low", "mid", "high"])[np.digitize(y, np.quantile(y, [0.3, 0.7]))]
    return pr.Model.from_arrays(
        X, names, likelihood=pr.Categorical(symmetric=symmetric), **options
    )


def counts(**options) -> pr.Model:
    X, y = rows()
    return pr.Model.from_arrays(
        X, np.round(np.exp((y - y.mean()) / 2)), likelihood="poisson", **options
    )


def pair(model: pr.Model, prior: pr.priors.Prior, method: str = "auto") -> Comparison:
    return compare(
        {"ML": pr.fit(model), "prior": pr.fit(model.with_prior(prior), method)}
    )


MODELS = {
    "gaussian": gaussian, "binary": binary, "reference": lambda **o: classes(False, **o),
    "symmetric": lambda **o: classes(True, **o), "counts": counts,
}  # fmt: skip


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> pr.Model:
    return MODELS[request.param]()


def test_numbers_are_those_of_the_fits(model):
    fits = {
        "ML": pr.fit(model),
        "mode": pr.fit(model.with_prior(pr.Normal(0.5)), "newton"),
        "laplace": pr.fit(model, "laplace"),
    }
    data = compare(fits, 0.8).data
    for name, fit in fits.items():
        own, here = fit.summary(0.8), data.sel(fit=name)
        named = {
            "estimate": own.columns[0],
            "error": own.columns[1],
            "lower": "lower",
            "upper": "upper",
        }
        for quantity, column in named.items():
            np.testing.assert_array_equal(here[quantity].values, own[column].to_numpy())
        assert set(here["kind"].values[here["role"].values == "coefficient"]) == {
            own.attrs["kind"]
        }
        assert here["method"] == fit.method.name
        assert here["error_name"] == ("SD" if fit.target == "posterior" else "SE")
        # labels and numbers belong together
        one = {"coef": "x1" if "x1" in fit.coef["coef"] else "a"} | (
            {"outcome": fit.coef["outcome"].values[-1]} if fit.coef.ndim == 2 else {}
        )
        label = one["coef"] + (f": {one['outcome']}" if "outcome" in one else "")
        assert here["estimate"].sel(param=label) == fit.coef.sel(one)


def test_shift_and_ratio_are_against_the_baseline(model):
    fits = {
        "ML": pr.fit(model),
        "mode": pr.fit(model.with_prior(pr.Normal(0.5)), "newton"),
    }
    for base, other in (("ML", "mode"), ("mode", "ML")):
        data = compare(fits, baseline=base).data
        assert (data["difference"].sel(fit=base) == 0).all()
        assert (data["se_ratio"].sel(fit=base) == 1).all()
        at, of = data.sel(fit=base), data.sel(fit=other)
        np.testing.assert_allclose(
            of["difference"] * at["error"] + at["estimate"], of["estimate"], rtol=1e-9
        )  # a difference and back
        np.testing.assert_allclose(
            of["se_ratio"] * at["error"], of["error"], rtol=EXACT
        )


def test_permuting_the_fits_permutes_the_columns(model):
    fits = {
        "ML": pr.fit(model),
        "mode": pr.fit(model.with_prior(pr.Normal(0.5)), "newton"),
    }
    here, there = compare(fits), compare(dict(reversed(fits.items())), baseline="ML")
    assert there.data.sel(fit=list(fits)).identical(here.data)
    assert there.to_pandas()[list(fits)].equals(here.to_pandas())


def test_a_flat_prior_has_no_weight(model):
    c = compare([pr.fit(model), pr.fit(model, "newton")])
    assert (c.data["prior_weight"] == 0.0).all()
    assert not np.signbit(c.data["prior_weight"]).any()
    assert "weight" not in repr(c).splitlines()[5]


def test_the_weight_of_a_tight_prior_is_all(model):
    data = pair(model, pr.Normal(1e-4), "newton").data.sel(fit="prior")
    slopes = (data["role"] == "coefficient") & (data["coef"] != "Intercept")
    # scale 1e-4 against standard errors of 1e-2 and more leaves the data 1e-4 of the precision at most
    assert (data["prior_weight"].where(slopes, 1.0) > 1 - 1e-2).all()
    assert (
        data["prior_weight"].sel(
            param=data["param"].values[data["coef"].values == "Intercept"]
        )
        == 0
    ).all()


def test_weights_on_an_orthonormal_design_are_known():
    """Columns orthogonal with sum of squares s: the weight is tau^-2 / (tau^-2 + s / sigma^2)."""
    rng = np.random.default_rng(2)
    Q = np.linalg.qr(np.c_[np.ones(40), rng.normal(size=(40, 3))])[0][:, 1:] * 3.0
    tau, sigma = (0.5, 1.0, 4.0), 1.7
    model = pr.Model.from_arrays(
        Q, Q @ [1.0, 2.0, 3.0] + rng.normal(size=40), aux={"sigma": sigma}
    )
    data = pair(model, pr.Normal(tau)).data.sel(fit="prior", param=["x1", "x2", "x3"])
    expected = np.array(tau) ** -2.0 / (np.array(tau) ** -2.0 + 9.0 / sigma**2)
    # one QR of a well conditioned design
    np.testing.assert_allclose(data["prior_weight"], expected, rtol=1e-10)


def test_the_prior_weight_is_posterior_over_prior_variance(model):
    """With independent normal priors (P H^-1)_jj = (SE_j / tau)^2, where the errors come from the same curvature."""
    held = model.with_aux(sigma=1.3) if model.likelihood.nuisance else model
    data = pair(held, pr.Normal(0.4), "newton").data.sel(fit="prior")
    slopes = np.flatnonzero(
        (data["role"] == "coefficient") & (data["coef"] != "Intercept")
    )
    ratio = (data["error"] / 0.4) ** 2
    if getattr(model.likelihood, "symmetric", False):
        # reported coefficients have prior variance tau^2 (K - 1) / K
        ratio = ratio * 3 / 2
    # Newton's last step
    np.testing.assert_allclose(data["prior_weight"][slopes], ratio[slopes], rtol=1e-6)


def test_the_prior_weight_ignores_where_a_column_has_its_zero():
    X, y = rows()
    at = [
        prior_weights(ridge(X - shift, y, scale=0.3, aux={"sigma": 1.0}))[0]
        for shift in (0.0, 25.0)
    ]
    np.testing.assert_allclose(at[0], at[1], rtol=1e-8)  # condition number 1e3, squared


def test_information_of_moments_is_that_of_rows():
    prior = pr.Normal(0.4, location=0.2)
    fit = pr.fit(gaussian(prior=prior, aux={"sigma": pr.HalfNormal(2.0)}), "newton")
    weights, aux = prior_weights(fit)
    H = fit.model.value_grad_hessian(fit.solution.beta, **fit.solution.aux).curvature
    np.testing.assert_allclose(
        weights[1:, 0], 0.4**-2 * np.diagonal(np.linalg.inv(H[:-1, :-1]))[1:], rtol=1e-8
    )
    np.testing.assert_allclose(
        aux, -pr.HalfNormal(2.0).slopes(fit.aux["sigma"])[1] / H[-1, -1], rtol=1e-6
    )


def test_a_prior_in_units_of_sigma_informs_sigma():
    """Over log sigma the prior has curvature 2 Q / sigma^2 and the likelihood 2 RSS / sigma^2: share Q / (RSS + Q)."""
    fit = pr.fit(gaussian(prior=pr.Normal(0.05, sigma_units=True)))
    b, rss = (
        fit.coef.values,
        float(np.square(rows()[1] - fit.predict()["mean"].values).sum()),
    )
    form = float(np.square(b[1:] / 0.05).sum())
    data = compare({"mode": fit}).data.sel(fit="mode", param="sigma")
    # moments against rows
    assert data["prior_weight"].item() == pytest.approx(form / (rss + form), rel=1e-9)
    H = fit.model.value_grad_hessian(fit.solution.beta, **fit.solution.aux).curvature
    assert prior_weights(fit)[1][0] == pytest.approx(
        2 * form / fit.aux["sigma"] ** 2 / H[-1, -1], rel=1e-9
    )


def test_a_kinked_prior_in_units_of_sigma_informs_sigma():
    """log p(beta | sigma) = -q log sigma - sum |b| / (scale sigma): curvature sum |b| / (scale sigma) over log sigma."""
    solution = pr.fit(gaussian(prior=pr.Normal(0.5, sigma_units=True))).solution
    fit = pr.Fit(
        gaussian(prior=pr.Laplace(0.5, sigma_units=True)), pr.Newton(), solution
    )
    sigma, X, y = fit.aux["sigma"], fit.model.design.X, rows()[1]
    P = np.abs(solution.beta[1:]).sum() / (0.5 * sigma)
    J = 2 * np.square(y - X @ solution.beta[:, 0]).sum() / sigma**2
    # second difference at 1e-3
    assert prior_weights(fit)[1][0] == pytest.approx(P / (P + J), rel=1e-5)


def test_the_weight_of_a_student_prior_is_its_curvature():
    prior = pr.priors.StudentT(0.7, nu=3.0, location=0.1)
    model = binary(prior=prior)
    fit = pr.Fit(model, pr.Newton(), pr.fit(model.with_prior(pr.Normal(0.5))).solution)
    P = np.zeros(4)
    for j in (1, 2, 3):
        step = 1e-4 * np.eye(4)[:, [j]]
        log_p = [
            float(model.joint.log_prob(fit.solution.beta + k * step))
            for k in (-1, 0, 1)
        ]
        P[j] = -(log_p[0] - 2 * log_p[1] + log_p[2]) / 1e-8
    J = model.with_prior(pr.Flat()).value_grad_hessian(fit.solution.beta).curvature
    H = np.diag(P) + J
    np.testing.assert_allclose(
        prior_weights(fit)[0][:, 0], P * np.diagonal(np.linalg.inv(H)), rtol=1e-4
    )  # differences


def test_the_prior_weight_is_a_proportion_or_not_defined():
    """Jeffreys' log prior is not concave everywhere, nor is a Student-t's in its tails: a negative weight is none."""
    jeffreys = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(20, 2))
        model = pr.Model.from_arrays(
            X,
            (rng.random(20) < 1 / (1 + np.exp(-X[:, 0]))).astype(int),
            likelihood="bernoulli",
        )
        found = compare({"firth": pr.fit(model.with_prior(pr.priors.Jeffreys()))})
        weights = found.data["prior_weight"].values
        jeffreys.append(weights)
        assert ("not defined" in repr(found)) == np.isnan(weights).any()
        assert "-" not in "".join(re.findall(r"jeffreys +(\S+ %)", repr(found)))
    every = np.concatenate(jeffreys)
    assert np.isnan(every).any()
    assert ((every >= 0) & (every <= 1) | np.isnan(every)).all()
    far = pr.fit(
        gaussian(
            prior={"a": pr.priors.Cauchy(1e-3), "b": pr.Normal(0.3)}, aux={"sigma": 0.3}
        ),
        "newton",
    )
    weights = prior_weights(far)[0][:, 0]
    # 1.4 of a Cauchy of scale 0.001: its log density is convex there
    assert np.isnan(weights[1])
    assert 0 < weights[2] < 1


@pytest.mark.parametrize("seed", range(2))
def test_the_prior_weight_of_log_concave_priors_lies_between_zero_and_one(model, seed):
    scales = np.exp(np.random.default_rng(seed).normal(size=3) * 2)
    held = model.with_aux(sigma=1.3) if model.likelihood.nuisance else model
    weights = prior_weights(pr.fit(held.with_prior(pr.Normal(tuple(scales)))))[0]
    assert ((weights >= 0) & (weights <= 1)).all()
    g = prior_weights(pr.fit(held.with_prior(pr.priors.GPrior(4.0)), "newton"))[0]
    assert np.isnan(g).sum() + ((g >= 0) & (g <= 1)).sum() == g.size


def test_a_kinked_prior_has_no_curvature():
    model = gaussian(prior=pr.Laplace(0.5), aux={"sigma": 1.5})
    fit = pr.Fit(model, pr.Newton(), pr.fit(model.with_prior(pr.Normal(0.5))).solution)
    c = compare({"ML": pr.fit(gaussian()), "lasso": fit})
    here = c.data.sel(fit="lasso", param="b")
    assert np.isnan(here["prior_weight"])
    assert "not defined" in repr(c).split("Why they differ")[0]


# ---- text --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("render", ["__repr__", "_repr_html_"])
def test_prints_say_what_is_modelled(render):
    both = pair(binary(event="no"), pr.Normal(0.4))
    said = getattr(both, render)()
    for part in (
        "P(answer = no)",
        "the other level is yes",
        "80 observations",
        "95 %",
        "Wald",
        "newton",
        "Normal(0.4) on",
    ):
        assert part in said


def test_prints_say_the_reference_class():
    X, y = rows()
    names = np.where(y > np.median(y), "high", np.where(X[:, 0] > 1.0, "mid", "low"))
    c = compare(
        {
            "ML": softmax(X, names, reference="mid"),
            "mode": pr.fit(
                softmax(X, names, reference="mid").model.with_prior(pr.Normal(1.0))
            ),
        }
    )
    assert "against the reference class mid" in repr(c).splitlines()[0]
    assert [str(p) for p in c.data["param"].values[:2]] == [
        "Intercept: high",
        "x1: high",
    ]


def test_html_is_escaped():
    X, y = rows()
    fit = pr.fit(pr.Model.from_arrays(X, y, columns=["a<b", "b", "c"]))
    said = compare({"<i>": fit})._repr_html_()
    assert "<i>" not in said
    assert "a&lt;b" in said


def test_every_interval_says_its_kind():
    fits = {
        "ML": ols(*rows()),
        "newton": pr.fit(pr.Model.from_arrays(*rows()), "newton"),
        "exact": pr.fit(pr.Model.from_arrays(*rows()), "conjugate"),
    }
    c = compare(fits, 0.9)
    assert c.data["kind"].sel(param="x1").values.tolist() == ["t", "wald", "eti"]
    assert c.data["kind"].sel(param="sigma").values.tolist() == [
        "chi-square",
        "log-wald",
        "eti",
    ]
    assert "90 % intervals" in repr(c)
    again = compare(fits, 0.9, kind="hdi")
    assert again.data["kind"].sel(param="x1").values.tolist() == ["t", "wald", "hdi"]
    assert compare(fits, kind="wald").data["kind"].sel(fit="ML").values.tolist() == [
        "wald"
    ] * 4 + ["log-wald"]


def test_held_sigma_is_no_estimate():
    c = compare(
        {
            "held": pr.fit(gaussian(aux={"sigma": 2.5})),
            "free": ols(*rows(), columns=["a", "b", "c"]),
        },
        baseline="free",
    )
    here = c.data.sel(fit="held", param="sigma")
    assert (here["estimate"], here["kind"]) == (2.5, "fixed")
    assert np.isnan(here["lower"])
    assert c.causes.query("param == 'a'")["cause"].iloc[0] == "sigma fixed"
    assert (
        "fixed at 2.5" in c.causes.query("cause == 'sigma fixed'")["evidence"].iloc[0]
    )


def test_separation_is_said_and_never_numbered():
    X = np.arange(12.0)[:, None]
    model = pr.Model.from_arrays(
        X, (X[:, 0] > 5.5).astype(int), columns=["dose"], likelihood="bernoulli"
    )
    with pytest.warns(pr.ProbregWarning):
        ml = pr.fit(model)
    c = compare({"ML": ml, "mode": pr.fit(model.with_prior(pr.Normal(2.5)))})
    assert np.isnan(c.data["estimate"].sel(fit="ML")).all()
    row = next(line for line in repr(c).splitlines() if line.startswith("dose "))
    assert "ML (!)" in row
    assert "does not exist" in row
    assert not re.search(r"\d\.\d", row)
    assert "complete separation by" in c.reasons["dose"][0]
    assert "Normal(2.5)" in c.reasons["dose"][0]
    assert any(
        n.startswith("ML: no estimate of Intercept, dose exists") for n in c.notes
    )


def test_reasons_come_with_their_evidence():
    X, y = rows(12, 1, seed=3)
    model = pr.Model.from_arrays(X, y, columns=["x"])
    fits = {
        "ML": pr.fit(model),
        "mode": pr.fit(model.with_prior(pr.Normal(0.3)), "newton"),
        "newton": pr.fit(model, "newton"),
    }
    c = compare(fits | {"exact": pr.fit(model, "conjugate")})
    first = {
        (r.param, r.fit): (r.cause, r.evidence) for r in c.causes[::-1].itertuples()
    }
    assert first["x", "mode"] == ("prior of x", "Normal(0.3) in mode, flat in ML")
    assert first["x", "newton"] == (
        "small sample",
        "no degrees of freedom in newton, 10 degrees of freedom in ML",
    )
    assert first["Intercept", "mode"] == first["x", "mode"]
    assert "posterior mean in exact, mode in ML" in set(c.causes["evidence"])
    assert compare({"a": fits["ML"], "b": fits["ML"]}).reasons == {}


def held_back() -> Comparison:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 2))
    model = pr.Model.from_arrays(X, X @ [1, 2] + rng.normal(size=40))
    tight = model.with_prior(pr.Normal(0.05, sigma_units=True))
    return compare(
        {"ML": pr.fit(model), "tight": pr.fit(tight), "newton": pr.fit(model, "newton")}
    )


def test_sigma_grows_where_the_coefficients_are_held_back():
    c = held_back()
    ml, tight = (c.fits[f] for f in ("ML", "tight"))
    assert ml.aux["sigma"] < tight.aux["sigma"]
    assert c.data["difference"].sel(fit="tight", param="sigma") > 10
    held, newton = c.reasons["sigma"]
    assert held.startswith("tight: prior of x2: shift +")
    # Two estimates of one sigma differ by degrees of freedom; a sigma 2.7 times as large does not.
    assert newton.startswith("newton: small sample: ")
    assert "small sample" not in c.causes.query("fit == 'tight'")["cause"].values


def test_a_small_sample_explains_no_other_sigma():
    """On 6 rows errors may differ by a factor 2, but a sigma that moved was moved by something else."""
    X, y = rows(6, 2)
    model = pr.Model.from_arrays(X, y)
    c = compare(
        {"ML": pr.fit(model), "tight": pr.fit(model.with_prior(pr.Normal(0.05)))}
    )
    assert 0.5 < c.data["se_ratio"].sel(fit="tight", param="sigma") < 2
    assert c.data["difference"].sel(fit="tight", param="sigma") > 0.1
    assert {"prior of x1", "prior of x2"} & {
        *c.causes.query("param == 'sigma'")["cause"]
    }


def test_a_scale_in_units_of_sigma_has_its_unit():
    c = held_back()
    said = c.data["prior"].sel(fit="tight", param="x1").item()
    assert said == "Normal(0.05) in units of sigma"


def test_notes_carry_those_of_the_rows_and_of_the_method(tmp_path):
    table = {
        "x": [1.0, 2.0, np.nan, 4.0, 5.0, 7.0],
        "y": [1.0, 2.0, 3.0, 5.0, 4.0, 8.0],
    }
    model = pr.Model.from_formula("y ~ x", table, missing="drop")
    fits = {
        "ML": pr.fit(model),
        "mode": pr.fit(model.with_prior(pr.Normal(1.0))),
        "newton": pr.fit(model, "newton"),
    }
    read = {
        name: pr.load_fit(f.save(tmp_path / f"{name}.nc")) for name, f in fits.items()
    }
    for c in (compare(fits), compare(read)):
        dropped = [n for n in c.notes if "1 of 6 rows were dropped" in n]
        assert len(dropped) == 1
        assert dropped[0].startswith("ML, mode, newton: ")
        assert any(n.startswith("ML: auto chose closed_form") for n in c.notes)
        assert any(n.startswith("mode: auto chose newton") for n in c.notes)
        assert any(n.startswith("ML: sigma is the maximum likelihood") for n in c.notes)
        assert dropped[0].removeprefix("ML, mode, newton: ") in repr(c)


def test_sigma_of_another_likelihood_is_another_quantity():
    """The scale of a Student-t is below its standard deviation: a shift between the two means nothing."""
    fits = {
        "normal": pr.fit(gaussian()),
        "t": pr.fit(gaussian(likelihood=pr.StudentT(nu=4.0))),
    }
    c = compare(fits)
    here = c.data.sel(fit="t")
    assert np.isnan(
        here[["difference", "se_ratio"]].sel(param="sigma").to_array()
    ).all()
    assert np.isfinite(
        here[["difference", "se_ratio", "estimate"]].sel(param="b").to_array()
    ).all()
    assert here["estimate"].sel(param="sigma") == fits["t"].aux["sigma"]
    assert (
        "t: no difference is given for sigma, which is not the same quantity under the likelihood of normal"
        in c.notes
    )
    assert "sigma" not in c.reasons
    assert not any(
        "no difference" in n for n in compare({"a": fits["t"], "b": fits["t"]}).notes
    )


def wide(p: int = 100) -> dict[str, pr.Fit]:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(2 * p, p))
    model = pr.Model.from_arrays(X, X @ rng.normal(size=p) + rng.normal(size=2 * p))
    half = {f"x{j}": pr.Normal(0.1) for j in range(1, p // 2)}
    return {"ML": pr.fit(model), "half": pr.fit(model.with_prior(half))}


@pytest.mark.slow
def test_of_many_parameters_the_largest_shifts_are_printed(monkeypatch):
    c = compare(wide())
    with monkeypatch.context() as patch:
        patch.setattr(pr.Fit, "covariance", None)
        # no smooth path joins these two: sigma jumps as half of the columns are held back
        assert set(c.causes["cause"]) == {"prior"}
    half = c.data.sel(fit="half")
    shift = np.fmax(abs(half["difference"]), abs(np.log(half["se_ratio"]))).values[:-1]
    largest = set(c.data["param"].values[:-1][np.argsort(-shift)[:20]].tolist()) | {
        "sigma"
    }
    for said in (
        repr(c).split("Why they differ")[0],
        c._repr_html_().split("Why they differ")[0],
    ):
        printed = set(re.findall(r"\b(x\d+|Intercept|sigma)\b(?= +ML |</th>)", said))
        assert printed <= largest
        assert len(printed) >= 5
        assert "more parameters" in said
    assert set(re.findall(r"^  (\S+), half: ", repr(c), re.M)) <= largest
    assert len(c.reasons) > 50
    assert len(c.to_pandas()) == 102
    assert "more parameters" in repr(compare({"ML": c.fits["ML"]}))


def test_sampling_noise_is_a_reason():
    """Twenty draws of a mean have an error of about 0.2 SD."""
    model = gaussian()
    posterior = pr.fit(model, "conjugate", seed=3)
    draws = {k: v[:1, :20] for k, v in posterior.solution.draws.values.items()}
    stats = {"diverging": np.zeros((1, 20), bool)}
    beta = draws["beta"].mean((0, 1))
    few = pr.Fit(
        model,
        pr.NUTS(),
        replace(posterior.solution, beta=beta, draws=Draws(draws, stats), df=None),
    )
    c = compare({"ML": pr.fit(model), "few": few})
    mcse = c.data["mcse"].sel(fit="few")
    assert (mcse[:4] > 0).all()
    assert "Monte Carlo error" in c.causes["cause"].values


def test_pandas_holds_every_number_unrounded():
    c = pair(gaussian(), pr.Normal(0.3))
    wide = c.to_pandas()
    assert wide.columns.names == ["fit", "quantity"]
    assert (
        wide["ML", "estimate"].tolist()
        == c.data["estimate"].sel(fit="ML").values.tolist()
    )
    upper = c.data["upper"].sel(fit="prior", param="b").item()
    assert upper == wide.loc["b", ("prior", "upper")]
    assert wide.attrs["prob"] == 0.95


def test_saved_fits_compare(tmp_path):
    live = {"ML": pr.fit(binary()), "mode": pr.fit(binary(prior=pr.Normal(0.4)))}
    read = {k: pr.load_fit(f.save(tmp_path / f"{k}.nc")) for k, f in live.items()}
    there, here = compare(read), compare(live)
    for quantity in ("estimate", "error", "lower", "upper", "difference"):
        np.testing.assert_allclose(
            there.data[quantity], here.data[quantity], rtol=EXACT
        )
    assert "not known" in repr(there)
    slope = there.data["param"].values[1]
    assert "prior: Normal(0.4) in mode, flat in ML" in there.reasons[slope][0]
    assert "prior" in there.causes.query("param == 'Intercept'")["cause"].values
    exact = pr.fit(gaussian(prior=pr.Normal(0.3), aux={"sigma": 1.2}))
    again = pr.load_fit(exact.save(tmp_path / "exact.nc"))
    np.testing.assert_allclose(
        prior_weights(again)[0], prior_weights(exact)[0], rtol=1e-10
    )  # from its moments alone


def test_digits_follow_the_error():
    assert decimals(np.array([0.0123, 4.0])) == 4
    assert format_rounded(1234.5678, decimals(np.array([0.91]))) == "1234.568"
    assert format_rounded(float("inf"), 2) == "inf"
    assert format_rounded(1234.5678, decimals(np.array([2345.0]))) == "1235"
    assert format_rounded(7.25332e33, decimals(np.array([2.58e32]))) == "7.253e+33"


def test_a_number_with_many_digits_before_its_point_keeps_the_columns_together():
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    fit = pr.fit(pr.Model.from_arrays(1e-33 * x, x + rng.normal(size=40)))
    for shown in (pr.compare({"a": fit, "b": fit}), pr.table({"a": fit, "b": fit})):
        assert max(map(len, str(shown).splitlines())) < 90


# ---- recipes -----------------------------------------------------------------------------------------------------------


def test_recipes_are_fits_of_plain_models():
    X, y = rows()
    data = {
        "y": y,
        "a": X[:, 0],
        "b": X[:, 1],
        "answer": (y > np.median(y)).astype(int),
        "n": np.round(np.exp(y - y.max()) * 9),
    }
    data["kind"] = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    for recipe, response, likelihood in (
        (ols, "y", "gaussian"), (logistic, "answer", "bernoulli"), (softmax, "kind", "categorical"), (poisson, "n", "poisson"),
    ):  # fmt: skip
        by_formula = recipe(f"{response} ~ a + b", data)
        by_arrays = recipe(X[:, :2], data[response], columns=["a", "b"])
        plain = pr.fit(
            pr.Model.from_formula(f"{response} ~ a + b", data, likelihood=likelihood)
        )
        np.testing.assert_array_equal(by_formula.coef, plain.coef)
        # the same numbers by another reader
        np.testing.assert_allclose(by_arrays.coef, plain.coef, rtol=1e-8)
        assert plain.model.flat


def test_ridge_with_unknown_sigma_is_the_joint_mode():
    """At the joint mode the slope minimises RSS + (sigma/scale)^2 |b|^2 at the sigma that was found."""
    X, y = rows()
    fit = ridge(X, y, scale=0.3)
    assert fit.method.name == "newton"
    given = ridge(X, y, scale=0.3, aux={"sigma": fit.aux["sigma"]})
    # Newton stops at 1e-8 standard errors
    np.testing.assert_allclose(fit.coef, given.coef, rtol=1e-7)
    assert ridge(X, y, scale=0.3, sigma_units=True).method.name == "closed_form"


# ---- the size of a print -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "likelihood", ["gaussian", pytest.param("bernoulli", marks=pytest.mark.slow)]
)
def test_ten_coefficients_of_three_fits_are_one_screen(likelihood):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(150, 10))
    eta = X @ np.linspace(0.1, 1.5, 10)
    y = (
        eta + rng.normal(size=150)
        if likelihood == "gaussian"
        else (rng.random(150) < 1 / (1 + np.exp(-eta))).astype(int)
    )
    model = pr.Model.from_arrays(
        X,
        y,
        columns=[f"a_rather_long_name_{j}" for j in range(10)],
        likelihood=likelihood,
    )
    penalised = model.with_prior(pr.Normal(0.3))
    fits = {
        "ML": pr.fit(model),
        "mode": pr.fit(penalised),
        "posterior": pr.fit(penalised, "laplace", seed=1),
    }
    c = compare(fits)
    lines = repr(c).splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 110
    names = list(map(str, c.data["param"].values))
    printed = [n for n in names if any(line.startswith(f"{n} ") for line in lines)]
    assert f"{len(names) - len(printed)} more parameters" in repr(c)
    assert len(printed) > 3
    said = repr(c).split("Why they differ\n")[1]
    size = np.abs(c.data["difference"].values).max(0)
    first = str(c.data["param"].values[int(np.argmax(size))])
    assert said.strip().startswith(f"{first}, ")
    assert len(re.findall(r"^  \S+, ", said, re.M)) == 3


def test_interval_ends_that_differ_by_shape_alone_have_a_reason():
    """A chi-square interval of sigma against a Wald one, with equal estimates: no share is large."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    model = pr.Model.from_arrays(X, X.sum(1) + rng.normal(size=500))
    c = compare({"ML": pr.fit(model), "mode": pr.fit(model.with_prior(pr.Normal(0.5)))})
    assert len(c.reasons["sigma"]) == 1


def test_no_reason_is_printed_for_what_is_not_apart():
    model = gaussian()
    # intervals by t and by the normal
    c = compare({"ML": pr.fit(model), "newton": pr.fit(model, "newton")})
    assert "Why they differ" not in repr(c)
    assert "diff / SE" not in repr(compare({"ML": pr.fit(model)}))


def test_many_fits_of_few_columns_are_forty_lines():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    m = pr.Model.from_arrays(X, X[:, 0] + rng.normal(size=30))
    fits = {
        f"fit {i}": pr.fit(m.with_prior(pr.Normal(0.5 / (i + 1))) if i else m)
        for i in range(8)
    }
    said = repr(pr.compare(fits))
    assert len(said.split("\n")) <= 40


@pytest.mark.slow
def test_without_a_path_a_prior_is_not_blamed_for_what_the_method_does():
    """Of collinear columns no path tells shares; that a weak prior is not the cause shows in the mode, which has ML's sigma."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=20)
    m = pr.Model.from_arrays(
        np.column_stack([x, 2.0 * x]), x + rng.normal(size=20), columns=["x", "z"]
    )
    with pytest.warns(pr.ProbregWarning):
        ml = pr.fit(m)
    c = compare({"ML": ml, "post": pr.fit(m.with_prior("weak"), "quadrature")})
    of_sigma = c.causes[c.causes["param"] == "sigma"]
    assert of_sigma["cause"].tolist() == ["prior", "skewness"]
    # a prior that holds a coefficient at 0 is not diluted by RSS / 78 in place of RSS / 80
    X, y = rows()
    kinked = pr.fit(
        pr.Model.from_arrays(X, y + 5.0 * X[:, 0], columns=list("abc")).with_prior(
            {"a": pr.Laplace(0.01)}
        )
    )
    flat = pr.fit(pr.Model.from_arrays(X, y + 5.0 * X[:, 0], columns=list("abc")))
    (said,) = compare({"ML": flat, "lasso": kinked}).reasons["a"]
    assert "method" not in said
    assert "prior: Laplace(0.01)" in said


def test_heads_name_only_what_the_table_has():
    """Of separated rows nothing has an estimate; of an exact and of a saturated fit nothing has an interval."""
    x = np.linspace(-1.0, 1.0, 20)
    with pytest.warns(pr.ProbregWarning):
        apart = pr.fit(
            pr.Model.from_arrays(
                x[:, None], (x > 0).astype(float), columns=["x"], likelihood="bernoulli"
            )
        )
    said = repr(apart.summary())
    assert "\nno estimates\n" in said
    assert not re.search(r"Wald|interval|two-sided| p ", said)
    exact = pr.fit(pr.Model.from_arrays(x[:, None], 2.0 * x, columns=["x"]))
    full = pr.fit(
        pr.Model.from_arrays(
            np.array([[1.0, 1.0], [2.0, 4.0], [4.0, 16.0]]),
            [1.0, 5.0, 2.0],
            columns=["x", "w"],
        )
    )
    for fit in (apart, exact, full):
        said = repr(compare({"one": fit}))
        assert "no intervals" in said
        assert not re.search(r"Wald|chi-square| t |% intervals|lower", said)
    beside = repr(
        compare({"ML": apart, "ridge": pr.fit(apart.model.with_prior("weak"))})
    )
    assert re.search(r"ML +newton, no intervals", beside)
    assert re.search(r"ridge +newton, Wald intervals", beside)


def counts_by(right: str, **more) -> pr.Model:
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=40), "z": rng.normal(size=40)}
    data["k"] = rng.poisson(np.exp(0.3 * data["x"]))
    return pr.Model.from_formula(f"k ~ {right}", data, likelihood="poisson", **more)


def test_fits_of_one_answer_share_their_stacking_weight():
    alike = {"one": pr.fit(counts_by("x")), "other": pr.fit(counts_by("x"))}
    np.testing.assert_allclose(pr.compare_models(alike).table["weight"], 0.5)
    prior = {"prior": pr.Normal(2.0)}
    posteriors = {
        "laplace": pr.fit(counts_by("x", **prior), "laplace", seed=1),
        "importance": pr.fit(counts_by("x", **prior), "importance", seed=2),
    }
    np.testing.assert_allclose(pr.compare_models(posteriors).table["weight"], 0.5)
    third = {**posteriors, "z": pr.fit(counts_by("z", **prior), "laplace", seed=1)}
    weight = pr.compare_models(third).table["weight"]
    assert weight["laplace"] == weight["importance"]
    assert weight.sum() == pytest.approx(1.0)

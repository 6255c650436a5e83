"""The table of a paper: its numbers are those of the summaries, in every format, for fits that differ in anything."""

import re

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.inference import SGD, Bootstrap
from probreg.inference.reported import reported_parameters
from tests.properties.cases import LIKELIHOOD_CASES, covering, model_for

STACK = pr.load_dataset("stackloss")
LONG = pr.Model.from_formula(
    "stack_loss ~ air_flow + water_temperature + acid_concentration", STACK
)
SHORT = pr.Model.from_formula("stack_loss ~ air_flow", STACK)


def cells(table) -> dict[tuple[str, str], dict[str, str]]:
    """The texts of each fit by label and "", or "beneath" for the line under it."""
    found, label = {}, ""
    for name, row in table.to_pandas().iterrows():
        label, place = (name, "") if name else (label, "beneath")
        found[label, place] = row.to_dict()
    return found


def coefficients(table) -> list[str]:
    """The labels above the rule."""
    return [name for name in table.to_pandas().index[: table.rules[0]] if name]


@pytest.fixture(scope="module")
def fits():
    return {
        "short": pr.fit(SHORT), "ML": pr.fit(LONG), "ridge": pr.fit(LONG.with_prior(pr.Normal(1.0))),
        "lasso": pr.fit(LONG.with_prior(pr.priors.GroupLaplace(0.1))), "posterior": pr.fit(LONG, "conjugate"),
    }  # fmt: skip


def test_a_column_says_what_its_estimate_is():
    x = np.c_[np.linspace(-1.0, 1.0, 30), np.cos(np.arange(30.0))]
    line = pr.Model.from_arrays(x, x[:, 0] + 0.3 * x[:, 1])
    classes = pr.Model.from_arrays(
        x, (x[:, 0] > 0.03).astype(int), likelihood=pr.Bernoulli()
    )
    with pytest.warns(pr.errors.ProbregWarning, match="short"):
        few = {
            "sgd": pr.fit(line, SGD(epochs=1)),
            "ridge": pr.fit(line.with_prior(pr.Normal(1.0)), SGD(epochs=1)),
        }
    found = pr.table(
        {"weights": pr.fit(classes, "perceptron"), **few, "ML": pr.fit(line)}
    ).to_markdown()
    assert (
        "weights: weights that separate classes, no maximum of a likelihood, by perceptron."
        in found
    )
    assert "sgd: stopped short of maximum likelihood by sgd" in found
    assert "ridge: stopped short of the mode under a prior by sgd" in found
    assert "ML: maximum likelihood by closed_form" in found


def test_errors_are_named_only_where_there_are_some():
    x = np.arange(8.0)
    line = pr.Model.from_arrays(x, 1.0 + 2.0 * x, columns=["x"])
    classes = pr.Model.from_arrays(
        x, (x > 3).astype(int), columns=["x"], likelihood=pr.Bernoulli()
    )
    exact = repr(pr.table({"ML": pr.fit(line)}))
    assert "No standard errors.\nML: maximum likelihood by closed_form.\n" in exact
    with pytest.warns(pr.ProbregWarning, match="no maximum likelihood"):
        lost = pr.fit(classes)
    found = repr(
        pr.table({"ML": lost, "mode": pr.fit(classes.with_prior(pr.Normal(1.0)))})
    )
    assert (
        "Standard errors in parentheses.\nML: no maximum of the likelihood exists, fit by newton.\n"
        in found
    )
    assert "mode: mode under a prior by newton, observed standard errors;" in found


def test_a_posterior_of_ratios_has_its_interval_beneath():
    x = np.linspace(-2.0, 2.0, 40)
    m = pr.Model.from_arrays(
        x,
        (np.sin(9 * x) + x > 0).astype(int),
        columns=["x"],
        likelihood="bernoulli",
        prior=pr.Normal(1.0),
    )
    ml, post = pr.fit(m.with_prior(pr.Flat())), pr.fit(m, "importance", seed=1)
    found = pr.table({"ML": ml, "post": post}, exp=True, prob=0.9)
    ends = post.summary(0.9, exp=True).loc["x", ["lower", "upper"]]
    assert (
        cells(found)["x", "beneath"]["post"]
        == f"[{ends['lower']:#.3g}, {ends['upper']:#.3g}]"
    )
    assert found.notes[0].endswith("in parentheses.")
    assert found.notes[1] == "90 % intervals in brackets."
    assert pr.table({"post": post}, exp=True).notes[0] == "95 % intervals in brackets."


def test_sigma_is_called_what_it_is():
    m = pr.Model.from_arrays(np.arange(12.0), np.sin(np.arange(12.0)), columns=["x"])
    fits = {
        "ML": pr.fit(m),
        "mode": pr.fit(m.with_prior(pr.Normal(0.5))),
        "post": pr.fit(m, "conjugate"),
    }
    fits["held"] = pr.fit(m.with_aux(sigma=1.0))
    for name, estimate in {
        "ML": "sqrt(RSS / df)",
        "mode": "joint mode with the coefficients",
        "post": "posterior mean",
        "held": "fixed",
    }.items():
        (note,) = (n for n in pr.table(fits).notes if n.startswith(f"{name}: "))
        assert f"; sigma {estimate}" in note
    robust = pr.fit(pr.Model(m.design, pr.StudentT(4.0)))
    assert "; sigma maximum likelihood" in pr.table({"robust": robust}).notes[1]


def test_the_interval_of_sigma_stands_with_the_estimate_it_is_of():
    x = np.random.default_rng(0).normal(size=(16, 12))
    fit = pr.fit(pr.Model.from_arrays(x, x[:, 0] + np.cos(np.arange(16.0))))
    (line,) = (
        one for one in str(fit.summary()).split("\n") if one.startswith("sigma ")
    )
    row = fit.summary().loc["sigma"]
    assert row["estimate"] < row["lower"] < fit.residual_sd < row["upper"]
    ends = f"({row['lower']:.5g} to {row['upper']:.5g})"
    assert (
        line
        == f"sigma {fit.residual_sd:.5g} {ends} from RSS / df; maximum likelihood {row['estimate']:.5g}"
    )
    assert f"sigma {row['estimate']:.5g} (" in str(fit.summary(kind="wald"))


def test_intervals_are_named_as_in_the_summary():
    boot = pr.fit(SHORT, Bootstrap(reps=60), seed=1)
    assert (
        "bootstrap BCa intervals"
        in pr.table({"ML": boot}, beneath="interval", kind="bca").to_markdown()
    )
    assert "bootstrap BCa intervals" in str(boot.summary(kind="bca"))
    assert "bootstrap percentile intervals" in str(boot.summary(kind="percentile"))


def test_numbers_are_those_of_the_summaries_to_their_digits(fits):
    frame = cells(pr.table(fits))
    for name, fit in fits.items():
        summary = fit.summary()
        for coef in fit.parameter_names:
            value, error = summary.loc[coef].iloc[:2]
            assert float(frame[coef, ""][name]) == pytest.approx(
                value, abs=0.006 * np.nanmax([error, 1.0])
            )
            said = frame[coef, "beneath"][name]
            assert (
                said == ""
                if np.isnan(error)
                else float(said.strip("()")) == pytest.approx(error, rel=0.005)
            )
        assert frame["N", ""][name] == "21"
    assert (
        frame["acid_concentration", ""]["short"],
        frame["AIC", ""]["ridge"],
    ) == ("", "")
    assert frame["AIC", ""]["ML"] == f"{fits['ML'].aic:.1f}"
    digits = frame["air_flow", "beneath"]["ML"].strip("()").lstrip("0.")
    assert len(digits) == 4
    assert fits["short"].std_error.sel(coef="air_flow") < 0.1
    assert "-" not in cells(pr.table(fits, digits=1))["air_flow", "beneath"]["ML"]


def test_what_stands_beneath(fits):
    some = {k: fits[k] for k in ("ML", "posterior")}
    shown = cells(pr.table(some, beneath="interval", prob=0.9))
    ends = shown["air_flow", "beneath"]
    for name, fit in some.items():
        low, high = map(float, ends[name].strip("[]").split(", "))
        assert [low, high] == pytest.approx(
            fit.summary(0.9).loc["air_flow", ["lower", "upper"]].tolist(), abs=1e-3
        )
    p = cells(pr.table(some, beneath="p"))["water_temperature", "beneath"]
    assert [*p.values()] == ["p = 0.0026", "P(> 0) 0.999"]
    robust = pr.table(some, covariance="HC3")
    want = fits["ML"].summary(covariance="HC3").loc["air_flow", "std_error"]
    assert cells(robust)["air_flow", "beneath"]["ML"] == f"({want:.3f})"
    assert any("HC3 standard errors" in n for n in robust.notes)
    with pytest.raises(
        pr.DataError, match="names 'OLS', which is no fit of the table: ML, posterior"
    ):
        pr.table(some, covariance={"OLS": "HC3"})
    with pytest.raises(pr.Incompatible, match="not 'hpd'"):
        pr.table(some, kind="hpd")


def test_names_that_are_numbers_are_shown_as_texts():
    x = np.arange(40.0)
    by_level = pr.quantile_regression(x, x + np.sin(x), tau=[0.1, 0.5])
    found = pr.table(by_level, covariance={0.1: "expected"})
    assert [*found.to_pandas()] == ["0.1", "0.5"]
    named = {"0.1": by_level[0.1], "0.5": by_level[0.5]}
    same = pr.table(named, covariance={"0.1": "expected"})
    assert repr(found) == repr(same)
    with pytest.raises(
        pr.DataError, match=r"two fits have the same name as texts: 0\.1, '0\.1'"
    ):
        pr.table({0.1: by_level[0.1], "0.1": by_level[0.5]})


def test_lines_are_chosen_ordered_and_renamed(fits):
    found = pr.table(
        fits,
        keep=["acid_concentration", "air_flow"],
        rename={"air_flow": "Air"},
    )
    assert coefficients(found) == ["acid_concentration", "Air"]
    for how in ({"keep": "x"}, {"rename": {"x": "X"}}):
        with pytest.raises(
            pr.DataError,
            match="'x', which is no coefficient of these fits: Intercept, air_flow",
        ):
            pr.table(fits, **how)


@pytest.mark.parametrize("likelihood", covering(LIKELIHOOD_CASES, type), ids=None)
def test_every_likelihood_stands_in_a_table(likelihood):
    model = model_for(likelihood)
    fit = pr.fit(model)
    found = pr.table({"a": fit, "b": pr.fit(model.with_prior(pr.Normal(1.0)))})
    frame = cells(found)
    # the thresholds of ordered classes have the intercept among them
    names = fit.parameter_names[isinstance(likelihood, pr.Ordinal) :]
    assert coefficients(found)[0] == names[0]
    assert set(coefficients(found)) == set(names)
    nuisance = {k: v for k, (v, _) in fit.once(reported_parameters).scalars.items()}
    for name, value in nuisance.items():
        shown = fit.residual_sd if name == likelihood.noise_scale else value
        assert float(frame[name, ""]["a"]) == pytest.approx(shown, rel=1e-3)
    assert len(repr(found).splitlines()) <= 40


def test_thresholds_stand_in_place_of_the_intercept():
    found = pr.table(pr.fit(model_for(pr.Ordinal())))
    assert coefficients(found) == ["x1", "x2", "x3"]
    assert "0|1" in repr(found)


def test_outcomes_and_ratios():
    fit = pr.fit(model_for(pr.Categorical()))
    found = pr.table({"ML": fit}, keep="x1", rename={"x1": "dose"}, exp=True)
    assert coefficients(found) == ["dose: 1", "dose: 2"]
    value = fit.summary(exp=True).loc[("1", "x1"), "estimate"]
    assert cells(found)["dose: 1", ""]["ML"] == f"{value:.2f}"
    assert any("odds ratios" in n for n in found.notes)
    with pytest.raises(pr.Incompatible, match="differences, not ratios"):
        pr.table(pr.fit(SHORT), exp=True)


def test_a_smooth_function_is_one_line():
    x = np.linspace(0.0, 6.0, 50)
    data = {"x": x, "y": np.sin(x) + 0.1 * np.cos(40.0 * x)}
    found = pr.table(
        {
            "gam": pr.gam("y ~ s(x)", data),
            "line": pr.fit(pr.Model.from_formula("y ~ x", data)),
        }
    )
    assert coefficients(found) == ["Intercept", "x", "s(x)"]
    assert re.fullmatch(r"\d\.\d edf", cells(found)["s(x)", ""]["gam"])


def test_names_are_text_in_every_format():
    odd = "a|b_<i>$x\\"
    fit = pr.fit(
        pr.Model.from_arrays([1.0, 2.0, 4.0, 5.0], [1.0, 3.0, 2.0, -5.0], columns=[odd])
    )
    found = pr.table({"M&M": fit}, title="100 %")
    assert "<i>" not in found.to_html()
    assert "M&amp;M" in found.to_html()
    assert "M&amp;M" in found._repr_html_()
    latex = found.to_latex()
    assert r"a\textbar{}b\_$<$i$>$\$x\textbackslash{} & $-$" in latex
    assert r"100 \% & M\&M \\" in latex
    rows = [line for line in found.to_markdown().splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {3}
    assert odd in found.to_csv()


def test_a_long_table_folds_in_a_terminal_alone():
    X = np.random.default_rng(0).normal(size=(100, 30))
    found = pr.table(
        pr.fit(pr.Model.from_arrays(X, X.sum(1) + np.sin(np.arange(100.0))))
    )
    assert len(repr(found).splitlines()) <= 40
    assert "keep= chooses coefficients" in repr(found)
    assert "x30" in found.to_markdown()
    assert "x30" not in repr(found)


def test_responses_that_differ_are_named():
    other = pr.fit(pr.Model.from_formula("air_flow ~ water_temperature", STACK))
    found = pr.table({"a": pr.fit(SHORT), "b": other})
    assert found.columns[0].name == ""
    assert [n for n in found.notes if n.startswith("b models the mean of air_flow")]


def _parsed(latex: str) -> list[list[str]]:
    r"""The rows of the tabular as cells. Fails on braces, mathematics or environments that stay open, on rows of another number of
    cells than columns, on marks that LaTeX reads as its own, and on a row that begins as an argument of the \\ before it does."""
    bare = re.sub(r"\\[\\&%$#_{}]|\\[a-zA-Z]+", "", latex)
    assert bare.count("{") == bare.count("}")
    assert bare.count("$") % 2 == 0
    assert not re.search(r"[\\#_%^~|<>]", re.sub(r"\$[^$]*\$", "", bare))
    assert bare.isascii()
    opened: list[str] = []
    for word, name in re.findall(r"\\(begin|end)\{(\w+)\}", latex):
        assert word == "begin" or opened.pop() == name
        opened += [name] * (word == "begin")
    assert not opened
    (columns,) = re.findall(r"\\begin\{tabular\}\{(lr*)\}", latex)
    rows = [
        re.split(r"(?<!\\)&", line[:-2])
        for line in latex.splitlines()
        if line.endswith(r"\\")
    ]
    assert {len(row) for row in rows} == {len(columns)}
    assert not [row for row in rows if row[0].strip()[:1] in ("[", "*")]
    return [[cell.strip() for cell in row] for row in rows]


def test_latex_is_well_formed():
    g = np.repeat(np.arange(8), 6)
    table = {
        "y": np.sin(g) + np.cos(3.0 * np.arange(48)),
        "[kg]": np.cos(np.arange(48.0)),
        "g": g,
    }
    mixed = pr.fit(pr.Model.from_formula("y ~ `[kg]` + (1 | g)", table))
    plain = pr.ols("y ~ `[kg]`", table)
    rows = _parsed(
        pr.table(
            {"ML & co_2": plain, "50 % ≥ x^2": mixed}, beneath="interval"
        ).to_latex()
    )
    labels = [row[0] for row in rows]
    assert r"sd(Intercept \textbar{} g)" in labels
    assert "{}[kg]" in labels
    assert rows[0] == ["y", r"ML \& co\_2", r"50 \% $\geq$ x\textasciicircum{}2"]
    for found in (
        pr.table({"a": pr.fit(SHORT)}),
        pr.table({"ML": plain}, title="100 % {of} #1"),
    ):
        _parsed(found.to_latex())


def test_reference_levels_have_a_row_before_their_factor():
    birds = pr.load_dataset("penguins").dropna()
    fits = {
        "short": pr.logistic("sex ~ body_mass_g", birds),
        "long": pr.logistic("sex ~ body_mass_g + species * C(year)", birds),
    }
    plain = pr.table(fits)
    found = pr.table(fits, reference=True)
    rows = cells(found)
    assert rows["species[Adelie]", ""] == {"short": "", "long": "reference"}
    labels = coefficients(found)
    for base in ("species[Adelie]", "C(year)[2007]"):
        factor = base.partition("[")[0]
        assert labels[labels.index(base) + 1].startswith(f"{factor}[T.")
        labels.remove(base)
    assert labels == coefficients(plain)
    classes = pr.table({"m": pr.softmax("species ~ sex", birds)}, reference=True)
    assert "sex[female]: Gentoo" in coefficients(classes)
    sums = pr.ols("body_mass_g ~ C(species, Sum)", birds)
    assert coefficients(pr.table(sums, reference=True)) == coefficients(pr.table(sums))


def test_a_table_counts_events():
    birds = pr.load_dataset("penguins").dropna()
    weights = np.arange(len(birds)) % 3
    model = pr.Model.from_formula(
        "sex ~ body_mass_g", birds, likelihood="bernoulli", weights=weights
    )
    events = cells(pr.table(pr.fit(model)))["events", ""]
    assert [*events.values()] == [str(weights[birds["sex"] == "male"].sum())]
    data = {"t": [1.0, 2.0, 3.0, 5.0, 8.0, 8.0], "event": [1, 1, 0, 1, 1, 0]}
    times = pr.Model.from_formula("cens(t, event) ~ 1", data, likelihood="weibull")
    assert [*cells(pr.table(pr.fit(times)))["events", ""].values()] == ["4"]
    assert ("events", "") not in cells(pr.table(pr.fit(SHORT)))
    ends = {"low": [1.0, 2.0, 3.0, 4.0], "high": [2.0, 3.0, 4.0, np.inf]}
    between = pr.Model.from_formula("cens(lower=low, upper=high) ~ 1", ends)
    assert [*cells(pr.table(pr.fit(between)))["events", ""].values()] == ["3"]
    tobit = pr.Model.from_formula("cens(low, lower=2) ~ 1", ends)
    assert ("events", "") not in cells(pr.table(pr.fit(tobit)))


def test_a_word_file_has_the_cells_and_notes(tmp_path):
    table = pr.table(pr.fit(SHORT))
    try:
        import docx
    except ImportError:
        with pytest.raises(pr.Incompatible, match="python-docx"):
            table.to_word(tmp_path / "table.docx")
        return
    table.to_word(tmp_path / "table.docx")
    document = docx.Document(tmp_path / "table.docx")
    rows = [[cell.text for cell in row.cells] for row in document.tables[0].rows]
    assert rows == [[c.name for c in table.columns], *table.cells]
    assert [p.text for p in document.paragraphs] == [*table.notes]


def test_fits_with_other_levels_have_their_own_reference_rows():
    rows = pd.DataFrame({"y": np.arange(9.0) ** 1.5, "g": list("abcabcabc")})
    fits = {
        "all": pr.ols("y ~ g", rows),
        "without a": pr.ols("y ~ g", rows[rows["g"] != "a"]),
    }
    found = pr.table(fits, reference=True).to_pandas()
    assert found.loc["g[a]"].tolist() == ["reference", ""]
    assert found.loc["g[b]"].tolist() == ["", "reference"]
    kept = pr.table({"all": fits["all"]}, reference=True, keep="g[T.c]").to_pandas()
    assert kept.index[:2].tolist() == ["g[a]", "g[T.c]"]


def test_the_note_names_the_numbers_in_parentheses():
    ml = pr.fit(SHORT)
    exact = pr.fit(SHORT, "conjugate", seed=1)
    tables = [pr.table(fits) for fits in (ml, exact, {"ML": ml, "posterior": exact})]
    notes = [table.notes[0].lower() for table in tables]
    assert ["errors" in note for note in notes] == [True, False, True]
    assert ["posterior" in note for note in notes] == [False, True, True]

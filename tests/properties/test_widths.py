"""How wide a print is: every object that prints itself, of columns with long names, keeps to 110 columns."""

import ast
import pathlib
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg import online, scores
from probreg.system.terminal import WIDTH

pytestmark = pytest.mark.filterwarnings("ignore:.*:probreg.errors.ProbregWarning")
ROOT = pathlib.Path(pr.__file__).parent
PLAIN = {"arguments", "kernels"}  # rooms whose objects print as one expression
WORDS = {
    "Column",
    "DatasetColumn",
    "Assumption",
    "HypothesisTest",
    "ProbregError",
    "PrintsTable",
    "PrintsLines",
    "Note",
    "Likelihood",
    "GaussianByLink",
}  # sentences, which others print
LINES = 40  # of a print
RNG = np.random.default_rng(0)
N, P = 150, 30
NAMES = [
    f"a column whose name the provider of the table chose, number {j}, in units of 1000"
    for j in range(P)
]
RESPONSE = "the response of which the provider of the table says a great deal, in units of 1000"
X = RNG.normal(size=(N, P))
X[:, 1] = X[:, 0] + 0.001 * X[:, 1]
Y = X @ np.linspace(-1.0, 1.0, P) + X[:, 0] ** 2 + RNG.normal(size=N)
GROUP = np.resize([f"a level of some length, number {i}" for i in range(4)], N)


@cache
def model(prior=None, likelihood="gaussian") -> pr.Model:
    y = Y if likelihood == "gaussian" else (Y > 0).astype(float)
    settings = {
        "prior": pr.Flat() if prior is None else prior,
        "likelihood": likelihood,
    }
    return pr.Model.from_arrays(X, y, columns=NAMES, response=RESPONSE, **settings)


@cache
def fit(method="auto", prior=None, likelihood="gaussian") -> pr.Fit:
    return pr.fit(
        model(prior, likelihood),
        pr.NUTS(draws=100, tune=100, chains=2) if method == "nuts" else method,
    )


@cache
def factor() -> pr.Fit:
    table = pd.DataFrame({"y": Y, "g": GROUP, NAMES[2]: X[:, 2], NAMES[3]: X[:, 3]})
    return pr.ols(f"y ~ g + `{NAMES[2]}` + s(`{NAMES[3]}`)", table)


@cache
def levels() -> pr.Fit:
    return pr.ols(
        f"y ~ g + `{NAMES[2]}`", pd.DataFrame({"y": Y, "g": GROUP, NAMES[2]: X[:, 2]})
    )


def proper() -> pr.Model:
    priors = dict.fromkeys((*NAMES, "Intercept"), pr.Normal(0.3))
    return replace(model(), prior=priors, aux={"sigma": 1.0})


def _bayes() -> pr.Fit:
    return fit("posterior", pr.Normal(0.3))


SHOWN = {
    "model": lambda: model(),
    "weak prior": lambda: model("weak"),
    "design": lambda: model().design,
    "moments": lambda: model().design.moments,
    "moments by group": lambda: (
        pr.Model.from_formula("y ~ 1 + (1 | g)", {"y": Y, "g": GROUP}).moments
    ),
    "predictive": lambda: fit().predictive(),
    "run": lambda: online.run(online.lms(1e-4), X, Y),
    "fit": fit,
    "posterior": _bayes,
    "classes": lambda: fit(likelihood="bernoulli"),
    "factor": factor,
    "summary": lambda: _bayes().summary(),
    "check": lambda: pr.check(model()),
    "check, all": lambda: pr.check(model(), verbose=True),
    "diagnose": lambda: pr.diagnose(fit()),
    "diagnose, all": lambda: pr.diagnose(_bayes(), verbose=True),
    "compare": lambda: pr.compare({"ML": fit(), NAMES[0]: _bayes()}),
    "compare, three": lambda: pr.compare(
        {"ML": fit(), NAMES[0]: _bayes(), NAMES[1]: fit("auto", pr.Normal(0.1))}
    ),
    "explain": lambda: pr.explain(fit(), _bayes()),
    "table": lambda: pr.table(
        {f"{name} {i}": fit() for i, name in enumerate(NAMES[:12])}
    ),
    "table_one": lambda: pr.table_one({k: [1.0, 2.0, 4.0] for k in NAMES}),
    "compare_models": lambda: pr.compare_models({NAMES[0]: fit(), NAMES[1]: _bayes()}),
    "prior_weight": lambda: pr.prior_weight(_bayes()),
    "prior_predictive": lambda: model().prior_predictive(20),
    "prior_predictive, proper": lambda: model(pr.Normal(1.0)).prior_predictive(20),
    "penalty": lambda: model(pr.Normal(0.3)).penalty(sigma=1.0),
    "path": lambda: pr.path(model(pr.Normal(1.0)), [0.1, 1.0]),
    "tune": lambda: pr.tune(model(pr.Normal(1.0)), "loo", scales=[0.1, 1.0]),
    "slopes": lambda: pr.slopes(fit()),
    "predictions": lambda: pr.predictions(factor(), by="g"),
    "comparisons": lambda: pr.comparisons(levels(), {"g": "pairwise"}, adjust="holm"),
    "hypothesis": lambda: pr.hypothesis(
        fit(), f"`{NAMES[0]}` = `{NAMES[1]}` = `{NAMES[2]}` = 0"
    ),
    "hypothesis of a posterior": lambda: pr.hypothesis(
        _bayes(), f"`{NAMES[0]}` > `{NAMES[1]}`"
    ),
    "interval_panel": lambda: pr.interval_panel(
        {NAMES[0]: fit(), NAMES[1]: _bayes()}, NAMES[0], kinds=["wald", "HC3"]
    ),
    "guarantee": lambda: pr.guarantee(fit(), y_range=(-50.0, 50.0)),
    "conformal": lambda: pr.conformal(fit(), prob=0.8),
    "bias_variance": lambda: pr.bias_variance(
        model(pr.Normal(1.0)), fit(), scales=[0.5, 1.0], reps=2
    ),
    "list_datasets": pr.list_datasets,
    "card": lambda: pr.list_datasets()[0],
    "decompose": lambda: scores.decompose(
        np.arange(N) % 2, np.round(RNG.random(N), 1), bins=5
    ),
    "goal": lambda: scores.goal(
        np.arange(N) % 2, np.full(N, 0.5), truth=np.full(N, 0.4)
    ),
    "compare_forecasts": lambda: scores.compare_forecasts(
        np.arange(N) % 2, {NAMES[0]: np.full(N, 0.5), NAMES[1]: np.full(N, 0.4)}
    ),
    "bound": lambda: pr.bounds.finite(risk=0.1, n=1000, classes=100, delta=0.05),
    "bound of a line": lambda: pr.guarantee(fit(), y_range=(-50.0, 50.0)).lines[0],
    "online": lambda: pr.fit(model(likelihood="bernoulli"), "perceptron").guarantee(),
    "influence_measures": lambda: pr.influence_measures(fit()),
}
SLOW = {
    "coverage": lambda: pr.coverage(model(), fit(), reps=2, kinds=["wald", "HC3"]),
    "sbc": lambda: pr.sbc(proper(), "conjugate", reps=20),
    "nuts": lambda: fit("nuts", pr.Normal(0.3)),
    "diagnose of chains, all": lambda: pr.diagnose(
        fit("nuts", pr.Normal(0.3)), verbose=True
    ),
}


@cache
def made(name: str):
    return (SHOWN | SLOW)[name]()


def shown(name: str) -> str:
    return str(made(name))


@pytest.mark.parametrize(
    "name", [*SHOWN, *(pytest.param(k, marks=pytest.mark.slow) for k in SLOW)]
)
def test_no_print_is_wider_than_110_columns(name):
    lines = shown(name).splitlines()
    assert not [line for line in lines if len(line) > WIDTH]
    assert len(lines) <= LINES or name.endswith(", all")


def test_names_that_are_cut_stay_apart():
    """They differ in the middle alone, where they are cut."""
    for name in ("fit", "compare, three", "slopes"):
        labels = [
            line
            for line in shown(name).splitlines()
            if "…" in line and not line.startswith("… ")
        ]
        assert len(set(labels)) == len(labels) > 5
    assert "and 25 more" in " ".join(shown("weak prior").split()), (
        "a comma in a name parts nothing"
    )


@pytest.mark.slow
def test_every_object_that_prints_itself_is_among_them():
    lacking = []
    met = {type(made(name)).__name__ for name in SHOWN} | {"SBC", "Coverage"}
    for file in ROOT.rglob("*.py"):
        if file.relative_to(ROOT).parts[0] in PLAIN:
            continue
        code = file.read_text("utf-8")
        if "__repr__" not in code and "__str__" not in code:
            continue
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ClassDef) and node.name not in met | WORDS:
                own = {f.name for f in node.body if isinstance(f, ast.FunctionDef)}
                lacking += [f"{file.name}: {node.name}"] * bool(
                    own & {"__repr__", "__str__"}
                )
    assert not lacking

"""Names of other packages are answered by what does the same here, and all that the answers name exists."""

import inspect
import re
import shlex
from typing import Any

import pytest

import probreg as pr
from probreg import peers
from probreg.formula.expression import FUNCTIONS, OPTIONS
from probreg.inference import Method
from probreg.inference.uncertainty.covariance import DEFINITIONS
from probreg.show.cli.parser import build_parser
from tests.commands import run

TABLE = {"x": [0.0, 1.0, 2.0, 4.0], "y": [1.0, 2.0, 4.0, 3.0]}
FIT = pr.ols("y ~ x", TABLE)
MODULES = {name: getattr(pr, name.removeprefix("probreg.")) for name in peers.OF_MODULE}
ROOTS = {"probreg": pr, "fit": FIT, "model": FIT.model}
TABLES = {
    "of_fit": peers.OF_FIT,
    "of_model": peers.OF_MODEL,
    "of_package": peers.OF_PACKAGE,
    "keywords": peers.KEYWORDS,
    **peers.OF_MODULE,
}
REGISTRIES = {"method": pr.METHODS, "likelihood": pr.LIKELIHOODS, "prior": pr.PRIORS}


def names_in(advice: str) -> list[str]:
    return re.findall(r"\b(?:probreg|fit|model)(?:\.\w+)+", advice)


@pytest.mark.parametrize("table", TABLES)
def test_all_that_an_answer_names_exists(table: str) -> None:
    for advice in TABLES[table].values():
        for path in names_in(advice):
            root, *parts = path.split(".")
            thing = ROOTS[root]
            for part in parts:
                thing = getattr(thing, part)


@pytest.mark.parametrize(
    ("table", "owner"),
    [
        ("of_fit", FIT),
        ("of_model", FIT.model),
        ("of_package", pr),
        *MODULES.items(),
    ],
)
def test_no_peer_name_is_one_of_ours_and_each_is_answered(
    table: str, owner: Any
) -> None:
    for name, advice in TABLES[table].items():
        with pytest.raises(AttributeError, match=f"no attribute '{name}'") as caught:
            getattr(owner, name)
        assert str(caught.value).endswith(f"; use {advice}")


@pytest.mark.parametrize("kind", REGISTRIES)
def test_answers_of_registries_name_what_is_registered(kind: str) -> None:
    registry = REGISTRIES[kind]
    for name, advice in peers.REGISTERED[kind].items():
        with pytest.raises(pr.ProbregError, match=f"'{name}'; use "):
            registry[name]
        for text in re.findall(r"'([^']+)'", advice):
            assert registry.resolve(text) is not None


@pytest.mark.parametrize(
    ("name", "ours"), [*peers.REGISTERED["covariance"].items(), ("hc3", "'HC3'")]
)
def test_unknown_covariances_are_answered(name: str, ours: str) -> None:
    with pytest.raises(pr.DataError, match=f"'{name}'; .*{ours}"):
        FIT.covariance(name)
    for text in re.findall(r"'([^']+)'", ours):
        assert text in DEFINITIONS


FIT_COMMAND = ("fit", "challenger", "damage ~ temperature")


@pytest.mark.parametrize(("name", "ours"), peers.REGISTERED["option"].items())
def test_unknown_options_of_the_command_line_are_answered(name: str, ours: str) -> None:
    done = run(*FIT_COMMAND, name, "3")
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert f"no option is called '{name}'; use {ours}." in done.stderr
    if ours.startswith("--") and "," not in ours.partition(" ")[0]:
        build_parser().parse_args([*FIT_COMMAND, *shlex.split(ours)])


def test_a_misspelled_option_has_a_similar_one() -> None:
    done = run(*FIT_COMMAND, "--likelihod=gaussian")
    assert "'--likelihod'; did you mean '--likelihood'?" in done.stderr


def test_formula_functions_are_not_ours() -> None:
    assert not {*peers.FORMULA_FUNCTIONS} & {*FUNCTIONS, *OPTIONS}


def test_keywords_of_peers_are_answered() -> None:
    with pytest.raises(pr.Incompatible, match="takes no alpha=: use prob="):
        FIT.summary(alpha=0.1)
    with pytest.raises(
        pr.Incompatible, match=r"takes no trials=: use the response p\("
    ):
        pr.Model.from_formula("k ~ x", {"k": [1.0], "x": [1.0]}, trials="n")
    with pytest.raises(pr.Incompatible, match="takes no family=: use likelihood="):
        pr.Model.from_formula("y ~ x", TABLE, family="poisson")
    with pytest.raises(pr.Incompatible, match="takes no draws=: use a method with"):
        pr.fit(FIT.model, "nuts", draws=100)
    with pytest.raises(pr.Incompatible, match="Normal takes no mu=: use location="):
        pr.Normal(mu=0.0, sigma=1.0)
    # a wrong keyword is named before the one that is missing
    with pytest.raises(pr.Incompatible, match="bridge takes no C=: use scale="):
        pr.bridge("y ~ x", TABLE, C=1.0)
    with pytest.raises(pr.Incompatible, match="ols takes no formula=: use the formula"):
        pr.ols(formula="y ~ x", data=TABLE)
    for function in (pr.predictions, pr.comparisons, pr.slopes, FIT.predict):
        assert "data" in inspect.signature(function).parameters
        with pytest.raises(pr.Incompatible, match="takes no newdata=: use data="):
            function(*([] if function == FIT.predict else [FIT]), newdata=TABLE)


@pytest.mark.parametrize(
    ("formula", "written"),
    [
        ("y ~ poly(x, 2, raw=TRUE)", "y ~ poly(x, 2, raw=True)"),
        ("y ~ bs(x, degree=1, knots=c(1, 2))", "y ~ bs(x, degree=1, knots=[1, 2])"),
        ("y ~ pol(x)", "y ~ poly(x, 2)"),
        ("y ~ standardize(x)", "y ~ scale(x)"),
    ],
)
def test_spellings_of_r_are_answered_by_one_that_works(
    formula: str, written: str
) -> None:
    with pytest.raises(pr.DataError) as caught:
        pr.Model.from_formula(formula, TABLE)
    assert str(caught.value).rpartition("write ")[2] in written
    pr.Model.from_formula(written, TABLE)


def test_a_function_of_a_formula_far_from_ours_has_no_similar_name() -> None:
    with pytest.raises(pr.DataError, match="'lspline'; make it a column"):
        pr.Model.from_formula("y ~ lspline(x)", TABLE)


def test_an_error_inside_a_property_is_not_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(self: pr.Fit) -> None:
        raise AttributeError("inside")

    monkeypatch.setattr(pr.Fit, "nobs", property(fail))
    with pytest.raises(AttributeError, match="inside"):
        _ = FIT.nobs


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pr.NUTS(samples=100), "NUTS takes no samples=: use draws="),
        (lambda: pr.SGD(lr=0.1), "SGD takes no lr=: use rate="),
        (lambda: pr.Newton(max_iter=9), "Newton takes no max_iter=: use max_steps="),
        (lambda: pr.Bootstrap(rep=9), "Bootstrap takes no rep=: did you mean reps="),
        (lambda: pr.StudentT(df=4), "StudentT takes no df=: it takes nu"),
        (lambda: pr.Bernoulli(fun=1), "Bernoulli takes no fun=: it takes levels, link"),
    ],
)
def test_methods_and_likelihoods_name_their_settings(make, message):
    with pytest.raises(pr.Incompatible, match=message):
        make()


def test_a_method_with_an_initialiser_of_its_own_reads_its_arguments():
    class Plain(Method):
        obstacle = solve = None

        def __init__(self, first, second):
            self.settings = first, second

    assert Plain(1, 2).settings == (1, 2)

"""The public names: few, documented in one place, none twice, and no verb that an import turns into a module."""

import ast
import collections
import functools
import importlib
import pathlib
import pkgutil
import types

import pytest

import probreg as pr

ROOT = pathlib.Path(pr.__file__).parent
# A likelihood and a prior of one distribution share its name.
SHARED_CLASSES = {
    "StudentT": {"likelihoods/student.py", "priors/student.py"},
    "Exponential": {"likelihoods/survival.py", "priors/positive.py"},
    "Gamma": {"likelihoods/positive.py", "priors/positive.py"},
    "LogNormal": {"likelihoods/log_normal.py", "priors/positive.py"},
}
# A learner may have the name of the loss that it minimises, which is also that of the model with this likelihood.
SHARED_FUNCTIONS = {
    "logistic": {"online/recipes.py", "recipes.py"},
    "kernel": {"online/recipes.py", "scores/bounds/balls.py"},
}


@functools.cache
def parsed() -> dict[str, ast.Module]:
    return {
        path.relative_to(ROOT).as_posix(): ast.parse(path.read_text())
        for path in sorted(ROOT.rglob("*.py"))
    }


def places(kind: type[ast.AST]) -> dict[str, set[str]]:
    out = collections.defaultdict(set)
    for path, tree in parsed().items():
        nodes = ast.walk(tree) if kind is ast.ClassDef else tree.body
        for node in nodes:
            if isinstance(node, kind) and not node.name.startswith("_"):
                out[node.name].add(path)
    return {name: where for name, where in out.items() if len(where) > 1}


@pytest.mark.slow
def test_no_class_name_stands_twice():
    assert places(ast.ClassDef) == SHARED_CLASSES


@pytest.mark.slow
def test_no_public_function_name_stands_twice_but_a_picture_and_what_it_draws():
    met = places(ast.FunctionDef)
    pictures = {
        name
        for name, where in met.items()
        if len(where) == 2 and any(path.startswith("show/plot/") for path in where)
    }
    assert pictures <= set(pr.plot.__all__)
    assert {
        name: where for name, where in met.items() if name not in pictures
    } == SHARED_FUNCTIONS


def test_the_top_has_at_most_120_names_and_no_inner_module():
    assert sorted(pr.__all__) == sorted(set(pr.__all__))
    assert len(pr.__all__) <= 120
    assert sorted(dir(pr)) == sorted([*pr.__all__, "__version__"])
    modules = {
        name for name in pr.__all__ if isinstance(getattr(pr, name), types.ModuleType)
    }
    assert modules == {
        "bounds",
        "kernels",
        "likelihoods",
        "online",
        "plot",
        "priors",
        "scores",
        "weights",
    }


def test_a_name_that_is_not_there_is_an_attribute_error():
    assert not hasattr(pr, "nothing")
    assert not hasattr(pr, "_nothing")


def test_all_names_of_a_room_are_those_that_it_imports_on_use_too():
    found: dict[str, object] = {}
    exec("from probreg.inference import *", found)
    assert {"Newton", "NUTS", "Bootstrap", "METHODS"} <= set(found)


def test_every_public_name_is_documented():
    bare = [
        name for name in pr.__all__ if not (getattr(pr, name).__doc__ or "").strip()
    ]
    assert bare == []


@pytest.fixture(scope="module")
def everything():
    for found in pkgutil.walk_packages(pr.__path__, "probreg."):
        if found.name != "probreg.__main__":
            importlib.import_module(found.name)
    return {name: getattr(pr, name) for name in pr.__all__}


def test_verbs_are_verbs_after_every_module_is_imported(everything):
    verbs = {name for name in pr.__all__ if name.islower()} - {
        "bounds", "kernels", "likelihoods", "online", "plot", "priors", "scores", "weights"
    }  # fmt: skip
    assert {name for name in verbs if not callable(everything[name])} == set()


def test_verbs_can_be_called_after_every_module_is_imported(everything):
    data = pr.load_dataset("stackloss")
    model = pr.Model.from_formula("stack_loss ~ air_flow + water_temperature", data)
    fit, ridge = pr.fit(model), pr.fit(model.with_prior(pr.Normal(1.0)))
    assert pr.check(model).items
    assert pr.residuals(fit).sizes["obs"] == 21
    assert pr.compare({"ML": fit, "ridge": ridge}).fits
    assert pr.prior_weight(ridge).effective < 3
    assert pr.tune(model.with_prior(pr.Normal(1.0)), "aic").scale > 0
    assert pr.path(model.with_prior(pr.Normal(1.0)), n=3).data.sizes["scale"] == 3
    assert pr.interval_panel(fit, "air_flow", kinds=["t"]).table is not None
    assert pr.hypothesis(fit, "air_flow = 0").tests
    assert pr.predictions(fit).table is not None
    assert pr.influence_measures(fit).sizes["obs"] == 21
    assert pr.diagnose(fit).items


@pytest.mark.parametrize("room", ["kernels", "likelihoods", "priors", "scores"])
def test_a_room_lists_its_names_and_not_its_files(room):
    module = getattr(pr, room)
    assert not [
        name for name in dir(module) if isinstance(getattr(module, name), type(pr))
    ]
    assert len(dir(module)) > 10

"""Types that editors read: the names of methods and likelihoods are those of their registries, and the package carries its types."""

import ast
import inspect
import pathlib
import textwrap
from typing import get_args

import pytest

import probreg as pr
from probreg.arguments.scalars import parse_annotation
from probreg.inference import MethodName
from probreg.likelihoods import LikelihoodName

from .cases import own
from .test_docstrings import DOCUMENTED, MEMBERS

ROOT = pathlib.Path(pr.__file__).parent
# What has no type of its own here: options handed on, dask's and PyMC's objects, values of any variable, blocks of arrays.
FREE = {"options", "settings", "client", "blocks", "at", "variables", "aux"}
# A noise scale is a number, one per draw or one per row, as it was given.
OTHERS = {
    "Model.from_dask",
    "Model.to_pymc",
    "Model.from_blocks",
    "Model.noise",
}


@pytest.mark.parametrize(
    ("names", "registry"), [(MethodName, pr.METHODS), (LikelihoodName, pr.LIKELIHOODS)]
)
def test_the_literal_names_are_those_of_the_registry(names, registry):
    literal, _ = get_args(names)
    assert sorted(get_args(literal)) == sorted(own(registry))


def test_a_name_of_a_registry_is_read_by_the_registry():
    """The door lets any text pass, so that a name there is not is answered with the one that is meant."""
    assert parse_annotation(MethodName) is None
    with pytest.raises(pr.ProbregError, match="did you mean 'newton'"):
        pr.fit(pr.Model.from_arrays([0.0, 1.0, 2.0], [1.0, 2.0, 4.0]), "newtn")


def test_the_package_says_that_it_has_types():
    assert (ROOT / "py.typed").exists()


def loose(annotation: ast.expr | None) -> bool:
    return annotation is not None and any(
        isinstance(n, ast.Name) and n.id == "Any" for n in ast.walk(annotation)
    )


@pytest.mark.parametrize("name", sorted(DOCUMENTED | MEMBERS))
def test_no_public_argument_is_of_any_type_where_there_is_one(name):
    thing = (DOCUMENTED | MEMBERS)[name]
    found = inspect.unwrap(getattr(thing, "__func__", thing))
    tree = ast.parse(textwrap.dedent(inspect.getsource(found))).body[0]
    if isinstance(tree, ast.ClassDef):
        said = {
            n.target.id: n.annotation for n in tree.body if isinstance(n, ast.AnnAssign)
        }
    else:
        a = tree.args
        said = {
            p.arg: p.annotation
            for p in [*a.args, *a.kwonlyargs, a.vararg, a.kwarg]
            if p is not None
        }
        said["return"] = tree.returns
    anything = {k for k, v in said.items() if loose(v)} - FREE
    assert name in OTHERS or anything == set()

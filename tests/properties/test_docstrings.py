"""Laws of the docstrings of public names: a summary that is a sentence, every parameter named, what comes back, an example that runs."""

import dataclasses
import inspect
import pathlib
import re
import types

import pytest

import probreg as pr

from .cases import case

ERRORS = {"DataError", "Incompatible", "NotConverged", "ProbregError", "ProbregWarning"}
# A class that one inherits from shows its example where it is inherited from: docs/developer/method.md.
WITHOUT_EXAMPLE = {"Method"}
DOCUMENTED = {
    name: getattr(pr, name)
    for name in pr.__all__
    if name not in ERRORS and isinstance(getattr(pr, name), type | types.FunctionType)
}
MEMBERS = {
    f"{cls.__name__}.{name}": getattr(cls, name)
    for cls in (pr.Fit, pr.Model)
    for name in dir(cls)
    if not name.startswith("_")
    and callable(getattr(cls, name))
    and inspect.unwrap(getattr(cls, name)).__module__.startswith("probreg")
}
# The namespaces whose functions and classes of settings are held to the same; base classes and what they are told are not.
BASES = {"BlockPrior", "FisherPrior", "JointPrior", "Penalty", "PriorData", "joint"}
# What a run leaves behind, and what theorems are told: made by the package, said in attributes.
BASES |= {
    "KernelBasis",
    "RidgePath",
    "Guarantee",
    "Run",
    "State",
    "Totals",
}
NAMESPACES = {
    f"{room}.{name}": thing
    for room in ("bounds", "kernels", "online", "plot", "priors", "scores", "weights")
    for name in getattr(getattr(pr, room), "__all__", dir(getattr(pr, room)))
    if not name.startswith("_") and name not in BASES
    for thing in [getattr(getattr(pr, room), name)]
    if getattr(thing, "__module__", "").startswith("probreg")
    and (
        isinstance(thing, types.FunctionType)
        or (dataclasses.is_dataclass(thing) and isinstance(thing, type))
    )
    and (room != "weights" or name in ("precision", "sampling"))
}
HEADING = re.compile(r"^(\w[\w ]*)\n-{3,}$", re.MULTILINE)


def read(thing) -> tuple[str, dict[str, str]]:
    """The text before the first heading, and the text under each."""
    text, *rest = HEADING.split(inspect.getdoc(thing) or "")
    return text.strip(), dict(zip(rest[::2], rest[1::2], strict=True))


def parameters(thing) -> list[str]:
    """The names that a caller may write, stars as in the signature."""
    if dataclasses.is_dataclass(thing):
        return [f.name for f in dataclasses.fields(thing) if f.init]
    if isinstance(thing, type):
        return []
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    found = inspect.signature(thing).parameters.values()
    return [
        stars.get(p.kind, "") + p.name for p in found if p.name not in ("self", "cls")
    ]


def named(section: str) -> list[str]:
    """The entries of a section of parameters: `name : type`, or the name alone, at the margin."""
    return [
        line.split(" : ")[0].strip()
        for line in section.splitlines()
        if line and not line.startswith(" ")
    ]


ALL = DOCUMENTED | MEMBERS | NAMESPACES


def test_the_summary_is_one_line_that_ends_with_a_period():
    for name, thing in ALL.items():
        with case(name):
            text, _ = read(thing)
            summary, *rest = text.splitlines()
            assert summary.endswith("."), summary
            assert not rest or rest[0] == ""


def test_the_parameters_are_those_of_the_signature():
    for name, thing in ALL.items():
        with case(name):
            _, sections = read(thing)
            said = sections.get("Parameters", "")
            assert named(said) == parameters(thing)
            assert (
                re.findall(r"^(\S.*)\n(?! {4}\S)", said.strip() + "\n", re.MULTILINE)
                == []
            )  # not described


def test_a_function_says_what_it_returns():
    for name, thing in ALL.items():
        with case(name):
            if not isinstance(thing, type):
                assert read(thing)[1]["Returns"].strip()


def test_there_is_an_example():
    for name, thing in DOCUMENTED.items():
        with case(name):
            _, sections = read(thing)
            assert (">>> " in sections.get("Examples", "")) == (
                name not in WITHOUT_EXAMPLE
            )


def test_sections_are_in_the_order_that_readers_know():
    order = [
        "Parameters",
        "Attributes",
        "Returns",
        "Raises",
        "Notes",
        "References",
        "Examples",
    ]
    for name, thing in ALL.items():
        with case(name):
            headings = list(read(thing)[1])
            assert headings == sorted(headings, key=order.index)


SHARED = (
    "columns",
    "intercept",
    "prior",
    "aux",
    "event",
    "reference",
    "missing",
    "response",
    "progress",
)


def entries(thing) -> dict[str, str]:
    """The text of each parameter, its type included."""
    text = read(thing)[1]["Parameters"]
    return {
        entry.partition(" : ")[0]: entry.strip()
        for entry in re.split(r"\n(?=\S)", text.strip())
    }


@pytest.mark.parametrize("name", SHARED)
def test_what_the_ways_to_a_model_share_they_say_in_the_same_words(name):
    ways = [
        way
        for member, way in MEMBERS.items()
        if member.startswith("Model.from_") and name in parameters(way)
    ]
    assert len(ways) > 1
    assert len({entries(way)[name] for way in ways}) == 1
    assert len({str(inspect.signature(way).parameters[name]) for way in ways}) == 1


def test_the_law_sees_a_parameter_that_is_missing():
    def wrong(x, *, y):
        """Adds.

        Parameters
        ----------
        x : int
            One.
        """

    assert named(read(wrong)[1]["Parameters"]) == ["x"] != parameters(wrong)


def test_every_method_is_listed_where_people_look_for_it() -> None:
    root = pathlib.Path(__file__).parents[2]
    pages = [
        (root / page).read_text()
        for page in ("README.md", "docs/explanation/methods.md")
    ]
    for name in pr.METHODS:
        assert f'"{name}"' in str(pr.fit.__doc__), name
        assert all(f"`{name}`" in page for page in pages), name


def test_likelihoods_are_named_with_their_article() -> None:
    assert pr.likelihoods.AbsoluteLoss().named == "an absolute"
    assert pr.Poisson().named == "a poisson"
    with pytest.raises(pr.DataError, match="an AbsoluteLoss response is one column"):
        pr.Model.from_arrays(
            [[0.0], [1.0]], [[0.0, 1.0], [2.0, 1.0]], likelihood="absolute"
        )

"""Wrong arguments, one by one, of everything public that takes a number, a switch or a word.

The signatures are the list: what an argument may be is declared in its annotation (`probreg.arguments.scalars`), and every kind comes
with values that it is not. A public callable with a bare float, int or bool among its arguments fails here until it declares
what they are.
"""

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.arguments import scalars
from probreg.arguments.scalars import (
    Declared,
    LevelSequence,
    Number,
    NumberPair,
    NumberTable,
    parse_annotation,
)
from probreg.comparison.tuning import RegularisationPath
from probreg.comparison.tuning.criteria import CRITERIA
from probreg.diagnostics.conformal.conformal import KINDS
from probreg.inference import METHODS
from probreg.kernels import KERNELS
from probreg.likelihoods import LIKELIHOODS
from probreg.priors import (
    AUX_PRIORS,
    PRIORS,
    BetaPrime,
    MultivariateNormal,
    ScaleMixture,
)

from .cases import case

HUGE, LONG = 10**400, 10**5000  # beyond a float, and beyond what Python writes out
NO_NUMBER = [
    "a",
    b"1",
    {},
    [],
    object(),
    1j,
    None,
    True,
    np.bool_(True),
    float("nan"),
    np.array("x"),
    int,
]
WRONG: dict[str, list[Any]] = {
    "number": [*NO_NUMBER, [1.0, 2.0], np.ones((2, 2)), HUGE, LONG, -HUGE],
    "whole number": [
        *NO_NUMBER,
        [1, 2],
        2.5,
        1.0,
        np.float64(3.0),
        "3",
        -1,
        HUGE,
        LONG,
        float("inf"),
    ],
    "flag": [
        "yes",
        "",
        0,
        1,
        2.0,
        None,
        [],
        [True],
        float("nan"),
        np.array([True, False]),
        object(),
    ],
    "option": [
        "nothing like it",
        "",
        3,
        None,
        ["pairs"],
        float("nan"),
        np.array(["a", "b"]),
        True,
        object(),
    ],
    "name": [
        1,
        2.5,
        None,
        True,
        b"x",
        ["x"],
        {},
        (),
        np.array([1.0, 2.0]),
        float("nan"),
        object(),
        HUGE,
    ],
    "names": [
        1,
        2.5,
        None,
        True,
        b"x",
        ["x", 1],
        {"x": 1},
        np.ones((2, 2)),
        float("nan"),
        object(),
        HUGE,
    ],
    "per column": [
        *NO_NUMBER,
        HUGE,
        np.ones((2, 2)),
        ["a"],
        [1.0, None],
        [[1.0], [1.0, 2.0]],
        (1.0, float("nan")),
        [True],
    ],
    "pair": [
        *NO_NUMBER,
        1.0,
        (1.0,),
        (1.0, 2.0, 3.0),
        ("a", "b"),
        (1.0, float("inf")),
        (2.0, -1.0),
        np.ones((2, 2)),
    ],
    "levels": [
        "ab",
        b"ab",
        3,
        None,
        {},
        {"a", "b"},
        (),
        ("a",),
        ("a", "a", "b"),
        ("a", None),
        ("a", ("b",)),
        (1.0, float("nan")),
        np.ones((2, 2)),
        object(),
    ],
    "table": [
        "a",
        1.0,
        {},
        object(),
        True,
        [[1.0], [1.0, 2.0]],
        [["a"]],
        [[float("nan")]],
        np.ones((2, 2, 2)),
        [[1j]],
    ],
}


def label_of(kind: Any) -> str:
    if isinstance(kind, Number):
        if kind.per_column:
            return "per column"
        return "whole number" if kind.whole else "number"
    if isinstance(kind, NumberTable):
        return "table"
    if isinstance(kind, LevelSequence):
        return "levels"
    if isinstance(kind, NumberPair):
        return "pair"
    return "names" if kind.several else "name"


def wrong(known: Declared) -> Iterator[Any]:
    """Values that no kind of the argument lets pass."""
    if known.options:
        assert not known.kinds
        label = "flag" if (bool, True) in known.options else "option"
        yield from (v for v in WRONG[label] if not isinstance(v, known.classes))
        return
    kind, *others = known.kinds
    assert not others
    values = list(WRONG[label_of(kind)])
    if isinstance(kind, Number) and kind.per_column:
        if kind.low == 0.0:
            values += [0.0, -1.0, float("inf"), (1.0, -2.0), np.array([0.0, 1.0])]
    elif isinstance(kind, Number) and kind.whole:
        values += [int(kind.low) - 1, int(kind.high) + 1]
    elif isinstance(kind, Number):
        values += [kind.low - 1.0, kind.high + 1.0, kind.low, kind.high, np.inf]
        values = [v for v in values if not (type(v) is float and v in kind.ends)]
    for value in values:
        code = (
            type(value) is int
            and label_of(kind) == "whole number"
            and kind.low <= value <= kind.high
        )  # -1 is a code
        if not isinstance(value, known.classes) and not code:
            yield value


# ---- what is walked ------------------------------------------------------------------------------------------------

X = np.array(
    [
        [0.0, 1.0],
        [1.0, 0.5],
        [2.0, 3.0],
        [3.0, 1.0],
        [4.0, 4.0],
        [5.0, 0.0],
        [6.0, 2.0],
        [7.0, 7.0],
    ]
)
Y = np.array([1.0, 2.2, 2.9, 4.1, 4.8, 6.3, 6.9, 8.2])


@cache
def model() -> pr.Model:
    prior = {"Intercept": pr.Normal(5.0), "x1": pr.Normal(1.0), "x2": pr.Normal(1.0)}
    return pr.Model.from_arrays(X, Y, prior=prior, aux={"sigma": 0.5})


@cache
def fitted() -> pr.Fit:
    return pr.fit(pr.Model.from_arrays(X, Y))


@cache
def path() -> RegularisationPath:
    return pr.path(model(), [0.5, 1.0])


@cache
def run() -> pr.online.Run:
    return pr.online.run(pr.online.lms(0.01), X, Y, record=pr.online.Record(every=1))


# the arguments that go before the one that is wrong
NEEDS: dict[str, Callable[[], dict[str, Any]]] = {
    "of": lambda: {"of": {}},
    "effects": lambda: {"effects": ("Intercept",)},
    "sds": lambda: {"sds": (1.0,)},
    "model": lambda: {"model": model()},
    "fit": lambda: {"fit": fitted()},
    "fits": lambda: {"fits": {"a": fitted(), "b": fitted()}},
    "a": lambda: {"a": fitted()},
    "b": lambda: {"b": fitted()},
    "truth": lambda: {"truth": fitted()},
    "rng": lambda: {"rng": np.random.default_rng(0)},
    "x": lambda: {"x": X},
    "data": lambda: {"data": Y},
    "scale": lambda: {"scale": 1.0},
    "q": lambda: {"q": 1.0},
    "design": lambda: {"design": model().design},
    "likelihood": lambda: {"likelihood": pr.Gaussian()},
    "method": lambda: {"method": "conjugate"},
    "text": lambda: {"text": "x1 = 0"},
    "name": lambda: {"name": "sigma"},
    "learner": lambda: {"learner": pr.online.lms()},
    "X": lambda: {"X": X},
    "labels": lambda: {"labels": ["a", "b"] * 3},
    "y": lambda: {"y": Y},
    "s": lambda: {"s": Y},
    "d": lambda: {"d": Y},
    "e": lambda: {"e": Y},
    "w": lambda: {"w": Y},
    "m": lambda: {"m": 2},
    "loss": lambda: {"loss": pr.online.LOSSES["squared"]},
    "rate": lambda: {"rate": pr.online.constant(0.1)},
    "function": lambda: {"function": lambda f, y, c: (0.0, 0.0)},
    "base": lambda: {"base": pr.Normal(1.0)},
    "tau": lambda: {"tau": pr.HalfNormal(1.0)},
    "path": lambda: {"path": "nowhere.html"},
    "forecasts": lambda: {"forecasts": {"a": [0.5] * 8, "b": [0.4] * 8}},
    "forecast": lambda: {"forecast": [0.5] * 8},
    "times": lambda: {"times": [1.0]},
    "scores": lambda: {"scores": {"a": Y, "b": X[:, 0]}},
    "draws": lambda: {"draws": np.ones((3, 8))},
    "found": lambda: {"found": path()},
    "explanation": lambda: {"explanation": pr.explain(fitted(), pr.fit(model()))},
    "kernel": lambda: {"kernel": pr.kernels.RBF()},
    "entropy": lambda: {"entropy": 1.0},
    "mistakes": lambda: {"mistakes": 2.0},
    "rounds": lambda: {"rounds": 5},
    "x_norm": lambda: {"x_norm": 1.0},
    "u_norm": lambda: {"u_norm": 1.0},
    "spread": lambda: {"spread": 1.0},
    "step": lambda: {"step": 1.0},
    "comparator_loss": lambda: {"comparator_loss": 1.0},
    "distance": lambda: {"distance": 1.0},
    "largest": lambda: {"largest": 1.0},
    "K": lambda: {"K": np.eye(8)},
    "Phi": lambda: {"Phi": X},
    "coef": lambda: {"coef": "Intercept"},
    "lam": lambda: {"lam": 1.0},
    "C": lambda: {"C": 1.0},
    "epsilon": lambda: {"epsilon": 0.1},
    "parts": lambda: {"parts": (pr.kernels.RBF(),)},
    "risk": lambda: {"risk": 0.1},
    "n": lambda: {"n": 100},
    "classes": lambda: {"classes": 3},
    "complexity": lambda: {"complexity": 0.1},
    "dimension": lambda: {"dimension": 3},
    "norm": lambda: {"norm": 1.0},
    "width": lambda: {"width": 1.0},
    "columns": lambda: {"columns": 3},
    "groups": lambda: {"groups": 3},
    "row_norm": lambda: {"row_norm": 1.0},
    "half_width": lambda: {"half_width": 0.5},
    "divergence": lambda: {"divergence": 1.0},
    "losses": lambda: {"losses": Y / 10},
}
# the pictures of other results than a path
FOUND: dict[str, Callable[[], Any]] = {
    "probreg.plot.bias_variance": cache(
        lambda: pr.bias_variance(model(), fitted(), reps=2)
    ),
    "probreg.plot.regret": cache(lambda: pr.online.run(pr.online.lms(0.01), X, Y)),
    "probreg.plot.sbc": cache(lambda: pr.sbc(model(), "conjugate", 2)),
    "probreg.plot.tune": cache(lambda: pr.tune(model(), "evidence")),
}
# made by the package, from numbers that it has checked or computed
RESULTS = {
    "Bound", "RiskBounds", "TuningResult", "Comparison", "Fit", "RegularisationPath", "Run", "SBC", "Assumption", "Diverged", "Guarantee", "Info", "Lagged",
    "Regret", "State", "RunStatus", "StreamError", "Totals", "Decomposition", "Goal", "PairedComparison", "BlockPrior", "Hyper",
    "JointPrior", "KernelBasis", "RidgePath", "Penalty", "PriorData", "ValueGradHessian", "Recession", "joint",
}  # fmt: skip
METHODS_OF = {
    pr.Fit: (
        fitted,
        [
            "covariance",
            "interval",
            "aux_interval",
            "summary",
            "tidy",
            "effects",
            "smooth",
            "predict",
            "predictive",
            "survival",
            "inference_data",
            "save",
        ],
    ),
    pr.Model: (model, ["prior_predictive", "penalty"]),
    RegularisationPath: (path, ["model_at", "fit_at", "scale_at"]),
    pr.online.Run: (run, ["average", "draw"]),
}


def public() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every public function, dataclass and registered class, and the methods above of their instances."""
    for room in (
        pr,
        pr.bounds,
        pr.kernels,
        pr.online,
        pr.scores,
        pr.plot,
        pr.priors,
        pr.likelihoods,
    ):
        for name, thing in vars(room).items():
            own = getattr(thing, "__module__", "").startswith(
                "probreg"
            ) and not name.startswith("_")
            error = isinstance(thing, type) and issubclass(thing, Exception | Warning)
            if own and callable(thing) and not error and name not in RESULTS:
                yield f"{room.__name__}.{name}", thing
    for registry in (
        KERNELS,
        PRIORS,
        AUX_PRIORS,
        LIKELIHOODS,
        METHODS,
        CRITERIA,
        KINDS,
    ):
        for name, cls in registry.items():
            yield f"{registry.kind} {name}", cls
    for cls, (instance, names) in METHODS_OF.items():
        for name in names:
            yield f"{cls.__name__}.{name}", getattr(instance(), name)


SIGNATURES = {
    name: (thing, inspect.signature(thing))
    for name, thing in public()
    if not isinstance(thing, type)
    or (dataclasses.is_dataclass(thing) and not inspect.isabstract(thing))
}
DECLARED = [
    (name, parameter.name)
    for name, (_, signature) in SIGNATURES.items()
    for parameter in signature.parameters.values()
    if (known := parse_annotation(parameter.annotation)) is not None
    and (known.kinds or known.options)
]


def bare(annotation: Any) -> bool:
    """A number, a switch or a choice that does not say what it may be."""
    if parse_annotation(annotation) is not None:
        return False
    parts = scalars._union_members(annotation)
    return any(p in (float, int, bool) for p in parts)


# a class of a response is any value
FREE = {"reference"}


def test_every_number_and_switch_of_a_public_signature_says_what_it_may_be():
    missing = [
        f"{name}({p.name}: {p.annotation})"
        for name, (_, signature) in SIGNATURES.items()
        for p in signature.parameters.values()
        if bare(p.annotation) and p.name not in FREE
    ]
    assert not missing
    assert len(DECLARED) > 150  # the walk finds what there is


def call(name: str, argument: str, value: Any) -> Any:
    thing, signature = SIGNATURES[name]
    given = {}
    for p in signature.parameters.values():
        if (
            p.name != argument
            and p.default is p.empty
            and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        ):
            given |= NEEDS[p.name]()
    if name in FOUND and "found" in given:
        given["found"] = FOUND[name]()
    if name == "probreg.online.kernel" and "base" in given:
        given["base"] = pr.online.lms()
    return thing(**given, **{argument: value})


@pytest.mark.parametrize("name", list(dict.fromkeys(name for name, _ in DECLARED)))
def test_a_wrong_argument_is_named_with_its_value(name):
    for argument in [argument for of, argument in DECLARED if of == name]:
        with case(argument):
            known = parse_annotation(
                SIGNATURES[name][1].parameters[argument].annotation
            )
            assert known is not None
            for value in wrong(known):
                with pytest.raises(pr.DataError) as caught:
                    call(name, argument, value)
                said = str(caught.value)
                assert argument in said, said
                assert scalars.shown_value(value) in said, said


def test_what_is_no_model_fit_or_prior_is_named():
    asked = [
        (name, p.name)
        for name, (_, signature) in SIGNATURES.items()
        for p in signature.parameters.values()
        if (known := parse_annotation(p.annotation)) is not None
        and not (known.kinds or known.options)
    ]
    assert asked
    for name, argument in asked:
        with case(name, argument):
            for value in (3, object(), pr.Normal, pr.Model):
                with pytest.raises(
                    (pr.Incompatible, pr.DataError), match=f"{argument} is "
                ) as caught:
                    call(name, argument, value)
                assert scalars.shown_value(value) in str(caught.value)


# ---- what passes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("half", [0.5, np.float64(0.5), np.float32(0.5), np.array(0.5)])
def test_numbers_of_every_make_are_the_same_number(half):
    assert pr.Normal(half) == pr.Normal(0.5)
    assert type(pr.priors.StudentT(1.0, nu=half).nu) is float
    assert pr.Normal([half, 1]) == pr.Normal((0.5, 1.0))
    assert pr.fit(model()).interval(half).attrs["prob"] == 0.5


@pytest.mark.parametrize("make", [tuple, list, np.array, pd.Index, pd.array])
def test_levels_of_every_make_are_the_same_levels(make):
    for cls, levels in [(pr.Ordinal, (3, 2, 1)), (pr.Categorical, ("b", "a", "c")), (pr.Bernoulli, ("yes", "no"))]:  # fmt: skip
        assert cls(levels=make(levels)) == cls(levels=levels)
        assert str(cls(levels=make(levels))) == str(cls(levels=levels))


def test_whole_numbers_and_switches_of_numpy_pass():
    assert pr.NUTS(draws=np.int64(7)) == pr.NUTS(draws=7)
    assert pr.Normal(1.0, scaled=np.bool_(True)) == pr.Normal(1.0, scaled=True)
    assert pr.fit(model(), seed=np.uint8(3)).seed == 3


def test_registered_things_are_all_dataclasses_that_check_their_fields():
    for registry in (KERNELS, PRIORS, AUX_PRIORS, LIKELIHOODS, METHODS):
        assert {f"{registry.kind} {name}" for name in registry} <= set(SIGNATURES)
    assert {MultivariateNormal, ScaleMixture, BetaPrime} <= {
        thing for thing, _ in SIGNATURES.values()
    }

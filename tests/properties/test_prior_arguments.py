"""Arguments of priors: one by position where packages differ in the order, and text wherever a prior is taken."""

import dataclasses

import numpy as np
import pytest

import probreg as pr
from probreg.arguments.scalars import NamedSettings
from probreg.model.descriptions import describe_prior, prior_line
from probreg.priors import AUX_PRIORS, PRIORS, AuxPrior, Normal
from probreg.priors.text import parse_prior
from probreg.registry import Registry
from tests.properties.cases import AUX_CASES, PRIOR_CASES


def init(cls: type) -> list[dataclasses.Field]:
    return [f for f in dataclasses.fields(cls) if f.init]


def positional(cls: type) -> list[dataclasses.Field]:
    return [f for f in init(cls) if not f.kw_only]


ROOMS: dict[str, Registry] = {"prior": PRIORS, "prior of a scale": AUX_PRIORS}
ORDERED = [
    (room, name, cls)
    for room in ROOMS.values()
    for name, cls in room.items()
    if issubclass(cls, NamedSettings)
    and cls.name == name
    and len(positional(cls)) == 1 < len(init(cls))
]


@pytest.mark.parametrize(
    ("room", "name", "cls"), ORDERED, ids=lambda v: v if isinstance(v, str) else ""
)
def test_a_second_argument_by_position_is_refused(room, name, cls):
    with pytest.raises(pr.Incompatible) as error:
        cls(5.0, 2.0)
    assert f"by name: {init(cls)[1].name}" in str(error.value)
    with pytest.raises(pr.Incompatible) as error:
        room.parse(f"{name}(5.0, 2.0)")
    assert f"by name: {init(cls)[1].name}" in str(error.value)


def test_the_first_argument_is_the_scale():
    assert pr.Normal(5.0).scale == 5.0
    assert pr.Normal(5.0, location=2.0).location == 2.0
    assert pr.priors.LogNormal(0.5).location == 0.0
    assert pr.priors.LogNormal(0.5).scale == 0.5
    assert pr.priors.StudentT(2.5).nu == 4
    draws = pr.priors.Exponential(0.5).sample(np.random.default_rng(0), 100_000)
    assert draws.mean() == pytest.approx(0.5, abs=0.005)  # three standard errors


# settings by column or by group are not printed
WRITTEN = [
    p
    for p in (*PRIOR_CASES, *AUX_CASES)
    if p.name in {**PRIORS, **AUX_PRIORS}
    and not any(isinstance(v, tuple) for v in vars(p).values())
]


@pytest.mark.parametrize("prior", WRITTEN, ids=repr)
def test_a_printed_prior_can_be_read_again(prior):
    room = AUX_PRIORS if isinstance(prior, AuxPrior) else PRIORS
    read = room.parse(describe_prior(prior))
    for f in dataclasses.fields(prior):
        if f.name not in (
            "sigma_units",
            "scaled",
            "precision_matrix",
        ):  # printed in words after the call
            value = getattr(prior, f.name)
            # six digits are printed
            near = pytest.approx(value, rel=1e-5) if isinstance(value, float) else value
            assert getattr(read, f.name) == near


@pytest.mark.parametrize(
    "prior",
    [
        pr.priors.GroupLaplace(0.5, groups=(("x", "z"), ("f",))),
        {("x", "z", "f"): pr.priors.GroupLaplace(0.5)},
    ],
    ids=["stated groups", "terms of one prior"],
)
def test_a_prior_of_groups_of_different_sizes_is_described(prior):
    rows = {"x": [0.0, 1.0, 3.0, 2.0], "z": [1.0, 0.0, 1.0, 2.0], "f": list("abcc")}
    rows["y"] = [1.0, 2.0, 0.0, 1.0]
    model = pr.Model.from_formula("y ~ x + z + f", rows, prior=prior)
    assert "GroupLaplace(0.5" in prior_line(model)


X = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]])
y = np.array([1.0, 3.0, 2.0, 5.0, 4.0])
TABLE = {"y": y, "x": X[:, 0]}
TEXT = {"prior": "normal(2, location=1)", "aux": {"sigma": "exponential(0.5)"}}
OBJECTS = {
    "prior": pr.Normal(2.0, location=1.0),
    "aux": {"sigma": pr.priors.Exponential(0.5)},
}
ENTRIES = [
    lambda given: pr.Model.from_formula("y ~ x", TABLE, **given),
    lambda given: pr.Model.from_arrays(X, y, **given),
    lambda given: pr.Model.from_moments(
        pr.Model.from_formula("y ~ x", TABLE).moments, **given
    ),
    lambda given: (
        pr.Model.from_formula("y ~ x", TABLE)
        .with_prior(given["prior"])
        .with_aux(**given["aux"])
    ),
    lambda given: pr.Model.from_formula(
        "y ~ x", TABLE, prior={"x": given["prior"]}, aux=given["aux"]
    ),
]


@pytest.mark.parametrize("entry", ENTRIES)
def test_text_and_object_give_the_same_model(entry):
    by_text, by_object = entry(TEXT), entry(OBJECTS)
    assert by_text.prior == by_object.prior
    assert by_text.aux == by_object.aux
    assert pr.fit(by_text).coef.equals(pr.fit(by_object).coef)


@pytest.mark.parametrize("method", ["auto", "evidence", "integrate", "posterior"])
def test_text_of_unknown_scales_and_groups(method):
    rng = np.random.default_rng(1)
    data = {
        "y": rng.normal(size=24),
        "x": rng.normal(size=24),
        "g": np.repeat(list("abcdef"), 4),
    }
    text = {
        "x": "normal(half_normal(1))",
        "x | g": pr.Covariance(sd={"x": "exponential(2)"}, cor="lkj(2)"),
    }
    objects = {
        "x": Normal(pr.HalfNormal(1.0)),
        "x | g": pr.Covariance(sd={"x": pr.priors.Exponential(2.0)}, cor=pr.LKJ(2.0)),
    }
    whole = {
        "x": "normal(half_normal(1))",
        "x | g": "covariance(exponential(2), cor=lkj(2))",
    }
    models = [
        pr.Model.from_formula("y ~ x + (x | g)", data, prior=p) for p in (text, objects)
    ]
    assert models[0].prior == models[1].prior
    assert (
        pr.Model.from_formula("y ~ x + (x | g)", data, prior=whole).prior
        != models[0].prior
    )
    if method in ("auto", "evidence"):
        assert pr.fit(models[0], method).coef.equals(pr.fit(models[1], method).coef)


def test_text_in_every_field_that_takes_a_prior():
    half = pr.HalfNormal(1.0)
    assert pr.priors.GPrior("half_normal(1)").g == half
    assert pr.Covariance("half_normal(1)").sd == half
    process = pr.priors.GaussianProcess(
        amplitude="half_normal(1)", length="log_normal(0.5, location=1)"
    )
    assert process.amplitude == half
    assert process.length == pr.priors.LogNormal(0.5, location=1.0)
    assert (
        parse_prior("gp(x)=gaussian_process(length=half_normal(1))")["gp(x)"].length
        == half
    )
    for cls in (
        Normal,
        pr.Laplace,
        pr.priors.StudentT,
        pr.priors.Cauchy,
        pr.priors.ElasticNet,
    ):
        assert cls("half_normal(1)").scale == half


def test_prints_show_which_scale_is_meant():
    aux = {"alpha": pr.priors.Exponential(0.5)}
    counts = {"k": [1, 2, 4, 9, 3], "x": [0.0, 1.0, 2.0, 3.0, 4.0]}
    model = pr.Model.from_formula(
        "k ~ x", counts, likelihood="negative_binomial", aux=aux
    )
    assert "Exponential(scale=0.5)" in str(model)
    assert "Exponential(scale=0.5)" in str(pr.fit(model))

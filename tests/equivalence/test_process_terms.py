"""A Gaussian process as a term of a formula: equal to the process itself, and to the same columns given as arrays."""

import contextlib
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.data.array_columns import design_of_kernel
from probreg.data.formula.functions import variables
from probreg.likelihoods import Gaussian
from probreg.model.model import Model

X = np.array([0.0, 1.0, 2.0, 4.0])
Y = np.array([0.0, 1.0, 0.0, 2.0])
NEW = np.array([1.5, 3.0, 10.0])
TABLE = {"x": X, "y": Y}
# alpha = (K + lam I)^-1 y and f(s) = k(s, x) alpha for k = exp(-(x - z)^2 / 2), lam = 0.1, from these formulas.
ALPHA = np.array([-1.049735515478, 2.198114845794, -1.323913544159, 1.959186828456])
MEAN = np.array([0.516761377392, 0.671133711257, 2.98e-8])


def toy(formula="y ~ 0 + gp(x, length=1.0)", lam=0.1, table=TABLE):
    return pr.Model.from_formula(
        formula, table, prior={"gp(x)": pr.Normal(1)}, aux={"sigma": lam**0.5}
    )


def test_a_term_of_known_length_is_the_process():
    fit = pr.fit(toy())
    np.testing.assert_allclose(
        fit.predict({"x": NEW})["mean"], MEAN, rtol=1e-9, atol=1e-9
    )
    # f = phi beta and f = K alpha: alpha = T beta at the anchors
    term = fit.model.design.recipe.processes["gp(x, length=1.0)"]
    order = np.argsort(term.basis.anchors[:, 0])
    np.testing.assert_allclose(
        (term.basis.T @ fit.solution.beta)[order, 0], ALPHA, rtol=1e-9
    )


def test_a_free_offset_stands_beside_a_process():
    fit = pr.fit(toy("y ~ gp(x, length=1.0)"))
    assert abs(fit.solution.beta[0, 0] - 0.756207254755) < 1e-9
    np.testing.assert_allclose(
        fit.predict({"x": NEW})["mean"],
        [0.544657853082, 0.732766888650, 0.756207275053],
        atol=1e-9,
    )


@pytest.mark.parametrize(
    ("lam", "evidence"), [(0.1, -6.516582864717627), (1.0, -6.286395546779472)]
)
def test_the_columns_have_the_evidence_of_the_process(lam, evidence):
    design = toy().design
    path = pr.kernels.ridge_path_of_columns(design.X, design.y, offset=False)
    np.testing.assert_allclose(path.log_evidence(lam, lam), evidence, rtol=1e-9)


def test_rows_that_occur_twice_count_twice_and_have_one_anchor():
    twice = {"x": np.repeat(X, 2), "y": np.repeat(Y, 2)}
    one = pr.Model.from_formula(
        "y ~ gp(x, length=1.0)",
        TABLE,
        prior={"gp(x)": pr.Normal(1)},
        weights=[2] * 4,
        aux={"sigma": 1},
    )
    two = pr.fit(toy("y ~ gp(x, length=1.0)", 1.0, twice))
    assert two.model.design.recipe.processes["gp(x, length=1.0)"].basis.size == 4
    np.testing.assert_allclose(
        two.predict({"x": NEW})["mean"],
        pr.fit(one).predict({"x": NEW})["mean"],
        rtol=1e-10,
    )


# ---- what a formula says -------------------------------------------------------------------------------------------------

RNG = np.random.default_rng(3)
PLANE = {
    "a": RNG.uniform(0, 3, 20),
    "b": RNG.uniform(0, 3, 20),
    "g": np.tile(["u", "v"], 10),
    "y": RNG.normal(size=20),
}
AB = np.column_stack([PLANE["a"], PLANE["b"]])
KERNELS = {
    "": pr.kernels.RBF(2.0),
    "kernel='RBF'": pr.kernels.RBF(2.0),
    "kernel='matern12'": pr.kernels.Matern(2.0, 0.5),
    "kernel='matern32'": pr.kernels.Matern(2.0, 1.5),
    "kernel='matern52'": pr.kernels.Matern(2.0, 2.5),
    "kernel='matern', nu=2.5": pr.kernels.Matern(2.0, 2.5),
    "kernel='rational_quadratic', alpha=0.5": pr.kernels.RationalQuadratic(2.0, 0.5),
    "kernel='periodic', period=1.5": pr.kernels.Periodic(1.5, 2.0),
    "kernel='linear'": pr.kernels.Linear(),
    "kernel='polynomial', degree=3, offset=0.5": pr.kernels.Polynomial(3, 0.5),
}


@pytest.mark.parametrize("options", KERNELS)
def test_every_covariance_function_of_a_formula_is_the_one_of_that_name(options):
    k = KERNELS[options]
    stated = ", ".join(filter(None, (options, "length=2.0" * ("length" in k.hyper))))
    design = pr.Model.from_formula(
        f"y ~ 0 + gp(a, b, {stated})", PLANE, prior={"gp(a, b)": pr.Normal(1)}
    ).design
    np.testing.assert_array_equal(design.X, pr.kernels.basis(k, AB).columns_at(AB))
    (term,) = design.recipe.processes.values()
    assert (term.length_known, term.short, term.inputs) == (
        True,
        "gp(a, b)",
        ("a", "b"),
    )
    # nothing is left to say of an exact basis of a stated length
    assert design.notes == ()


def test_a_length_per_column_and_in_standard_deviations():
    each = pr.Model.from_formula("y ~ 0 + gp(a, b, length=[1.0, 3.0])", PLANE).design
    np.testing.assert_allclose(
        each.X @ each.X.T, pr.kernels.RBF((1.0, 3.0))(AB), atol=1e-9
    )
    scaled = pr.Model.from_formula(
        "y ~ 0 + gp(a, b, length=0.7, scaled=True)", PLANE
    ).design
    np.testing.assert_allclose(
        scaled.X @ scaled.X.T, pr.kernels.RBF(0.7)(AB / AB.std(0, ddof=1)), atol=1e-9
    )


def test_a_covariance_function_of_ones_own_has_its_name_in_formulas(monkeypatch):
    monkeypatch.setitem(
        pr.kernels.KERNELS._classes,
        "own",
        type("Own", (pr.kernels.Periodic,), {"name": "own"}),
    )
    design = pr.Model.from_formula(
        "y ~ 0 + gp(a, kernel='own', period=2.0, length=1.0)", PLANE
    ).design
    np.testing.assert_array_equal(
        design.X,
        pr.kernels.basis(pr.kernels.Periodic(2.0, 1.0), AB[:, :1]).columns_at(
            AB[:, :1]
        ),
    )


BASES = {
    "basis='cholesky', tol=1e-3": ("cholesky", {"tol": 1e-3}),
    "basis='cholesky', size=4": ("cholesky", {"size": 4}),
    "basis='hsgp', range=[(0, 4), (0, 3)], tol=0.01": (
        "hsgp",
        {"range": [(0, 4), (0, 3)], "tol": 0.01},
    ),
    "range=(-1, 4), half_width=5": ("hsgp", {"range": (-1, 4), "half_width": 5}),
    "basis='hsgp', size=[3, 4]": ("hsgp", {"size": [3, 4]}),
}


@pytest.mark.parametrize("options", BASES)
def test_every_basis_of_a_formula_is_the_one_of_that_name_and_says_its_error(options):
    kind, settings = BASES[options]
    design = pr.Model.from_formula(
        f"y ~ 0 + gp(a, b, length=2.0, {options})", PLANE
    ).design
    found = pr.kernels.basis(pr.kernels.RBF(2.0), AB, kind, **settings)
    np.testing.assert_array_equal(design.X, found.columns_at(AB))
    assert design.notes == (f"gp(a, b): {found.error_words}",)


def test_a_length_that_is_not_stated_starts_at_the_median_distance_and_a_note_says_so():
    design = pr.Model.from_formula("y ~ gp(a, b)", PLANE).design
    (term,) = design.recipe.processes.values()
    gaps = np.sqrt(np.square(AB[:, None] - AB[None]).sum(-1))[np.triu_indices(20, 1)]
    assert not term.length_known
    np.testing.assert_allclose(term.basis.kernel.length, np.median(gaps), rtol=1e-12)
    assert design.notes == (
        f"gp(a, b): no length is stated; its columns have {np.median(gaps):.4g}, unless its prior has lengths of its own",
    )
    other = design.with_basis(
        term.key, pr.kernels.basis(pr.kernels.RBF(9.0), AB, "cholesky", size=3)
    )
    assert [note.split(";")[0] for note in other.notes[1:]] == [
        "gp(a, b): no length is stated"
    ]
    assert "have 9," in other.notes[1]
    assert other.notes[0].startswith(
        "gp(a, b): cholesky: 3 columns leave a mean variance of"
    )


@pytest.mark.parametrize(
    ("options", "kind"),
    [("", "hsgp"), ("length=40.0", "cholesky"), ("kernel='linear'", "cholesky")],
)
def test_more_than_2000_rows_have_a_smaller_basis(options, kind):
    table = {"x": np.linspace(0.0, 100.0, 2001), "y": np.arange(2001.0)}
    design = pr.Model.from_formula(f"y ~ gp(x, {options})", table).design
    assert [term.basis.kind for term in design.recipe.processes.values()] == [kind]


def test_two_processes_beside_a_smooth_function_and_a_factor():
    formula = "y ~ g + gp(a, length=1.0) + gp(b, kernel='matern32') + s(b, k=5)"
    model = pr.Model.from_formula(formula, PLANE, prior={"gp(b)": pr.Normal(2.0)})
    called = {
        model.design.describe_columns(block.columns): block.prior
        for block in model.joint.blocks
    }
    assert called["gp(b, kernel='matern32')"] == pr.Normal(2.0)
    assert {"gp(a, length=1.0)", "s(b, k=5)"} < set(called)
    assert model.design.of_terms.sum() == len(model.design.columns) - 2
    assert np.isfinite(pr.fit(model.with_aux(sigma=0.5)).predict(PLANE)["mean"]).all()


def test_the_sum_of_two_processes_is_the_process_of_the_sum():
    apart = pr.Model.from_formula(
        "y ~ 0 + gp(a, kernel='matern12', length=1.0) + gp(b, kernel='matern32', length=2.0)",
        PLANE,
        prior={"gp(a)": pr.Normal(1), "gp(b)": pr.Normal(1)},
    )
    k = pr.kernels.Matern(1.0, 0.5).on("a") + pr.kernels.Matern(2.0, 1.5).on("b")
    whole = Model(
        replace(
            design_of_kernel(AB, k, columns=["a", "b"], intercept=False), y=PLANE["y"]
        ),
        Gaussian(),
    )
    new = {"a": [0.5, 2.0], "b": [1.0, 9.0]}
    fits = [
        pr.fit(m.with_aux(sigma=0.3))
        for m in (apart, whole.with_prior({"gp(a, b)": pr.Normal(1)}))
    ]
    np.testing.assert_allclose(*(fit.predict(new)["mean"] for fit in fits), rtol=1e-9)


def test_two_processes_of_the_same_inputs_are_told_apart_by_their_options():
    formula = "y ~ gp(a, length=1.0) + gp(a, length=0.1)"
    with pytest.raises(
        pr.DataError,
        match=r"may be gp\(a, length=1.0\) or gp\(a, length=0.1\): write the term with",
    ):
        pr.Model.from_formula(formula, PLANE, prior={"gp(a)": pr.Normal(1)})
    model = pr.Model.from_formula(
        formula, PLANE, prior={"gp( a,length=0.1)": pr.Normal(3.0)}
    )
    assert pr.Normal(3.0) in [block.prior for block in model.joint.blocks]


def test_the_same_process_of_an_array():
    design = replace(design_of_kernel(X, pr.kernels.RBF(1.0), intercept=False), y=Y)
    fit = pr.fit(Model(design, Gaussian(), prior=pr.Normal(1), aux={"sigma": 0.1**0.5}))
    np.testing.assert_allclose(
        fit.predict(NEW[:, None])["mean"], MEAN, rtol=1e-9, atol=1e-9
    )
    assert design.columns == tuple(f"gp(x1)[{j}]" for j in range(1, 5))


@pytest.mark.parametrize("arrays", [False, True])
def test_another_basis_replaces_the_columns_and_nothing_else(arrays):
    design = (
        replace(design_of_kernel(X, pr.kernels.RBF(1.0)), y=Y)
        if arrays
        else toy("y ~ gp(x, length=1.0)").design
    )
    (key,) = design.recipe.processes
    other = pr.kernels.basis(pr.kernels.RBF(3.0), X, "cholesky", size=2)
    found = design.with_basis(key, other)
    assert found.columns == ("Intercept", f"{key}[1]", f"{key}[2]")
    np.testing.assert_array_equal(found.X[:, 1:], other.columns_at(X))
    np.testing.assert_array_equal(found.is_intercept, [True, False, False])
    new = NEW[:, None] if arrays else {"x": NEW}
    np.testing.assert_array_equal(found.at(new).X[:, 1:], other.columns_at(NEW))
    np.testing.assert_array_equal(found.at(new).inputs[key], NEW[:, None])
    np.testing.assert_array_equal(
        found.take(np.array([2, 0])).inputs[key], X[[2, 0], None]
    )


def test_inputs_follow_rows_that_are_dropped_or_have_no_weight():
    table = {
        "x": [0.0, np.nan, 1.0, 2.0, 4.0],
        "y": [0.0, 3.0, 1.0, 0.0, 2.0],
        "w": [1, 1, 0, 2, 1],
    }
    design = pr.Model.from_formula(
        "y ~ gp(x, length=1.0)", table, weights="w", missing="drop"
    ).design
    (key,) = design.inputs
    np.testing.assert_array_equal(design.inputs[key][:, 0], [0.0, 2.0, 4.0])
    other = design.with_basis(key, pr.kernels.basis(pr.kernels.RBF(3.0), X))
    np.testing.assert_allclose(
        other.X[:, 1:],
        other.recipe.processes[key].columns_at(design.inputs[key]),
        atol=1e-12,
    )


def test_variables_are_read_back_from_what_enters_a_process():
    of_array = replace(design_of_kernel(X, pr.kernels.RBF(1.0)), y=Y)
    for design, name in ((toy("y ~ gp(x, length=1.0)").design, "x"), (of_array, "x1")):
        (found,) = variables(design).items()
        assert found[0] == name
        np.testing.assert_array_equal(found[1], X)


@pytest.mark.parametrize("rows", [False, True])
def test_stated_settings_of_sines_hold_at_an_unknown_length(rows, tmp_path):
    x = np.linspace(0.0, 10.0, 40)
    noise = 0.3 * np.random.default_rng(2).normal(size=40)
    table = {"x": x, "y": np.sin(x) + noise}

    def made(settings):
        model = pr.Model.from_formula(f"y ~ gp(x, basis='hsgp'{settings})", table)
        (term,) = model.design.recipe.processes.values()
        return model, term.basis

    assert made(", size=20")[1].size == 20
    assert made(", half_width=12.5")[1].half_width == 12.5
    assert made(", tol=0.1")[1].size < made("")[1].size
    fit = pr.fit(made(", size=20, half_width=12.5")[0])
    loaded = pr.load_fit(fit.save(tmp_path / "fit.nc", rows=rows))
    assert loaded.predict({"x": NEW[:2]}).equals(fit.predict({"x": NEW[:2]}))
    if rows:
        np.testing.assert_allclose(pr.fit(loaded.model).coef, fit.coef, rtol=1e-9)


# ---- files ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    ["", ", basis='cholesky', size=3", ", basis='hsgp', range=(0, 10)"],
)
def test_a_saved_term_predicts_the_same_and_says_whether_it_holds_rows(
    tmp_path, options
):
    fit = pr.fit(toy(f"y ~ 0 + gp(x, length=1.0{options})"))
    holds = "hsgp" not in options
    context = (
        pytest.warns(pr.ProbregWarning, match="holds rows of x")
        if holds
        else contextlib.nullcontext()
    )
    with context:
        fit.save(tmp_path / "fit.nc")
    again = pr.load_fit(tmp_path / "fit.nc")
    assert again.predict({"x": NEW}).equals(fit.predict({"x": NEW}))
    assert again.model.design.notes == fit.model.design.notes
    assert "no rows, since" in again.model.design.rows_absent


@pytest.mark.parametrize("weights", [None, [1, 0, 2, 1]])
def test_rows_that_are_saved_come_with_what_enters_each_process(tmp_path, weights):
    model = pr.Model.from_formula(
        "y ~ gp(x, length=1.0) + gp(z, length=2.0)",
        TABLE | {"z": [1.0, 3.0, 2.0, 0.0]},
        weights=weights,
        aux={"sigma": 0.5},
    )
    again = pr.load_fit(pr.fit(model).save(tmp_path / "fit.nc", rows=True)).model.design
    kept, design = again.inputs, model.design.inputs
    assert list(kept) == list(design) == ["gp(x, length=1.0)", "gp(z, length=2.0)"]
    for key, x in design.items():
        np.testing.assert_array_equal(kept[key], x)


def test_a_saved_process_of_an_array_predicts_the_same(tmp_path):
    design = replace(
        design_of_kernel(X, pr.kernels.RBF(1.0).on("x1"), intercept=True), y=Y
    )
    fit = pr.fit(Model(design, Gaussian()).with_prior(pr.Normal(1.0)))
    with pytest.warns(pr.ProbregWarning, match=r"gp\(x1\): the file holds rows"):
        fit.save(tmp_path / "fit.nc")
    again = pr.load_fit(tmp_path / "fit.nc")
    assert again.predict(NEW[:, None]).equals(fit.predict(NEW[:, None]))


# ---- rows that are read by the block -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", ["basis='hsgp', range=(0, 10), length=1.0", "range=(0, 10)"]
)
def test_rows_of_files_have_the_columns_of_rows_in_memory(tmp_path, options):
    table = pd.DataFrame({"x": np.linspace(0.0, 9.0, 90), "y": np.cos(np.arange(90.0))})
    table.to_csv(tmp_path / "rows.csv", index=False)
    formula, prior = f"y ~ gp(x, {options})", {"gp(x)": pr.Normal(1)}
    there = pr.Model.from_files(formula, tmp_path / "rows.csv", prior=prior)
    here = pr.Model.from_formula(formula, table, prior=prior)
    assert there.design.columns == here.design.columns
    assert there.design.notes == here.design.notes
    np.testing.assert_allclose(
        pr.fit(there).predict({"x": NEW})["mean"],
        pr.fit(here).predict({"x": NEW})["mean"],
        rtol=1e-9,
    )
    # as to the workers of a cluster
    travelled = pickle.loads(pickle.dumps(there.design.recipe))
    np.testing.assert_array_equal(
        travelled.matrix({"x": NEW}), there.design.recipe.matrix({"x": NEW})
    )


def test_rows_of_files_have_sines_unless_a_basis_is_named(tmp_path):
    table = pd.DataFrame(
        {"x": np.linspace(0.0, 9.0, 30), "z": np.arange(30.0) % 7, "y": np.arange(30.0)}
    )
    table.to_csv(tmp_path / "rows.csv", index=False)
    design = pr.Model.from_files("y ~ gp(x, length=2.0)", tmp_path / "rows.csv").design
    (term,) = design.recipe.processes.values()
    assert term.basis.kind == "hsgp"
    np.testing.assert_allclose(term.basis.ends, [[0.0, 9.0]])
    with pytest.raises(pr.DataError, match=r"gp\(x, z, x \+ z, sqrt\(z\).*4 inputs"):
        pr.Model.from_files(
            "y ~ gp(x, z, x + z, sqrt(z), length=5.0)", tmp_path / "rows.csv"
        )


def test_a_print_shows_a_process_as_one_line():
    fit = pr.fit(toy("y ~ gp(x, length=1.0)"))
    for text in (repr(fit), fit._repr_html_(), repr(fit.model)):
        assert "gp(x, length=1.0)[" not in text
        assert "Intercept" in text
    assert "gp(x, length=1.0): 4 columns, in summary()" in repr(fit)
    assert "columns Intercept, gp(x, length=1.0) (4 columns);" in repr(fit.model)
    assert "Empty" not in repr(pr.fit(toy()))


@pytest.mark.filterwarnings("ignore::probreg.errors.ProbregWarning")
@pytest.mark.parametrize("seed", [0, 4])
def test_prior_weights_are_those_of_the_saved_fit(seed, tmp_path):
    # the function is a line, so the length runs beyond the data and H is singular up to rounding
    rng = np.random.default_rng(seed)
    x = rng.normal(size=40)
    y = 1.0 + 2.0 * x + 0.3 * rng.normal(size=40)
    fit = pr.fit(pr.Model.from_formula("y ~ gp(x)", {"x": x, "y": y}))
    saved = pr.load_fit(fit.save(tmp_path / "fit.nc"))
    own, again = (pr.compare([f]).data["prior_weight"].values for f in (fit, saved))
    np.testing.assert_array_equal(own, again)

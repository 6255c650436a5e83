"""Files that are not to be trusted: damaged, changed by hand, made to hurt. Loading ends in one sentence, or in a fit that works."""

import io
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.fits.storage.schema import MAGIC, TRAILER, read_verified, seal
from probreg.priors import Normal


def rows(n: int = 30) -> pd.DataFrame:
    rng = np.random.default_rng(8)
    x, g = rng.normal(size=n), rng.choice(["red", "green", "blue"], n)
    eta = 0.4 + 0.6 * x - 0.5 * (g == "red")
    return pd.DataFrame({
        "x": x, "g": g, "real": eta + rng.normal(size=n), "count": rng.poisson(np.exp(eta)),
        "flag": np.where(rng.random(n) < 1 / (1 + np.exp(-eta)), "yes", "no"), "class": rng.choice(list("abc"), n),
        "size": rng.uniform(1, 3, n), "w": rng.integers(0, 4, n).astype(float), "k": rng.integers(0, 4, n), "n": rng.integers(4, 9, n),
    })  # fmt: skip


CASES: dict[str, tuple[str, dict[str, Any], Any]] = {
    "closed_form": ("real ~ x + g", {}, "closed_form"),
    "conjugate": (
        "real ~ bs(x, df=4)",
        {"prior": {"Intercept": Normal(2.0, sigma_units=True)}},
        pr.Conjugate(draws=20),
    ),
    "poisson": (
        "count ~ x",
        {"likelihood": "poisson", "offset": "log(size)", "weights": "w"},
        "newton",
    ),
    "softmax": (
        "class ~ x",
        {"likelihood": "categorical", "prior": Normal(0.7)},
        pr.LaplaceApproximation(draws=20),
    ),
    "binomial": (
        "p(k, n) ~ x",
        {"likelihood": "binomial", "prior": Normal(1.0, scaled=True)},
        "newton",
    ),
    "precision": ("real ~ x", {"weights": pr.weights.precision("size")}, "closed_form"),
    "bootstrap": ("flag ~ x", {"likelihood": "bernoulli"}, pr.Bootstrap(reps=12)),
    "process": (
        "real ~ gp(x, size, length=2.0, basis='hsgp', tol=0.1)",
        {"prior": {"gp(x, size)": Normal(1.0)}, "aux": {"sigma": 0.5}},
        "closed_form",
    ),
    "quadrature": ("real ~ x", {"prior": Normal(0.7)}, pr.Quadrature(draws=5)),
    "groups": ("real ~ x + (1 | g)", {}, "evidence"),
    "bernoulli": ("flag ~ x", {"likelihood": "bernoulli"}, "newton"),
    "length": ("real ~ gp(x, kernel='rbf')", {}, "evidence"),
    "student": (
        "real ~ poly(x, 2)",
        {
            "likelihood": pr.StudentT(nu=5.0),
            "aux": {"sigma": pr.priors.HalfCauchy(1.0)},
        },
        "newton",
    ),
}


class SavedFits(dict[str, Path]):
    """Each case as a file without its rows and one with them, and of a posterior one with its draws too; saved when asked for."""

    def __init__(self, folder: Path):
        self.folder = folder

    def __missing__(self, key: str) -> Path:
        name, _, content = key.partition(" with ")
        formula, options, method = CASES[name]
        fit = pr.fit(pr.Model.from_formula(formula, rows(), **options), method, seed=5)
        more = {"rows": bool(content), "log_likelihood": content == "draws"}
        self[key] = fit.save(self.folder / f"{name}_{content}.nc", **more)
        return self[key]


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> dict[str, Path]:
    return SavedFits(tmp_path_factory.mktemp("saved"))


def edited(path: Path, change: Callable[[h5py.File], None], folder: Path) -> Path:
    """The file with a change made by hand, and signed again."""
    image = io.BytesIO(read_verified(path.read_bytes(), "it"))
    with h5py.File(image, "r+") as file:
        change(file)
    out = folder / "edited.nc"
    out.write_bytes(image.getvalue() + seal(image.getvalue()))
    return out


def respecified(path: Path, folder: Path, **changes: Any) -> Path:
    """The file with keys of its specification replaced, given as `design__recipe=...`; None removes a key."""

    def change(file: h5py.File) -> None:
        spec = json.loads(file.attrs["probreg"])
        for key, value in changes.items():
            *where, last = key.split("__")
            place = spec
            for k in where:
                place = place[k]
            if value is None:
                del place[last]
            else:
                place[last] = value
        file.attrs["probreg"] = json.dumps(spec)

    return edited(path, change, folder)


# ---- damage: the digest --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_other_programs_open_the_file(saved):
    """The digest stands behind what HDF5 looks at."""
    import arviz as az
    import xarray as xr

    path = saved["conjugate with draws"]
    assert path.read_bytes()[-TRAILER:].startswith(MAGIC)
    with xr.open_datatree(path, engine="h5netcdf") as tree:
        assert tree["posterior"]["beta"].dims == ("chain", "draw", "coef")
    with h5py.File(path) as file:
        assert "observed_data" in file
    read = az.from_netcdf(path)
    assert np.isfinite(az.summary(read, var_names=["beta"])["mean"].astype(float)).all()
    read.close()


@pytest.mark.parametrize("seed", range(6))
def test_changed_bytes_are_damage(seed, saved, tmp_path):
    rng = np.random.default_rng(seed)
    data = bytearray(saved["conjugate"].read_bytes())
    for place in rng.integers(0, len(data) - TRAILER, rng.integers(1, 9)):
        data[place] ^= int(rng.integers(1, 256))
    (tmp_path / "bad.nc").write_bytes(data)
    with pytest.raises(
        pr.DataError, match=r"bad\.nc is damaged or was changed since it was saved"
    ):
        pr.load_fit(tmp_path / "bad.nc")


@pytest.mark.parametrize("kept", [0, 1, 55, 56, 500, 2000, -TRAILER, -1])
def test_a_file_cut_short_says_so(kept, saved, tmp_path):
    (tmp_path / "cut.nc").write_bytes(saved["closed_form"].read_bytes()[:kept])
    with pytest.raises(
        pr.DataError,
        match=r"cut\.nc is not a complete saved fit: .* cut short",
    ):
        pr.load_fit(tmp_path / "cut.nc")


def test_files_of_others_are_not_fits(saved, tmp_path):
    import xarray as xr

    text, other, image = tmp_path / "text.nc", tmp_path / "other.nc", io.BytesIO()
    text.write_text("hello")
    xr.Dataset({"a": ("x", [1.0])}).to_netcdf(other, engine="h5netcdf")
    for path in (text, other):
        with pytest.raises(pr.DataError, match="not written by"):
            pr.load_fit(path)
    with h5py.File(image, "w") as file:
        file["a"] = 1.0
    other.write_bytes(image.getvalue() + seal(image.getvalue()))
    with pytest.raises(pr.DataError, match="no text attribute 'probreg'"):
        pr.load_fit(other)
    other.write_bytes(b"hello" + seal(b"hello"))
    with pytest.raises(pr.DataError, match="not a fit that this version reads"):
        pr.load_fit(other)


def test_a_file_that_a_program_wrote_again_lacks_its_digest(saved, tmp_path):
    path = tmp_path / "fit.nc"
    path.write_bytes(saved["closed_form"].read_bytes())
    with h5py.File(path, "r+") as file:
        file["solution/beta"][0, 0] = 1e9
        file["more"] = np.zeros(1000)
    with pytest.raises(
        pr.DataError, match=r"changed by another program|changed since it was saved"
    ):
        pr.load_fit(path)


# ---- what a hand can write, and sign -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 99}, "its format is 99, written by version"),
        ({"format": "2"}, "no format number"),
        ({"likelihood": {"name": "os"}}, "no likelihood is called 'os'"),
        ({"likelihood": {"name": "gaussian", "code": "1"}}, "has no field"),
        ({"method__name": "shell"}, "no method is called 'shell'"),
        ({"method": None}, "no 'method'"),
        ({"prior": {"name": "__import__"}}, "no prior is called"),
        ({"prior": {"name": "normal", "scale": -1.0}}, r"scale is .* got -1\.0"),
        ({"prior": {"name": "normal", "scale": "wide"}}, "scale is .* got 'wide'"),
        (
            {"prior": {"name": "normal", "sigma_units": 1.5}},
            "sigma_units is True or False",
        ),
        ({"prior": 3}, "'prior' is 3: expected a table"),
        (
            {"aux": {"sigma": {"name": "half_normal", "scale": -1.0}}},
            r"scale is .* got -1\.0",
        ),
        ({"aux": {"nu": 3.0}}, "has no parameter 'nu'"),
        ({"solution__status": "FINE"}, "status 'FINE'"),
        ({"solution": None}, r"no 'solution\.aux'"),
        (
            {"solution__df": -3.0},
            r"'solution\.df' is -3\.0: expected a finite number, 0 or more, or null",
        ),
        ({"solution__aux": {}}, "no estimate of sigma"),
        ({"solution__draws": []}, "expected a table, or null"),
        ({"design__recipe": {"kind": "code"}}, "not a fit that this version reads"),
        (
            {"solution__df": 10**400},
            r"expected a finite number, 0 or more, or null",
        ),
        ({"seed": "x"}, "'seed' is 'x': expected a whole number"),
        ({"seed": -1}, "'seed' is -1: expected a whole number"),
        (
            {"solution__note_topics": []},
            "the notes, their topics and severities differ",
        ),
        (
            {"solution__aux": {"sigma": 1.0, "nu": 2.0}},
            "an estimate of 'nu', which its",
        ),
        ({"solution__stats": {}}, r"solution\.stats\.rss is None: expected"),
        (
            {"method": {"name": "conjugate", "draws": 5}},
            "draws: conjugate has the target",
        ),
    ],
    ids=str,
)
def test_an_altered_file_is_refused(change, message, saved, tmp_path):
    with pytest.raises(pr.DataError, match=message):
        pr.load_fit(respecified(saved["closed_form"], tmp_path, **change))


@pytest.mark.parametrize(
    "word", ["__import__('os').system", "exec", "open", "().__class__"]
)
def test_a_formula_in_a_file_runs_nothing(word, saved, tmp_path):
    """Text in the place of a term of the formula raises an error; it never runs."""
    proof = tmp_path / "proof"
    call = f"{word}('touch {proof}')" if word != "open" else f"open('{proof}','w')"
    if word == "exec":
        call = f"exec(\"open('{proof}','w')\")"

    def change(file: h5py.File) -> None:
        text = file.attrs["probreg"]
        assert "~ x" in text
        file.attrs["probreg"] = text.replace("~ x", f"~ {json.dumps(call)[1:-1]}")

    with pytest.raises(pr.ProbregError):
        pr.load_fit(edited(saved["closed_form"], change, tmp_path)).predict(rows())
    assert not proof.exists()


@pytest.mark.parametrize("group", ["solution", "posterior", "sample_stats"])
def test_a_group_that_is_missing_is_named(group, saved, tmp_path):
    with pytest.raises(pr.DataError, match=f"no group '{group}'"):
        pr.load_fit(
            edited(saved["softmax with draws"], lambda file: file.pop(group), tmp_path)
        )


def put(name: str, value: Any, row: Any = 0) -> Callable[[h5py.File], None]:
    """The change that sets an entry of an array."""

    def change(file: h5py.File) -> None:
        file[name][row] = value

    return change


ALTERED = {
    "no coefficient": ("closed_form", put("solution/beta", np.nan), "its coefficients are not finite"),
    "no draw": ("quadrature", put("posterior/beta", np.nan), "posterior/beta: expected"),
    "half of the nodes": ("quadrature", lambda file: file.pop("solution/marginal_sd"), "marginals hold only"),
    "no moments": ("groups", lambda file: file.pop("moments"), "no group 'moments'"),
    "half a group": ("groups with rows", put("rows/inputs_0", 0.5), "groups of .*: expected whole numbers"),
    "a value that is none": ("groups with rows", put("arrays/array_0", np.nan), "expected finite|values of 'x'"),
    "a level that is none": ("groups with rows", put("arrays/array_1", 7), "levels of 'g': expected texts"),
    "a class that is none": ("bernoulli with rows", put("rows/y", 7), "codes of levels, 0 to 1"),
    "a row that is none": ("poisson with rows", put("rows/absent", 99), "increasing numbers below 30"),
}  # fmt: skip


@pytest.mark.parametrize("name", ALTERED)
def test_an_altered_array_is_refused(name, saved, tmp_path):
    case, change, message = ALTERED[name]
    with pytest.raises(pr.DataError, match=message):
        pr.load_fit(edited(saved[case], change, tmp_path))


@pytest.mark.parametrize(
    ("case", "changes", "message"),
    [
        (
            "quadrature",
            {"solution__draws__values": []},
            "no draws of sigma, which is unknown",
        ),
        (
            "groups",
            {"solution__scales__theta": [], "solution__scales__hessian": []},
            "are 0 numbers: expected 2",
        ),
        ("groups with rows", {"design__read": [{"name": 3}]}, "lacks a name or 30"),
    ],
)
def test_an_altered_table_is_refused(case, changes, message, saved, tmp_path):
    with pytest.raises(pr.DataError, match=message):
        pr.load_fit(respecified(saved[case], tmp_path, **changes))


def test_a_file_without_the_number_of_rows_asks_for_it(saved, tmp_path):
    path = respecified(saved["bernoulli"], tmp_path, solution__stats__n=None)
    fit = pr.load_fit(path)
    with pytest.raises(pr.DataError, match="number of observations is not known"):
        _ = fit.nobs
    assert "rows not kept" in str(pr.compare({"a": fit, "b": pr.load_fit(path)}))


@pytest.mark.filterwarnings("ignore::probreg.errors.ProbregWarning")
def test_a_length_that_was_estimated_is_read_with_the_rows(saved):
    a, b = (pr.load_fit(saved[name]) for name in ("length", "length with rows"))
    pd.testing.assert_frame_equal(a.summary(), b.summary())
    assert b.stated_model.design.n == 30


def test_replicates_without_their_coefficients_are_refused(saved, tmp_path):
    with pytest.raises(pr.DataError, match="its replicates hold no coef"):
        pr.load_fit(respecified(saved["bootstrap"], tmp_path, solution__replicates=[]))


def test_a_scale_of_a_prior_without_its_draws_is_refused(saved, tmp_path):
    with pytest.raises(pr.DataError, match="no draws of tau, the scale of a prior"):
        pr.load_fit(
            respecified(saved["softmax"], tmp_path, solution__draws__hyper=["tau"])
        )


def test_numbers_of_half_the_digits_are_numbers(saved, tmp_path):
    def change(file: h5py.File) -> None:
        root = file["solution/scale_root"][()]
        del file["solution/scale_root"]
        file["solution/scale_root"] = root.astype("f2")

    works(pr.load_fit(edited(saved["bootstrap"], change, tmp_path)), tmp_path)


def _huge(file: h5py.File) -> None:
    del file["solution/beta"]
    # declared: no byte of it is there
    file["solution"].create_dataset("beta", shape=(10**6, 10**6), dtype="f8")


def _square(file: h5py.File) -> None:
    spec = json.loads(file.attrs["probreg"])
    spec["design"]["recipe"] = {
        "kind": "arrays",
        "given": [f"x{i}" for i in range(2000)],
        "intercept": False,
        "process": {},
    }
    file.attrs["probreg"] = json.dumps(spec)
    del file["moments"], file["solution/beta"], file["solution/scale_root"]
    file["solution"].create_dataset("beta", shape=(2000, 1), dtype="f8")
    file["solution"].create_dataset("scale_root", shape=(2000, 2000), dtype="f8")


def _bomb(file: h5py.File) -> None:
    del file["solution/beta"]
    file["solution"].create_dataset(
        "beta", (4, 1), "f8", np.zeros((4, 1)), chunks=True, compression="gzip"
    )


def _elsewhere(file: h5py.File) -> None:
    del file["solution/beta"]
    file["solution"].create_dataset(
        "beta", (4, 1), "f8", external=[("/etc/passwd", 0, 32)]
    )


def _virtual(file: h5py.File) -> None:
    del file["solution/beta"]
    layout = h5py.VirtualLayout(shape=(4, 1), dtype="f8")
    layout[:] = h5py.VirtualSource("/tmp/other.nc", "a", shape=(4, 1))
    file["solution"].create_virtual_dataset("beta", layout)


def _linked(name: str, target: Any) -> Callable[[h5py.File], None]:
    def change(file: h5py.File) -> None:
        del file[name]
        file[name] = target(file) if callable(target) else target

    return change


HOSTILE: dict[str, tuple[Callable[[h5py.File], None], str]] = {
    "declared larger than memory": (_huge, "its values are not all in the file"),
    "declared larger than the file": (_square, "its values are not all in the file"),
    "compressed": (_bomb, "stored in pieces, compressed or in another file"),
    "values in another file": (_elsewhere, "stored in pieces, compressed or in another file"),
    "a view of another file": (_virtual, "stored in pieces, compressed or in another file"),
    "a soft link": (_linked("solution/beta", h5py.SoftLink("/solution/scale")), "not one of its plain arrays"),
    "an external link": (_linked("solution", h5py.ExternalLink("/tmp/other.nc", "/")), "not one of its plain groups"),
    "a dangling link": (_linked("solution", h5py.SoftLink("/nowhere")), "not one of its plain groups"),
    "a group in itself": (_linked("solution/beta", lambda file: file["solution"]), "not one of its plain arrays"),
    "the root in itself": (_linked("solution", lambda file: file["/"]), "no array 'beta'"),
    "text for numbers": (_linked("solution/beta", lambda file: ["a", "b", "c", "d"]), "expected numbers"),
    "records for numbers": (_linked("solution/beta", lambda file: np.zeros(4, "f8,f8")), "expected numbers"),
    "complex numbers": (_linked("solution/beta", lambda file: np.zeros((4, 1), complex)), "expected numbers"),
    "no values": (_linked("solution/beta", lambda file: h5py.Empty("f8")), "expected numbers"),
    "an attribute of numbers": (lambda file: file.attrs.create("probreg", 3.0), "no text attribute 'probreg'"),
    "no text of JSON": (lambda file: file.attrs.modify("probreg", "{"), "JSONDecodeError"),
    "deep JSON": (lambda file: file.attrs.modify("probreg", "[" * 100_000), "RecursionError"),
    "a long number": (lambda file: file.attrs.modify("probreg", "9" * 10_000), "ValueError"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_made_to_hurt_is_refused(name, saved, tmp_path):
    change, message = HOSTILE[name]
    with pytest.raises(pr.DataError, match=message):
        pr.load_fit(edited(saved["closed_form"], change, tmp_path))


# ---- every field and array, edited in kind -------------------------------------------------------------------------

VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, 2, -1, 3, 10**9, 10**400, 0.5, -2.5, 1e-320, 1e308, float("nan"), float("inf"), "", "x", "auto",
    "nan", "é\n\x1b[31m", [], [1], ["x"], [[1.0]], [True], {}, {"x": 1}, {"name": "normal"}, {"name": "laplace"}, {"name": "nuts"},
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of everything in a nest of tables and lists."""
    inside = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [path] * bool(path) + [
        p for key, part in inside for p in places(part, (*path, key))
    ]


def edit_spec(rng: np.random.Generator, file: h5py.File) -> str:
    spec = json.loads(file.attrs["probreg"])
    *where, last = (found := places(spec))[rng.integers(len(found))]
    place = spec
    for key in where:
        place = place[key]
    if rng.random() < 0.2:
        del place[last]
        value: Any = "removed"
    else:
        value = place[last] = VALUES[rng.integers(len(VALUES))]
    file.attrs["probreg"] = json.dumps(spec)
    return f"{'.'.join(map(str, (*where, last)))} = {value!r:.40}"


def edit_array(rng: np.random.Generator, file: h5py.File) -> str:
    inside = [
        f"{g}/{k}"
        for g in file
        for k in file[g]
        if g in ("solution", "moments", "rows", "posterior", "sample_stats")
    ]
    name = inside[rng.integers(len(inside))]
    old = file[name][()]
    kind = rng.choice(
        ["value", "value", "value", "shape", "type", "removed", "transposed", "all"]
    )
    new: Any = np.array(old, copy=True)
    if kind in ("value", "all") and new.dtype.kind in "fiub" and new.size:
        value = rng.choice(
            [np.nan, np.inf, -np.inf, -1.0, 0.0, 0.5, 2.0, 7.0, 1e300, 1e-300, -1e9]
        )
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            new = new.astype(float)
            new[
                ... if kind == "all" else tuple(rng.integers(0, s) for s in new.shape)
            ] = value
        kind = f"{kind} {value}"
    elif kind == "shape":
        new = rng.choice(
            np.array([0, 1, 2, 3], dtype=float),
            size=tuple(rng.integers(0, 4, rng.integers(0, 4))),
        )
    elif kind == "type":
        new = (
            np.asarray(new).astype(rng.choice(["S4", "i2", "f2", "c16", "u1"]))
            if new.dtype.kind in "fiu"
            else new
        )
    elif kind == "transposed":
        new = new.T.copy()
    del file[name]
    if kind != "removed":
        file[name] = new
    return f"{name}: {kind}, shape {np.shape(new)}"


def works(fit: pr.Fit, folder: Path) -> None:
    """What the reader of a loaded fit does with it."""
    fit.summary(0.9)
    repr(fit)
    fit.predict(rows(7), 0.8)
    again = pr.load_fit(fit.save(folder / "again.nc"))
    np.testing.assert_array_equal(again.solution.beta, fit.solution.beta)


def edits(saved: dict[str, Path], folder: Path, count: int, seed: int) -> list[str]:
    """What became of so many edits: a line for each that ended in anything but a ProbregError or a fit that works."""
    names = [*CASES, *(f"{name} with rows" for name in CASES), "softmax with draws"]
    rng, wrong = np.random.default_rng(seed), []
    for _ in range(count):
        name = names[rng.integers(len(names))]
        said: list[str] = []
        edit = edit_spec if rng.random() < 0.6 else edit_array
        path = edited(
            saved[name],
            lambda file, edit=edit, said=said: said.append(edit(rng, file)),
            folder,
        )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", pr.ProbregWarning)
                works(pr.load_fit(path), folder)
        except pr.ProbregError:
            pass
        except Exception as error:
            wrong.append(f"{name}: {said[0]}: {type(error).__name__} {error!s:.150}")
    return wrong


@pytest.mark.slow
def test_an_edited_file_is_refused_or_works(saved, tmp_path):
    assert edits(saved, tmp_path, 12, 1) == []

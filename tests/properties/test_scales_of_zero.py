"""Effects whose variance is truly zero: every search ends, at the highest value that a search over signed roots finds."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import probreg as pr
from probreg.inference.exact import gaussian_sums
from probreg.inference.exact.evidence_problem import EvidenceProblem
from probreg.inference.exact.scale_search import maximise_log_scales as search
from probreg.inference.status import Topic
from probreg.model.model import Model

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "slopes beside another factor": (
        "y ~ x1 + x2 + (0 + z | s) + (1 | t)", {"prior": pr.Normal(1.0), "aux": {"sigma": 1.0}},
    ),
    "crossed, noise held": ("y ~ x1 + (1 | s) + (1 | t)", {"aux": {"sigma": 1.0}}),
    "crossed": ("y ~ x1 + (1 | s) + (1 | t)", {}),
    "apart": ("y ~ x1 + (z || s)", {}),
    "apart and crossed": ("y ~ x1 + (z || s) + (1 | t)", {"aux": {"sigma": 1.0}}),
}  # fmt: skip


def model(case: str, seed: int) -> Model:
    formula, more = CASES[case]
    rng = np.random.default_rng(seed)
    n, G, H = (
        int(rng.choice([24, 40, 60, 120])),
        int(rng.integers(3, 12)),
        int(rng.integers(2, 8)),
    )
    columns = {name: rng.normal(size=n) for name in ("y", "x1", "x2", "z")}
    groups = {
        "s": rng.integers(0, G, n).astype(str),
        "t": rng.integers(0, H, n).astype(str),
    }
    return Model.from_formula(formula, {**columns, **groups}, **more)


def highest(surface: Any, d: int) -> float:
    """The best of climbs over signed standard deviations, and over log sigma, with each set of them held at zero."""
    D = len(surface.priors)

    def fall(v: np.ndarray, keep: np.ndarray) -> float:
        theta = np.array(v, dtype=float)
        theta[:d] = np.log(np.abs(theta[:d] * keep) + 1e-12)
        return -float(surface.values(theta[None])[0])

    found = []
    for keep in product((0.0, 1.0), repeat=d):
        for size in (0.05, 0.5):
            start = np.append(np.full(d, size), np.zeros(D - d))
            options = {"xatol": 1e-7, "fatol": 1e-11, "maxfev": 800}
            found.append(
                minimize(
                    fall,
                    start,
                    (np.array(keep),),
                    method="Nelder-Mead",
                    options=options,
                ).fun
            )
    return -min(found)


def require_zero(problem: EvidenceProblem, best: float) -> None:
    """The search of a case ends at the highest value, and says what is zero there."""
    top = problem.maximise(300)
    assert top.at.value >= best - 1e-8
    # what is not called zero rises from there
    for j in np.flatnonzero(~top.vanished):
        lower = top.theta.copy()
        lower[j] -= 20.0
        assert problem.surface.values(lower[None])[0] < top.at.value
    said = [note for note in problem.notes(top) if note.topic is Topic.SINGULAR]
    assert len(said) == top.vanished.sum()


def make_borders_sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaussian_sums, "MIN_SPARSE_SIZE", 0)
    monkeypatch.setattr(gaussian_sums, "MAX_SPARSE_SHARE", 1.0)


def highest_of(problem: EvidenceProblem) -> float:
    return highest(problem.surface, len(problem.groups.priors))


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case, marks=[] if case == "crossed, noise held" else pytest.mark.slow
        )
        for case in CASES
    ],
)
def test_a_variance_of_zero_is_found(case):
    problem = EvidenceProblem(model(case, 1), False)
    require_zero(problem, highest_of(problem))


@pytest.mark.slow
def test_a_variance_of_zero_is_found_beside_a_sparse_border(monkeypatch):
    case = "apart and crossed"
    best = highest_of(EvidenceProblem(model(case, 3), False))
    make_borders_sparse(monkeypatch)
    problem = EvidenceProblem(model(case, 3), False)
    assert problem.surface.sums.has_sparse_border
    require_zero(problem, best)


@pytest.mark.parametrize(
    ("zero", "kind"),
    [
        ("abc", "dense"),
        pytest.param("a", "dense", marks=pytest.mark.slow),
        pytest.param("bc", "sparse", marks=pytest.mark.slow),
    ],
)
def test_a_true_zero_of_crossed_factors_is_found_from_every_start(
    zero, kind, monkeypatch
):
    if kind == "sparse":
        make_borders_sparse(monkeypatch)
    rng, n = np.random.default_rng(5), 300
    codes = {name: rng.integers(0, size, n) for name, size in zip("abc", (25, 15, 7))}
    Z = {name: np.eye(c.max() + 1)[c] for name, c in codes.items()}
    flat, y = np.hstack(list(Z.values())), rng.normal(size=n)
    y = y - flat @ np.linalg.lstsq(flat, y)[0]  # the noise tells nothing of any factor
    y = y + sum(
        (
            Z[name] @ rng.normal(size=Z[name].shape[1])
            for name in "abc"
            if name not in zero
        ),
        np.zeros(n),
    )
    data = {"y": y, **{name: c.astype(str) for name, c in codes.items()}}
    problem = EvidenceProblem(
        Model.from_formula("y ~ 1 + (1 | a) + (1 | b) + (1 | c)", data), False
    )
    surface, sizes = problem.surface, problem.groups.sizes
    assert surface.sums.has_sparse_border == (kind == "sparse")
    names = np.array([name.split("| ")[1][0] for name in problem.names])
    values = []
    for start in [
        surface.starts()[0],
        [-7.0, -7.0, -7.0, 0.0],
        [1.0, 1.0, 1.0, 0.0],
        [1.0, -7.0, 1.0, 0.0],
        [-7.0, 1.0, -7.0, 2.0],
    ]:
        top = search(
            surface,
            np.array(start),
            sizes,
            np.zeros(3),
            tol=surface.tol,
            max_steps=300,
            secant=surface.secant,
        )
        assert "".join(names[top.vanished[: len(names)]]) == zero
        values.append(top.at.value)
    assert np.ptp(values) < 1e-7

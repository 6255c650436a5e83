"""What a person reads: which notes matter, how long a sentence is, how long a print."""

import numpy as np
import pytest

import probreg as pr
from probreg.inference.base import Routine

RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 2))
Y = X @ [1.0, -1.0] + RNG.normal(size=N)
X[0, 0] = np.nan  # a row that is dropped
MATTERS = {  # the first words of what must be read beside the numbers, by method
    "auto": ["sigma is the maximum likelihood estimate"],
    "laplace": [],
    "posterior": [],
    "nuts": [],
    "evidence": ["prior scale", "scales found by evidence are taken as known", "sigma is held"],
}


@pytest.mark.parametrize("method", MATTERS)
def test_notes_on_the_computation_are_kept_apart_and_return_from_a_file(method, tmp_path):
    prior = (
        {"a": pr.Normal(pr.HalfNormal(1.0)), "b": pr.Normal(pr.HalfNormal(1.0))} if method == "evidence" else pr.Flat()
    )
    model = pr.Model.from_formula("y ~ a + b", {"y": Y, "a": X[:, 0], "b": X[:, 1]}, prior=prior, missing="drop")
    found = pr.fit(model, pr.NUTS(draws=500) if method == "nuts" else method)
    *own, dropped = found.essential_notes
    assert dropped.startswith("1 of 60 rows were dropped")
    assert [note[: len(start)] for note, start in zip(own, MATTERS[method], strict=True)] == MATTERS[method]
    every = found.described["notes"]
    assert [note for note in every if not isinstance(note, Routine)] == [*own, dropped]
    assert len(every) > len(found.essential_notes)
    again = pr.load_fit(found.save(tmp_path / "fit.nc"))
    assert (again.essential_notes, again.described["notes"]) == (found.essential_notes, every)

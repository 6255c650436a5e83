"""What all tests share: a seeded generator and the certified results, where they lie beside the project."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

REFERENCES = Path(__file__).parents[2] / "shared" / "references"


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20_240_501)


def certified(name: str) -> dict[str, Any]:
    """The certified case `folder/case` as a dictionary; the test is skipped where the collection is absent."""
    path = REFERENCES / f"{name}.json"
    if not path.exists():
        pytest.skip(f"the collection of certified results is not beside this project (no {name})")
    return json.loads(path.read_text())


@pytest.fixture(name="certified")
def certified_fixture() -> Any:
    return certified

"""What all tests share: a seeded generator and the certified results, where they lie beside the project."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> Iterator[None]:
    """A run in the background is started with Ctrl-C ignored, which tests of interrupts then never see."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


# Certified results: those that may be copied stand in the project, with their provenance; more may lie beside it.
DATA = Path(__file__).parent / "reference" / "data"
PLACES = (DATA, Path(__file__).parents[2] / "shared" / "references")


def reference_path(name: str) -> Path:
    """A file of certified results or its data, `folder/case.json` or `csv/table.csv`; the test is skipped without it."""
    for place in PLACES:
        if (place / name).is_file():
            return place / name
    pytest.skip(f"{name} is not among the certified results of this project; see tests/reference/data/README.md")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20_240_501)


def certified(name: str) -> dict[str, Any]:
    """The certified case `folder/case` as a dictionary; the test is skipped where it is absent."""
    return json.loads(reference_path(f"{name}.json").read_text())


@pytest.fixture(name="certified")
def certified_fixture() -> Any:
    return certified

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

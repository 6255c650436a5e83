"""What all tests share: a seeded generator and the certified results, where they lie beside the project."""

import gc
import json
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg  # noqa: F401  its own BLAS is limited with NumPy's
from threadpoolctl import threadpool_limits

# Each worker of pytest has a core of its own: a second thread of BLAS would wait for the core of another worker.
threadpool_limits(1, user_api="blas")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # in the processes that tests start


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> Iterator[None]:
    """A run in the background is started with Ctrl-C ignored, which tests of interrupts then never see."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session", autouse=True)
def _no_files_in_the_top_folder() -> Iterator[None]:
    """Tests write into temporary folders: a run that leaves a file in the top folder of the project fails at its end."""
    top = Path(__file__).parents[1]
    before = set(os.listdir(top))
    yield
    left = {name for name in set(os.listdir(top)) - before if not name.startswith(".")}
    assert not left


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """What collection makes lives until the end: the garbage collector need not look through it, then or in any test."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the cases of parametrized tests in slow_cases.txt, which take more than 0.1 s, as slow; the quick run has others."""
    slow = set((Path(__file__).parent / "slow_cases.txt").read_text().splitlines())
    for item in items:
        if item.nodeid in slow:
            item.add_marker(pytest.mark.slow)


# Certified results: those that may be copied stand in the project, with their provenance; more may lie beside it.
DATA = Path(__file__).parent / "reference" / "data"
PLACES = (DATA, Path(__file__).parents[2] / "shared" / "references")


def reference_path(name: str) -> Path:
    """A file of certified results or its data, `folder/case.json` or `csv/table.csv`; the test is skipped without it."""
    for place in PLACES:
        if (place / name).is_file():
            return place / name
    pytest.skip(
        f"{name} is not among the certified results of this project; see tests/reference/data/README.md"
    )


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20_240_501)


def certified(name: str) -> dict[str, Any]:
    """The certified case `folder/case` as a dictionary; the test is skipped where it is absent."""
    return json.loads(reference_path(f"{name}.json").read_text())


@pytest.fixture(name="certified")
def certified_fixture() -> Any:
    return certified


def covering(
    cases: Iterable[Any],
    *kinds: Callable[..., Any],
    name: Callable[[Any], str] | None = None,
    one_in: int = 18,
) -> list[Any]:
    """The cases as parameters: those that show a kind not met before are quick, `kinds` being what to look at, and of the others
    one in so many is slow, the rest left out. Without kinds the first is quick."""
    met: set[Any] = set()
    out, others = [], 0
    for case in cases:
        values = case if isinstance(case, tuple) else (case,)
        shown = {(i, kind(*values)) for i, kind in enumerate(kinds or [lambda *_: 0])}
        marks = [pytest.mark.slow] if shown <= met else []
        others += bool(marks)
        if marks and others % one_in:
            continue
        out.append(
            pytest.param(
                *values, id="-".join(map(name, values)) if name else None, marks=marks
            )
        )
        met |= shown
    return out

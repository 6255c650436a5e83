"""What the tests of pages share: one process that has imported what most pages import."""

from collections.abc import Iterator

import pytest

from .fork_pages import Forks


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    process = Forks()
    yield process
    process.close()

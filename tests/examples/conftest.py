"""What the tests of pages share: one process that has imported what most pages import."""

from collections.abc import Iterator

import pytest

from .fork_pages import Forks

# scripts that test_translations runs; doctest would run them to look for examples
collect_ignore = ["translations"]


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks]:
    process = Forks()
    yield process
    process.close()

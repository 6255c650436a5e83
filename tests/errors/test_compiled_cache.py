"""Machine code on disk that was cut short is made anew, once, and the next process finds it whole."""

import os
from pathlib import Path
from typing import Any

import pytest
from numba import config


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "twice.py").write_text(
        "from probreg.compiled.cache import cached_njit\n\n\n@cached_njit(nogil=True)\ndef twice(x):\n    return 2.0 * x\n"
    )
    return tmp_path


def load(folder: Path) -> str:
    """What is computed, and how often machine code was found and was made: this process reads the file anew, and finds on disk
    what another would."""
    made: dict[str, Any] = {"__name__": "twice", "__file__": str(folder / "twice.py")}
    exec(compile((folder / "twice.py").read_text(), made["__file__"], "exec"), made)
    twice = made["twice"]
    return f"{twice(21.0)} {sum(twice.stats.cache_hits.values())} {sum(twice.stats.cache_misses.values())}"


@pytest.mark.parametrize("size", [60, 0])
@pytest.mark.parametrize("kind", ["nbc", "nbi"])
def test_a_file_cut_short_is_made_anew(kind, size, folder, monkeypatch):
    monkeypatch.setattr(config, "CACHE_DIR", str(folder / "cache"))
    assert load(folder) == "42.0 0 1"
    assert load(folder) == "42.0 1 0"
    (file,) = (folder / "cache").rglob(f"*.{kind}")
    assert file.stat().st_size > size
    os.truncate(file, size)
    assert load(folder) == "42.0 0 1"
    assert load(folder) == "42.0 1 0"


@pytest.mark.parametrize("begun", ["_save_data", "_save_index"])
def test_processes_that_compile_at_once_never_find_code_of_other_types_or_of_an_earlier_version(
    begun, tmp_path, monkeypatch
):
    """A second process reads and writes before each file that the first one writes."""
    from probreg.compiled.cache import _CodeBeforeIndex

    def files(version: str) -> _CodeBeforeIndex:
        return _CodeBeforeIndex(str(tmp_path), "f", version)

    files("1").save("floats", "floats, version 1")
    first, second = files("2"), files("2")
    write = getattr(first, begun)

    def write_late(*what: Any) -> None:
        assert second.load("floats") in (None, "floats, version 2")
        second.save("complex", "complex, version 2")
        write(*what)

    monkeypatch.setattr(first, begun, write_late)
    first.save("floats", "floats, version 2")
    for key in ("floats", "complex"):
        assert second.load(key) in (None, f"{key}, version 2")
    assert second.load("floats") == "floats, version 2"


def test_every_kept_function_of_the_package_is_kept_so():
    from probreg.compiled import loops_of
    from probreg.compiled.cache import _Rebuilt
    from probreg.inference.penalized import coordinate_loops
    from probreg.likelihoods import Poisson
    from probreg.online import loops

    made = [v for room in (coordinate_loops, loops) for v in vars(room).values()]
    made = [v for v in made if hasattr(v, "py_func")] + [
        f for f in loops_of(Poisson.compiled_density) if f is not None
    ]
    stored = [v for v in made if type(v._cache).__name__ != "NullCache"]
    assert len(stored) > 7
    assert all(isinstance(v._cache, _Rebuilt) for v in stored)


def test_a_full_disk_does_not_stop_the_arithmetic(tmp_path, monkeypatch):
    from numba.core.caching import FunctionCache

    from probreg.compiled.cache import cached_njit

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FunctionCache, "save_overload", full)
    monkeypatch.setattr(FunctionCache, "load_overload", full)
    monkeypatch.setattr(FunctionCache, "flush", full)
    assert cached_njit(nogil=True)(lambda x: x + 1.0)(1.0) == 2.0

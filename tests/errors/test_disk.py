"""A file is there as a whole or not at all, whatever stops the writing; what is no plain file is neither written nor read."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import probreg as pr
from probreg.system.disk import write_whole
from tests.conftest import covering

PLANTED = """
import os, signal, sys
import numpy as np, probreg as pr
from probreg.system import disk
from probreg.fits.storage import write as storage
x = np.arange(2000.0)
fit = pr.fit(pr.Model.from_arrays(x, np.sin(x)))
path, place, how = sys.argv[1], sys.argv[2], int(sys.argv[3])
def die(*a, **k):
    os.kill(os.getpid(), how)
if place == "image":
    made = storage.netcdf_image
    storage.netcdf_image = lambda tree: (made(tree), die())[0]
if place == "half":
    written = disk._write_synced
    def _write_synced(beside, parts, before):
        def halves():
            for part in parts:
                yield part[: len(part) // 2]
                die()
                yield part[len(part) // 2 :]
        written(beside, halves(), before)
    disk._write_synced = _write_synced
if place == "synced":
    os.fsync, real = (lambda handle: (real(handle), die())[0]), os.fsync
if place == "moved":
    os.replace, moved = (lambda a, b: (moved(a, b), die())[0]), os.replace
class Dying:
    def __del__(self):  # an exception here is printed and dropped
        die()
        sum(range(100))
if place == "late destructor":
    os.fsync, real = (lambda handle: (real(handle), Dying())[0]), os.fsync
fit.save(path, rows=True)
print("not raised")
"""


@pytest.fixture(scope="module")
def fit() -> pr.Fit:
    x = np.arange(12.0)
    return pr.fit(pr.Model.from_arrays(x, x % 5))


@pytest.mark.parametrize(
    ("place", "how"),
    covering(
        [
            ("half", signal.SIGKILL),
            ("moved", signal.SIGINT),
            ("half", signal.SIGINT),
            ("moved", signal.SIGKILL),
            *(
                (place, how)
                for place in ("image", "synced")
                for how in (signal.SIGKILL, signal.SIGINT)
            ),
        ],
        lambda place, how: place == "moved",
        lambda place, how: how,
        name=lambda value: getattr(value, "name", value),
    ),
)
def test_whatever_stops_a_save_the_good_file_stays(place, how, fit, tmp_path):
    path = fit.save(tmp_path / "fit.nc")
    before = path.read_bytes()
    ended = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore",
            "-c",
            PLANTED,
            str(path),
            place,
            str(int(how)),
        ],
        capture_output=True,
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.default_int_handler
        ),  # background runs ignore it
    )
    assert ended.returncode != 0
    found = pr.load_fit(path)
    assert (path.read_bytes() == before) is (place != "moved")
    assert found.model.design.n == (2000 if place == "moved" else 0)
    if how == signal.SIGINT:
        assert b"KeyboardInterrupt" in ended.stderr
        assert os.listdir(tmp_path) == ["fit.nc"]


@pytest.mark.slow
def test_an_interrupt_that_a_destructor_drops_is_raised_beside_a_whole_file(
    fit, tmp_path
):
    path = fit.save(tmp_path / "fit.nc")
    ended = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore",
            "-c",
            PLANTED,
            str(path),
            "late destructor",
            str(int(signal.SIGINT)),
        ],
        capture_output=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert ended.returncode != 0
    assert ended.stdout == b""
    assert pr.load_fit(path).model.design.n == 2000
    assert os.listdir(tmp_path) == ["fit.nc"]


def test_a_full_disk_ends_in_a_sentence(tmp_path):
    x = np.arange(50_000.0)
    fit = pr.fit(pr.Model.from_arrays(x, np.sin(x)))
    path = fit.save(tmp_path / "fit.nc")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, limits[1]))
    try:
        with pytest.raises(pr.DataError, match=r"fit\.nc: File too large$"):
            fit.save(path, rows=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert pr.load_fit(path).model.design.n == 0
    assert os.listdir(tmp_path) == ["fit.nc"]


def test_no_room_for_any_byte(fit, tmp_path, monkeypatch):
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    path = fit.save(tmp_path / "fit.nc")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        pr.DataError, match=r"cannot write to .*fit\.nc: No space left on device"
    ):
        fit.save(path)
    assert os.listdir(tmp_path) == ["fit.nc"]


WRONG = {
    "a folder": (lambda t: t, "it is a folder"),
    "here": (lambda t: ".", "it is a folder"),
    "nothing": (lambda t: "", "names no file"),
    "a null character": (lambda t: f"{t}/a\0b.nc", "null character"),
    "a long name": (lambda t: t / ("n" * 300), "File name too long"),
    "no folder": (lambda t: t / "none" / "a.nc", "there is no folder"),
    "a file as folder": (lambda t: _made(t / "file") / "a.nc", "there is no folder"),
    "a device": (lambda t: Path("/dev/full"), "it is a device"),
    "a link to a device": (
        lambda t: _linked(t / "zero", "/dev/zero"),
        "it is a device",
    ),
    "a pipe": (lambda t: _pipe(t / "pipe"), "a pipe"),
    "a circle": (lambda t: _linked(t / "circle", t / "circle"), "symbolic links"),
    "a number": (lambda t: 5, "got int"),
    "bytes": (lambda t: b"a.nc", "got bytes"),
}


def _made(path: Path) -> Path:
    path.write_text("")
    return path


def _linked(path: Path, to: str | Path) -> Path:
    path.symlink_to(to)
    return path


def _pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("writes", ["save", "report"])
def test_where_nothing_can_be_written(writes, name, fit, tmp_path):
    from probreg.show.report import report

    make, message = WRONG[name]
    path = make(tmp_path)
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(pr.DataError, match=message):
        fit.save(path) if writes == "save" else report({"ML": fit}, path)
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda t: t, "it is a folder"),
        (lambda t: t / "none", "there is no file"),
        (lambda t: _pipe(t / "pipe"), "a device, a pipe"),
        (lambda t: _linked(t / "zero", "/dev/zero"), "a device, a pipe"),
        (lambda t: _linked(t / "circle", t / "circle"), "symbolic links"),
        (lambda t: f"{t}/a\0b.nc", "null character"),
        (lambda t: None, "got NoneType"),
    ],
    ids=["folder", "none", "pipe", "zero", "circle", "null", "None"],
)
def test_what_is_no_plain_file_is_not_read(make, message, tmp_path):
    with pytest.raises(pr.DataError, match=message):
        pr.load_fit(make(tmp_path))


def test_a_refused_permission_is_a_sentence(fit, tmp_path, monkeypatch):
    def refused(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    path = fit.save(tmp_path / "a.nc")
    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(
        pr.DataError, match=r"cannot write to .*a\.nc: Permission denied"
    ):
        fit.save(path)
    with pytest.raises(pr.DataError, match=r"cannot read .*a\.nc: Permission denied"):
        pr.load_fit(path)


def test_a_read_only_file_is_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(pr.DataError, match="read-only; choose another name"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"


def test_permissions_and_links_stay(tmp_path):
    path, link = tmp_path / "a", tmp_path / "link"
    path.write_bytes(b"old")
    path.chmod(0o640)
    link.symlink_to("a")
    assert write_whole(link, [b"new", memoryview(b"er")]) == link
    assert link.is_symlink()
    assert path.read_bytes() == b"newer"
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_new_file_has_the_permissions_of_any_other(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    write_whole(tmp_path / "a", b"new")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_file_that_is_open_elsewhere_is_replaced(fit, tmp_path):
    import xarray as xr

    path = fit.save(tmp_path / "fit.nc")
    with xr.open_datatree(path, engine="h5netcdf") as before:
        fit.save(path, rows=True)
        assert "rows" not in before.children
    assert pr.load_fit(path).model.design.n == 12

"""Bars of progress: where they appear and where not, and what an interrupt leaves behind, which is nothing."""

import contextlib
import functools
import inspect
import os
import pty
import signal
import subprocess
import sys
import tempfile
import threading
import time
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import probreg as pr
from probreg.system import terminal as terminal_module
from probreg.system.terminal import each_of, progress_bar

HIDDEN, SHOWN = "\x1b[?25l", "\x1b[?25h"  # the cursor


class Screen:
    """A terminal of 100 columns, and what was written to it."""

    def __init__(self) -> None:
        self.master, slave = pty.openpty()
        self.file = open(slave, "w")  # noqa: SIM115  closed by read
        self.parts: list[bytes] = []
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):  # how a terminal that was closed ends
            while part := os.read(self.master, 65536):
                self.parts.append(part)

    def wait_for(self, text: str) -> None:
        """Until it is written, and no longer than a loaded machine takes to import rich."""
        until = time.monotonic() + 20.0
        while text.encode() not in b"".join(self.parts) and time.monotonic() < until:
            time.sleep(0.01)

    def text(self) -> str:
        if not self.file.closed:
            self.file.close()
            self.reader.join()
            os.close(self.master)
        return b"".join(self.parts).decode()


@pytest.fixture(name="terminal")
def terminal_fixture(monkeypatch: Any) -> Callable[[], Any]:
    """stderr is a terminal within `with terminal() as screen`, and bars appear at once."""
    monkeypatch.setattr(terminal_module, "_QUIET", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("PROBREG_PROGRESS", raising=False)

    @contextlib.contextmanager
    def terminal() -> Iterator[Screen]:
        made, before = Screen(), sys.stderr
        # not before the test: pytest sets its own as the test begins
        sys.stderr = made.file
        try:
            yield made
            assert sys.stderr is made.file
        finally:
            sys.stderr = before
            made.text()

    return terminal


def bars() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "probreg-progress"]


# ---- where bars appear -----------------------------------------------------------------------------------------------------


def test_without_a_terminal_there_is_neither_bar_nor_thread(
    capsys: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(terminal_module, "_QUIET", 0.0)
    with progress_bar("work", 3) as bar:
        bar.advance()
        assert bar.display is None
        assert not bars()
    assert capsys.readouterr() == ("", "")


def test_a_bar_is_on_stderr_and_wiped_at_the_end(terminal: Any, capsys: Any) -> None:
    with terminal() as screen, progress_bar("work", 30) as bar:
        bar.advance(12)
        screen.wait_for("12 of 30")
    text = screen.text()
    assert "work" in text
    assert "12 of 30" in text
    assert wiped(text)
    assert capsys.readouterr() == ("", "")
    assert not bars()


def wiped(text: str) -> bool:
    """The cursor is back, and the line is empty again."""
    return text.rindex(SHOWN) > text.rindex(HIDDEN) and text.endswith("\x1b[2K")


def test_a_short_task_shows_nothing(terminal: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(terminal_module, "_QUIET", 30.0)
    began = time.monotonic()
    with terminal() as screen, progress_bar("work", 3):
        assert len(bars()) == 1
    assert time.monotonic() - began < 5.0
    assert not bars()
    assert screen.text() == ""


def test_the_outer_bar_is_above_the_inner(terminal: Any) -> None:
    with (
        terminal() as screen,
        progress_bar("outer", 2),
        progress_bar("inner", 7) as inner,
    ):
        inner.advance(3)
        screen.wait_for("3 of 7")
        assert len(bars()) == 1
    text = screen.text()
    assert 0 < text.index("outer") < text.index("inner")
    assert "3 of 7" in text
    assert wiped(text)


def test_a_bar_that_is_refused_takes_those_within_along(terminal: Any) -> None:
    with (
        terminal() as screen,
        progress_bar("outer", 2, show=False),
        progress_bar("inner", 7, show=True),
    ):
        time.sleep(0.05)
        assert not bars()
    assert screen.text() == ""


def test_the_environment_silences_a_session(terminal: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("PROBREG_PROGRESS", "0")
    with terminal() as screen, progress_bar("work", 2):
        time.sleep(0.05)
    assert screen.text() == ""


def test_true_writes_the_last_bar_where_there_is_no_terminal(capsys: Any) -> None:
    with progress_bar("work", 2, show=True) as bar:
        bar.advance(2)
        time.sleep(0.05)
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith("work")
    assert "2 of 2, 0 s" in error


def test_names_cannot_steer_the_terminal(terminal: Any) -> None:
    with terminal() as screen, progress_bar("a\x1b[2Jb"):
        screen.wait_for("2Jb")
    text = screen.text()
    assert "a\\x1b[2Jb" in text
    assert "\x1b[2J" not in text


def test_threads_count_together_and_have_no_bars_of_their_own(terminal: Any) -> None:
    def work(_: int) -> bool:
        with progress_bar("within") as own:
            for _ in range(1000):
                bar.advance()
        return own.display is not None

    with terminal() as screen, progress_bar("work", 8000) as bar:
        assert each_of(work, range(8), "threads", workers=4, show=False) == [False] * 8
        assert bar.done == 8000
    assert "within" not in screen.text()


def test_a_notebook_has_a_bar_in_its_output(monkeypatch: Any) -> None:
    monkeypatch.setattr(terminal_module, "_QUIET", 0.0)
    shown: list[str] = []
    handle = types.SimpleNamespace(update=shown.append)
    ipython = types.SimpleNamespace(
        get_ipython=lambda: types.SimpleNamespace(kernel=object())
    )
    display = types.SimpleNamespace(
        HTML=str, display=lambda html, display_id: shown.append(html) or handle
    )
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    with progress_bar("<work>", 4) as bar:
        bar.advance()
        until = time.monotonic() + 20.0
        while len(shown) < 3 and time.monotonic() < until:
            time.sleep(0.01)
    assert shown[0] == shown[-1] == ""
    assert (
        '<div>&lt;work&gt; <progress value="1" max="4"></progress> 1 of 4, 0 s'
        in shown[-2]
    )


def test_counting_costs_less_than_a_hundredth_of_a_fit(terminal: Any) -> None:
    """A step of any loop here is a fit, of a fifth of a millisecond at least."""
    with terminal(), progress_bar("work", 10**5) as bar:
        best = min(
            _seconds(lambda: [None for _ in bar.over(range(10_000))]) for _ in range(5)
        )
    assert best / 10_000 < 2e-6


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


# ---- every verb ------------------------------------------------------------------------------------------------------------

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1500, 12))
CODED = (RNG.random(1500) < 0.5).astype(float)
FEW = pr.Model.from_arrays(
    X[:40, :2], CODED[:40], likelihood="bernoulli", prior=pr.Normal(1.0)
)
LARGE = pr.Model.from_arrays(X, CODED, likelihood="bernoulli", prior=pr.Normal(1.0))
LINE = pr.Model.from_arrays(
    X[:9, :1],
    X[:9, 1],
    prior={c: pr.Normal(2.0, sigma_units=True) for c in ("Intercept", "x1")},
    aux={"sigma": pr.priors.InverseGamma(3.0, 2.0)},
)
TRUTH = [0.0, 0.0, 0.0]
MUCH = 4000  # of a loop that an interrupt ends


def sampled(model: pr.Model, draws: int, show: bool | None) -> object:
    return pr.fit(model, pr.NUTS(draws=draws, tune=50, chains=2, progress=show))


# What lasts, by a size and whether to show it: nuts takes draws, others repetitions, scales or rows.
VERBS: dict[str, Callable[[int, bool | None], object]] = {
    "nuts": lambda n, show: sampled(
        FEW if n < MUCH else LARGE, 10 * n if n < MUCH else 100 * n, show
    ),
    "bootstrap": lambda n, show: pr.fit(
        FEW, pr.Bootstrap(reps=n if n < MUCH else 5 * n, progress=show)
    ),
    "bootstrap in threads": lambda n, show: pr.fit(
        FEW, pr.Bootstrap(reps=n if n < MUCH else 5 * n, workers=2, progress=show)
    ),
    "path": lambda n, show: pr.path(FEW, n=n, progress=show),
    "tune": lambda n, show: pr.tune(
        FEW, scales=np.geomspace(0.1, 10.0, n), folds=2, progress=show
    ),
    "compare_models": lambda n, show: [
        pr.compare_models([FITTED if n < MUCH else _large()], progress=show)
        for _ in range(1 if n < MUCH else 100)
    ],
    "sbc": lambda n, show: pr.sbc(LINE, "conjugate", n, progress=show),
    "coverage": lambda n, show: pr.coverage(
        FEW, TRUTH, kinds=["wald"], reps=n, progress=show
    ),
    "coverage in threads": lambda n, show: pr.coverage(
        FEW, TRUTH, kinds=["wald"], reps=n, workers=2, progress=show
    ),
    "bias_variance": lambda n, show: pr.bias_variance(
        FEW, [0.0, 0.0, 0.0], reps=n, progress=show
    ),
    "report": lambda n, show: [_reported(show) for _ in range(1 if n < MUCH else 50)],
    "conformal": lambda n, show: pr.conformal(FITTED, prob=0.8, progress=show),
    "bootstrap, asked of fit": lambda n, show: pr.fit(
        FEW, pr.Bootstrap(reps=n), progress=show
    ),
}


FITTED = pr.fit(FEW, "newton")


@functools.cache
def _large() -> pr.Fit:
    return pr.fit(LARGE, "newton", progress=False)


def test_profile_intervals_have_a_bar_within_that_of_who_asks(
    terminal: Any, monkeypatch: Any
) -> None:
    totals: list[int | None] = []
    opened = terminal_module._Display.open
    monkeypatch.setattr(
        terminal_module._Display,
        "open",
        lambda d, task: (totals.append(task.total), opened(d, task))[1],
    )
    g = np.char.mod("g%d", np.arange(24) % 6)
    y = np.random.default_rng(0).normal(size=24) + np.arange(24) % 6
    groups = pr.Model.from_formula("y ~ (1 | g)", {"y": y, "g": g})
    by_evidence = pr.fit(groups, pr.Evidence(criterion="ML"), progress=False)
    with terminal():
        FITTED.interval(kind="profile")
        by_evidence.interval(kind="profile")
        with progress_bar("silent", show=False):
            FITTED.interval(kind="score")
    assert totals == [3, 2]


def test_pymc_has_a_bar_while_it_compiles(terminal: Any, monkeypatch: Any) -> None:
    import pymc

    met: list[Any] = []

    def sample(*_: Any, **__: Any) -> None:
        met.append(terminal_module._CURRENT.get())
        raise TimeoutError

    monkeypatch.setattr(pymc, "sample", sample)
    with terminal(), pytest.raises(TimeoutError):
        pr.fit(FEW, "pymc")
    assert met[0].display is not None
    assert "compilation" in met[0].name


def _reported(show: bool | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pr.report({"ML": FITTED}, f"{folder}/page.html", progress=show)


LONG = [
    pytest.param(v, marks=[pytest.mark.slow] if v == "report" else []) for v in VERBS
]


@pytest.mark.filterwarnings("ignore::probreg.errors.ProbregWarning")  # so short a chain
@pytest.mark.parametrize("verb", LONG)
def test_every_verb_has_a_bar_that_can_be_refused(
    verb: str, terminal: Any, monkeypatch: Any
) -> None:
    met: list[str] = []
    opened = terminal_module._Display.open
    monkeypatch.setattr(
        terminal_module._Display,
        "open",
        lambda d, task: (met.append(task.name), opened(d, task))[1],
    )
    with terminal():
        VERBS[verb](5, False)
        assert met == []
        VERBS[verb](5, None)
    assert met[0].startswith(verb.split()[0].strip(","))
    assert not bars()


def test_every_public_function_with_a_bar_is_among_them() -> None:
    takes = {
        name for name in pr.__all__ if "progress" in _parameters(getattr(pr, name))
    } - {"PyMC"}  # which has the bar of PyMC
    assert {name.lower().replace("fit", "bootstrap") for name in takes} == {
        verb.split()[0].strip(",") for verb in VERBS
    }


def _parameters(thing: Any) -> tuple[str, ...]:
    with contextlib.suppress(ValueError):  # of a Literal and of what NumPy makes
        return tuple(inspect.signature(thing).parameters) if callable(thing) else ()
    return ()


# ---- interrupts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "verb", [v for v in VERBS if v != "conformal"]
)  # which is one fit, and those are here
def test_an_interrupt_arrives_at_once_and_leaves_nothing(
    verb: str, terminal: Any, monkeypatch: Any
) -> None:
    sent: list[float] = []

    def press() -> None:
        sent.append(time.process_time())
        os.kill(os.getpid(), signal.SIGINT)

    def interrupt() -> None:
        screen.wait_for(verb.split()[0].strip(","))
        press()

    def lost(
        what: Any,
    ) -> None:  # within a weak reference's callback Python drops an interrupt, and people press again
        if issubclass(what.exc_type, KeyboardInterrupt) and len(sent) < 3:
            threading.Timer(0.01, press).start()
        else:
            heard(what)

    heard = sys.unraisablehook
    monkeypatch.setattr(sys, "unraisablehook", lost)
    if "bootstrap" in verb:
        # what a thread is importing cannot be interrupted, and a file that is imported is left open
        VERBS[verb](5, False)
    # what is compiled is read from files, which an interrupt leaves open
    if verb == "nuts":
        with warnings.catch_warnings(action="ignore"):
            sampled(LARGE, 20, False)
    before = threading.active_count()
    with terminal() as screen:
        user = threading.Thread(target=interrupt)
        with pytest.raises(KeyboardInterrupt):
            _started(user, lambda: VERBS[verb](MUCH, None))
        # of all its threads: a busy machine delays both
        assert time.process_time() - sent[-1] < 2.0
        user.join()
    until = time.monotonic() + 20.0
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.01)  # a thread that was just starting ends by itself
    assert threading.active_count() <= before
    assert wiped(screen.text())


def _started(user: threading.Thread, work: Callable[[], object]) -> None:
    user.start()
    work()


PROCESSES = """
import probreg as pr
LINE = pr.Model.from_arrays(
    [[0.3], [-1.2], [0.8], [2.1]],
    [0.1, -0.7, 0.9, 1.6],
    prior={c: pr.Normal(2.0, sigma_units=True) for c in ("Intercept", "x1")},
    aux={"sigma": pr.priors.InverseGamma(3.0, 2.0)},
)
if __name__ == "__main__":
    try:
        print("begins", flush=True)
        pr.sbc(LINE, "conjugate", 10**6, workers=2)
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.slow
def test_a_terminals_interrupt_of_several_processes_leaves_none_and_no_traceback(
    tmp_path: Any,
) -> None:
    """Ctrl-C goes to all of them, once while they start, once while they work."""
    script, root = tmp_path / "run.py", str(Path(__file__).parents[2])
    script.write_text(PROCESSES)
    for wait in (0.5, 3.0):
        run = subprocess.Popen(
            [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
            env=os.environ | {"PYTHONPATH": root}, text=True,
        )  # fmt: skip
        assert run.stdout is not None
        assert run.stdout.readline() == "begins\n"
        time.sleep(wait)
        began = time.monotonic()
        os.killpg(run.pid, signal.SIGINT)
        out, err = run.communicate(timeout=60)
        assert (out, err) == ("interrupted\n", "")
        # the interpreter's own end on a busy machine included
        assert time.monotonic() - began < 30.0
        until = time.monotonic() + 30.0
        # Python's own tracker of resources ends when its pipe does
        while _alive(run.pid) and time.monotonic() < until:
            time.sleep(0.1)
        assert not _alive(run.pid)


def _alive(group: int) -> bool:
    """Whether a process of the group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True

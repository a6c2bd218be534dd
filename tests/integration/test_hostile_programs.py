"""Programs that fork, thread, close, chdir and die in odd ways run as under plain python."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

import syncscope
from syncscope.recording.reader import Recording
from syncscope.recording.trace_import import import_trace
from syncscope.recording.writer import RecordingWriter

Run = Callable[..., subprocess.CompletedProcess[str]]
CommandOf = Callable[[Sequence[str | Path]], list[str]]

NOT_CLEARED = (
    "Exception ignored on threading shutdown:\n"
    "OverflowError: Python int too large to convert to C long\n"
)
"""Said by Python 3.13.0 of an exit code as large as that: an error of its own that it forgot."""


def run_both(
    tmp_path: Path, ours: Run, text: str, *args: str
) -> tuple[subprocess.CompletedProcess[str], subprocess.CompletedProcess[str]]:
    """Run a program under plain python and under syncscope; its own output must be equal."""
    path = tmp_path / "prog.py"
    path.write_text(text)
    command = [sys.executable, "prog.py", *args]
    plain = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60)
    recorded = ours("run", "-o", "rec", "prog.py", *args, timeout=60)
    assert (recorded.returncode, recorded.stdout) == (plain.returncode, plain.stdout)
    assert recorded.stderr.startswith(plain.stderr.removeprefix(NOT_CLEARED)), recorded.stderr
    return plain, recorded


WITHOUT_TORCH = {
    "an executor that is never shut down": (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "pool = ThreadPoolExecutor(2)\nprint(pool.submit(pow, 2, 3).result())\n"
    ),
    "builtins of main are the module": (
        "print(type(__builtins__), sorted(globals()), __file__, __loader__.path)\n"
    ),
    "a relative script name after chdir": (
        "import os\nos.chdir('/')\ndef f():\n    raise ValueError(__file__)\nf()\n"
    ),
    "an interrupt runs exit handlers and waits for threads": (
        "import atexit, threading, time\natexit.register(print, 'bye')\n"
        "threading.Thread(target=lambda: (time.sleep(0.3), print('late'))).start()\n"
        "raise KeyboardInterrupt\n"
    ),
    "an excepthook sees an interrupt": (
        "import sys\nsys.excepthook = lambda kind, *rest: print('HOOK', kind)\n"
        "raise KeyboardInterrupt\n"
    ),
    "an excepthook that fails": (
        "import sys\ndef hook(*args):\n    raise ValueError('in hook')\n"
        "sys.excepthook = hook\nraise KeyError('x')\n"
    ),
    "a huge exit code": "raise SystemExit(2**70)\n",
    "stderr is closed": "import sys\nprint('hi')\nsys.stderr.close()\n",
    "both streams are None": "import sys\nprint('hi')\nsys.stdout = sys.stderr = None\n",
    "stdout has no flush": (
        "import sys\nclass Out:\n    closed = False\n    def write(self, text): pass\n"
        "    def flush(self): raise RuntimeError\nprint('hi')\n"
        "kept, sys.stdout = sys.stdout, Out()\n"
        "import atexit\natexit.register(lambda: setattr(sys, 'stdout', kept))\n"
    ),
    "a child that falls through": (
        "import os\npid = os.fork()\nif pid:\n    os.waitpid(pid, 0)\nprint(pid > 0)\n"
    ),
}


@pytest.mark.parametrize("name", WITHOUT_TORCH)
def test_a_program_without_torch_is_left_alone(
    tmp_path: Path, syncscope_command: Run, name: str
) -> None:
    _, recorded = run_both(tmp_path, syncscope_command, WITHOUT_TORCH[name])
    # once: a forked child has nothing to say; and not at all where there is no stderr
    assert recorded.stderr.count("never imported torch") <= 1


def test_an_error_from_the_api_has_the_programs_exit_code(
    tmp_path: Path, syncscope_command: Run
) -> None:
    (tmp_path / "prog.py").write_text("import syncscope\nsyncscope.load('nowhere')\n")
    result = syncscope_command("run", "prog.py")
    assert result.returncode == 1
    assert result.stderr.startswith("Traceback")


def test_threads_started_by_threads_belong_to_the_run(
    tmp_path: Path, syncscope_command: Run
) -> None:
    text = (
        "import threading, time, torch\n"
        "def first():\n    time.sleep(0.2)\n    threading.Thread(target=second).start()\n"
        "def second():\n    time.sleep(0.2)\n    torch.ones(2, device='cuda').sum().item()\n"
        "threading.Thread(target=first).start()\n"
    )
    (tmp_path / "prog.py").write_text(text)
    result = syncscope_command("run", "--device", "shadow", "-o", "rec", "prog.py")
    assert result.returncode == 0, result.stderr
    assert len(Recording(tmp_path / "rec").table("blocking")) == 1


TROUBLE = """
import importlib.util, os, sys
assert importlib.util.find_spec("torch") is not None
pid = os.fork()
import torch
if pid == 0:
    torch.ones(3, device="cuda").sum().item()
    sys.exit(3)
assert os.waitpid(pid, 0)[1] >> 8 == 3
os.chdir("/")
torch.ones(2, device="cuda").sum().item()
sys.meta_path.clear()
sys.path.clear()
def fail(x):
    return x @ torch.ones(4, 5, device="cuda")
try:
    fail(torch.ones(2, 3, device="cuda"))
except RuntimeError as error:
    raise ExceptionGroup("several", [error]) from error
"""


def test_find_spec_fork_chdir_and_a_failing_operator(
    tmp_path: Path, syncscope_command: Run
) -> None:
    (tmp_path / "prog.py").write_text(TROUBLE)
    result = syncscope_command("run", "--device", "shadow", "-o", "rec", "prog.py")
    assert result.returncode == 1
    assert "syncscope" not in result.stderr.partition("report:")[0].replace(str(tmp_path), "")
    assert result.stderr.count("mat1 and mat2") == 2
    assert result.stderr.count("report:") == 1
    recording = Recording(tmp_path / "rec")
    assert (len(recording.table("blocking")), recording.truncated) == (1, False)
    assert 'torch.ones(2, device="cuda").sum().item()' in set(
        recording.table("frames")["expression"]
    )


def test_a_recording_folder_that_is_removed_does_not_hurt(
    tmp_path: Path, syncscope_command: Run
) -> None:
    text = (
        "import shutil\nshutil.rmtree('rec', ignore_errors=True)\n"
        "import torch\nprint(torch.ones(2).sum().item())\n"
    )
    _, recorded = run_both(tmp_path, syncscope_command, text)
    assert "cut short" in recorded.stderr


def test_odd_names_and_arguments(tmp_path: Path, syncscope_command: Run) -> None:
    program = b"import sys\nprint(len(sys.argv))\n"
    for name in (b"b\xff.py", b"a" * 250 + b".py", "ü <b> 你.py".encode()):
        with open(os.fsencode(tmp_path) + b"/" + name, "wb") as file:
            file.write(program)
        result = syncscope_command("run", os.fsdecode(name), os.fsdecode(b"\xfe"))
        assert (result.returncode, result.stdout) == (0, "2\n"), result.stderr
    assert not (tmp_path / "syncscope-runs").exists()


def test_a_script_from_a_pipe_a_zip_and_compiled(tmp_path: Path, command_of: CommandOf) -> None:
    lines = (
        "echo 'print(__name__)' > __main__.py",
        f"{sys.executable} -m zipfile -c odd.name __main__.py",
        f'{sys.executable} -c \'import py_compile as p; p.compile("__main__.py", "c.pyc")\'',
        *(
            " ".join([*command_of(["run"]), name])
            for name in ("odd.name", "c.pyc", "<(cat __main__.py)")
        ),
    )
    result = subprocess.run(
        ["bash", "-c", "\n".join(lines)], cwd=tmp_path, capture_output=True, text=True
    )
    assert result.stdout == "__main__\n" * 3, result.stderr


def test_a_module_named_torch_and_a_safe_path(tmp_path: Path, syncscope_command: Run) -> None:
    (tmp_path / "torch.py").write_text("print('mine')\n")
    _, recorded = run_both(tmp_path, syncscope_command, "import torch\nprint(torch.__file__)\n")
    assert "recording could not start" in recorded.stderr
    (tmp_path / "path.py").write_text("import sys\nprint(sys.path[0])\n")
    env = os.environ | {"PYTHONSAFEPATH": "1"}
    plain = subprocess.run(
        [sys.executable, "path.py"], env=env, capture_output=True, text=True, cwd=tmp_path
    )
    assert syncscope_command("run", "path.py", env=env).stdout == plain.stdout


def test_ctrl_c_during_the_report_is_not_the_programs_exit_code(
    tmp_path: Path, command_of: CommandOf
) -> None:
    (tmp_path / "prog.py").write_text("import sys, torch\nsys.exit(6)\n")
    command = command_of(["run", "-o", "rec", "prog.py"])
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        # At once: its interpreter has hardly started then.
        while b"conclusion" not in Path(f"/proc/{process.pid}/cmdline").read_bytes():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 6
    assert errors.startswith("syncscope: interrupted"), errors


WARNINGS = """\
import threading, torch, warnings

def warn():
    for level in (2, 3, 4, 30):
        warnings.warn("far out", stacklevel=level)
    warnings.warn("old", DeprecationWarning, stacklevel=3)

warn()
warn()
thread = threading.Thread(target=warn)
thread.start()
thread.join()
for action in ("always", "once"):
    with warnings.catch_warnings():
        warnings.simplefilter(action)
        warn()
with warnings.catch_warnings():
    warnings.filterwarnings("ignore", module="sys")
    warn()
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    warn()
print([(warning.filename, warning.lineno) for warning in seen])
"""


def test_warnings_for_callers_that_a_program_has_not(
    tmp_path: Path, syncscope_command: Run
) -> None:
    plain, _ = run_both(tmp_path, syncscope_command, WARNINGS)
    assert plain.stderr.count("sys") > 3


ENDINGS = {
    "nothing is closed": (
        "import atexit, ctypes, torch\n"
        "log = open('log.txt', 'w')\nlog.write('kept')\n"
        "class Last:\n    def __del__(self): print('deleted')\n"
        "last = Last()\natexit.register(print, 'bye')\n"
        "ctypes.CDLL(None).printf(b'from C\\n')\nraise SystemExit(5)\n"
    ),
    "interrupted": "import atexit, torch\natexit.register(print, 'bye')\nraise KeyboardInterrupt\n",
    "an alarm is set": (
        "import signal, torch\nsignal.signal(signal.SIGPROF, lambda *_: None)\n"
        "signal.setitimer(signal.ITIMER_PROF, 0.7)\n"  # it would end the analysis, not the program
    ),
    "surroundings are changed": (
        "import os, sys, torch\n"
        "os.environ |= {'PYTHONHOME': '/nowhere', 'PYTHONPATH': '/nowhere'}\n"
        "sys.executable = sys.flags = '/nowhere'\n"
        "open('plotly.py', 'w').write('raise SystemExit(9)')\n"
    ),
    "analysed elsewhere": (
        "import atexit, sys, torch\ntorch.ones(2).sum().item()\n"
        "ours = {'pandas', 'plotly', 'syncscope.analysis'}\n"
        "atexit.register(lambda: print(ours & {*sys.modules}))\n"
    ),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_a_program_ends_as_under_python_and_then_is_analysed(
    tmp_path: Path, syncscope_command: Run, name: str
) -> None:
    _, recorded = run_both(tmp_path, syncscope_command, ENDINGS[name])
    assert "report: rec/report.html" in recorded.stderr
    assert (tmp_path / "rec" / "summary.json").exists()
    log = tmp_path / "log.txt"
    assert not log.exists() or log.read_text() == "kept"


def test_where_analysis_cannot_start_the_recording_is_kept(
    tmp_path: Path, syncscope_command: Run
) -> None:
    text = (
        "import os, torch\ndef refuse(*args):\n    raise OSError\n"
        "os.execve = refuse\nraise SystemExit(4)\n"
    )
    (tmp_path / "prog.py").write_text(text)
    result = syncscope_command("run", "-o", "rec", "prog.py")
    assert result.returncode == 4
    assert re.fullmatch(r"syncscope: .*`syncscope report .*rec` does.\n", result.stderr)
    assert Recording(tmp_path / "rec").manifest.state == "complete"


def test_output_that_finds_no_room_is_one_line(syncscope_command: Run) -> None:
    with open("/dev/full", "w") as full:
        result = syncscope_command(
            "doctor", capture_output=False, stdout=full, stderr=subprocess.PIPE
        )
    assert result.returncode != 0
    assert "Traceback" not in result.stderr


def test_ctrl_c_while_unwinding_waits_until_nothing_is_patched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = RecordingWriter.close

    def interrupted(self: RecordingWriter, manifest: object) -> None:
        signal.raise_signal(signal.SIGINT)
        close(self, manifest)  # type: ignore[arg-type]

    monkeypatch.setattr(RecordingWriter, "close", interrupted)
    with (
        pytest.raises(KeyboardInterrupt),
        syncscope.record(tmp_path / "rec", device="shadow"),
    ):
        pass
    assert not Recording(tmp_path / "rec").truncated
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_hook_that_fails_ends_the_recording_and_not_the_program(tmp_path: Path) -> None:
    with syncscope.record(tmp_path / "rec", device="shadow"):
        from syncscope import api

        api._active[-1].writer.before_flush.append(lambda: [][0])
    assert api._active == []


def test_a_decorator_with_a_folder_can_be_called_again(tmp_path: Path) -> None:
    @syncscope.record(tmp_path / "rec", device="shadow")
    def work() -> None:
        pass

    work()
    work()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["rec", "rec-2"]


def test_a_decorator_refuses_what_only_makes_an_object(tmp_path: Path) -> None:
    async def later() -> None:
        pass

    def items() -> object:
        yield 1

    for function in (later, items):
        with pytest.raises(syncscope.UsageError, match="inside it"):
            syncscope.record(tmp_path / "rec")(function)


@pytest.mark.parametrize("options", [{"steps": 0}, {"warmup": -1}, {"shadow_gpu": "Z9"}])
def test_options_that_mean_nothing_leave_no_folder(tmp_path: Path, options: dict[str, int]) -> None:
    with (
        pytest.raises(syncscope.UsageError),
        syncscope.record(tmp_path / "rec", **options),  # type: ignore[arg-type]
    ):
        pass
    assert not (tmp_path / "rec").exists()


def test_the_program_may_change_its_folder_while_it_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with syncscope.record("rec", device="shadow") as run:
        torch.ones(2, device="cuda").sum().item()
        syncscope.step()
        os.chdir("/")
    assert run.folder == tmp_path / "rec"
    assert run.summary().run.steps == 1


def test_only_one_of_many_threads_opens_a_recording(tmp_path: Path) -> None:
    together = threading.Barrier(8)

    def attempt(number: int) -> bool:
        together.wait()
        try:
            with syncscope.record(tmp_path / f"rec{number}", device="shadow"):
                time.sleep(0.3)
        except syncscope.UsageError as error:
            return "is open" not in str(error)
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(8))) == 1


def test_a_trace_with_odd_device_properties_is_imported(tmp_path: Path) -> None:
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 5, "pid": 0, "tid": 7}
    kernel["args"] = {"device": 0, "stream": 7}
    trace = {"traceEvents": [kernel], "deviceProperties": [{"id": [1], "name": 3}]}
    (tmp_path / "trace.json").write_text(json.dumps(trace))
    import_trace(tmp_path / "trace.json", tmp_path / "rec")
    assert len(Recording(tmp_path / "rec").table("activity")) == 1

"""Whether a program has other threads than its main one, of which those of syncscope are none.

In a process of its own each, as the runner of the tests has threads.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap

BEFORE = """
import os, threading, time
from syncscope.own_threads import program_has_one, start_own

ended = threading.Event()

def soon():
    until = time.monotonic() + 10
    while not program_has_one() and time.monotonic() < until:
        time.sleep(0.001)
    return program_has_one()

assert program_has_one()
ours = [start_own(ended.wait, name) for name in ("a", "b")]
assert [thread.name for thread in ours] == ["syncscope-a", "syncscope-b"]
assert soon()
"""


def holds(code: str) -> None:
    """The code runs to its end beside two threads of ours."""
    ran = subprocess.run(
        [sys.executable, "-c", BEFORE + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr


def test_our_own_threads_do_not_count() -> None:
    holds("""
        ended.set()
        for thread in ours:
            thread.join()
        assert soon()
        """)


def test_a_thread_of_the_program_counts_until_it_ends() -> None:
    holds("""
        seen = []
        thread = threading.Thread(target=lambda: (seen.append(program_has_one()), ended.wait()))
        thread.start()
        assert not program_has_one()
        ended.set()
        thread.join()
        assert seen == [False]
        assert soon()
        """)


def test_a_thread_of_ours_that_failed_is_not_taken_for_one_of_the_program() -> None:
    holds("""
        threading.excepthook = lambda failure: None
        start_own(lambda: 1 / 0, "c").join()
        assert soon()
        thread = threading.Thread(target=ended.wait, daemon=True)
        thread.start()
        assert not program_has_one()
        """)


def test_a_forked_child_does_not_take_its_threads_for_ours() -> None:
    holds("""
        child = os.fork()
        if not child:
            threading.Thread(target=ended.wait, daemon=True).start()
            os._exit(program_has_one())
        _, status = os.waitpid(child, 0)
        assert status == 0
        """)

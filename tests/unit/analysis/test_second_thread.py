"""The second thread, also where there can be none."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading

from syncscope.analysis.second_thread import SecondThread


def test_tasks_run_in_order_beside_the_caller() -> None:
    seen: list[int] = []
    with SecondThread() as second:
        threads = [second.submit(threading.get_ident) for _ in range(2)]
        tasks = [second.submit(seen.append, number) for number in range(9)]
    assert threads[0].result() == threads[1].result() != threading.get_ident()
    assert all(task.done() for task in tasks)
    assert seen == list(range(9))


def test_after_the_interpreter_began_to_shut_down_the_caller_does_the_work() -> None:
    program = """
        import atexit, threading
        from syncscope.analysis.second_thread import SecondThread

        def late():
            with SecondThread() as second:
                print(second.submit(threading.get_ident).result() == threading.get_ident())

        atexit.register(late)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("True\n", "")

"""A thread beside the calling one, for work that the rest does not wait for."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class SecondThread(ThreadPoolExecutor):
    """Runs what it is given in order; right in the caller where Python starts no threads any more.

    That is so once the interpreter shuts down: an exit handler may still ask for a report.
    """

    def __init__(self) -> None:
        super().__init__(max_workers=1)

    def submit(
        self,
        task: Callable[_Arguments, _Result],
        /,
        *args: _Arguments.args,
        **kwargs: _Arguments.kwargs,
    ) -> Future[_Result]:
        """The task's result to come. Raises what the task raises if it runs in the caller."""
        try:
            return super().submit(task, *args, **kwargs)
        except RuntimeError:
            done: Future[_Result] = Future()
            done.set_result(task(*args, **kwargs))
            return done

"""When a window ends that no number of steps bounds.

What CUPTI records stays in memory until the window ends, and the program stands still while it is
read. On an H200, 650,000 kernels of 10 s came to 2 GB and 21 s, 3,200,000 of 40 s to 10 GB and
110 s.
"""

from __future__ import annotations

SECONDS, STEPS = 10.0, 10
"""It ends with the first step that ends after so long and so many steps."""

SECONDS_WITHOUT_STEPS, WAITS = 60.0, 1000
"""Or with the first wait after so long and so many waits without the end of a step."""


class WindowLimit:
    """Follows a window from `began_ns` on: `over` is true from the moment when it should end.

    `seconds` are what was asked for, in place of all the limits above.
    """

    def __init__(self, seconds: float | None, began_ns: int) -> None:
        self.over = False
        self._by_time_alone = seconds is not None
        self._for_steps_ns = 1e9 * (SECONDS if seconds is None else seconds)
        self._for_waits_ns = 1e9 * (SECONDS_WITHOUT_STEPS if seconds is None else seconds)
        self._began_ns = self._step_ns = began_ns
        self._steps = self._waits = 0

    def step_ended(self, now_ns: int) -> None:
        """A step of the window ended."""
        self._steps, self._waits, self._step_ns = self._steps + 1, 0, now_ns
        if now_ns >= self._began_ns + self._for_steps_ns:
            self.over = self.over or self._by_time_alone or self._steps >= STEPS

    def waited(self, now_ns: int) -> None:
        """A wait of the window ended."""
        self._waits += 1
        if now_ns >= self._step_ns + self._for_waits_ns:
            self.over = self.over or self._by_time_alone or self._waits >= WAITS

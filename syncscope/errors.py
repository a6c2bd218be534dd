"""What can go wrong for a user, and the exit code of each.

A `SyncscopeError` is shown as one line without a traceback. Anything else is a bug of
ours and keeps its traceback.
"""

from __future__ import annotations


class SyncscopeError(Exception):
    """Base class: the message says what is wrong and what to do about it."""

    exit_code = 1


class UsageError(SyncscopeError):
    """The command or the call cannot be carried out as it was given."""

    exit_code = 2


class RecordingError(SyncscopeError):
    """A recording (or a trace) cannot be read."""

    exit_code = 3


class ShadowUnsupportedError(SyncscopeError):
    """The program asks for something that the shadow GPU cannot do."""

    exit_code = 2


class ImplicitSyncError(RuntimeError):
    """The program made the host wait for the GPU where `syncscope.forbid` forbids it."""

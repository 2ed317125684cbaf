"""Errors that a user can cause and fix: one clear sentence, exit code 2."""

import traceback


class OneSentence:
    """For errors whose message says it all: a notebook shows it without the stack of calls, which ``%tb`` shows."""

    _is_shown = False

    def _render_traceback_(self) -> list[str]:  # asked for by IPython
        if self._is_shown:
            return traceback.format_exception(self)  # pyright: ignore[reportCallIssue, reportArgumentType] an exception
        self._is_shown = True
        return [f"{type(self).__name__}: {self}", "(%tb shows where it came from)"]


class UserError(OneSentence, Exception):
    """Something the user can fix. The message is one sentence that says what is wrong and what to do."""


class DataUnavailable(UserError):
    """A data set is unavailable from all of the allowed sources: it costs its own figure, never the run."""

"""Errors that a person can cause and mend: one clear sentence, exit code 2."""


class UserError(Exception):
    """Something the user can mend. The message is one sentence that says what is wrong and what to do."""


class DataUnavailable(UserError):
    """A data set cannot be had from any of the allowed sources: it costs its own figure, never the run."""

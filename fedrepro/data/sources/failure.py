"""Why a source could not serve: caught where the next source is tried, reported to the user when none is left."""


class SourceFailed(Exception):
    """One source cannot serve one variant; the message is a clause that fits into a list of what was tried."""

"""The kernel of a notebook that runs from top to bottom: ``python -m fedrepro.paper.kernel -f FILE``.

It is IPython's, and begins with the trials while it starts.
"""

import contextlib

from fedrepro import settings
from fedrepro.paper import ahead


def main() -> None:
    """Begin with the trials, and serve the notebook."""
    settings.leave_quickly()
    with contextlib.suppress(Exception):  # a mistake is shown where the notebook makes it
        ahead.begin()
    from ipykernel.kernelapp import launch_new_instance

    launch_new_instance()


if __name__ == "__main__":  # not in the processes that it starts
    main()

"""The site: what holds, claim by claim, and every figure and table beside what its paper printed."""

from fedrepro.reproduction.report.site import build, summary_lines

__all__ = ["build", "summary_lines"]

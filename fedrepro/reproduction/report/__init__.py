"""The page: a scorecard of all papers, and every figure and table beside what its paper printed."""

from fedrepro.reproduction.report.page import build, summary_lines

__all__ = ["build", "summary_lines"]

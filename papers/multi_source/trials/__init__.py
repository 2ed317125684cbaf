"""The trials of the survey, one module for each group of its sections."""

"""The running tower: studies run trials, papers record what came of them, verdicts judge it, the report shows it."""

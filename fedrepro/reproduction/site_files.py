"""Names of what the report writes into a paper's output folder, beside what its notebook wrote there."""

INDEX, CODE, REFERENCE = "index.html", "code.html", "reference"
WRITTEN_BESIDE_A_PAPER = (INDEX, CODE, REFERENCE)

"""The sets of hyper-parameters in use on Adult, by attribute, features and where Adagrad's sums begin.

They are of what is not trained by the parameters of ``paper.toml``, the set of Table 1's primary reading: the other
readings, and the domains of Section 2.3. A set that was chosen for one would handicap the others. The rule is
`claims.chosen`, on all five folds; ``tools/pick_settings.py afl`` writes here what it picks.
"""

PICKED: dict[tuple[str, str, float], dict] = {
    ("doctorate", "without education", 0.0): {"step": 0.03, "step_domains": 0.1, "steps": 1000},
    ("doctorate", "with education", 0.1): {"step": 0.3, "step_domains": 0.01, "steps": 200},
    ("doctorate", "with education", 0.0): {"step": 0.03, "step_domains": 0.0001, "steps": 1000},
    ("sex", "without education", 0.1): {"step": 0.1, "step_domains": 0.001, "steps": 10000},
    ("race", "without education", 0.1): {"step": 0.03, "step_domains": 0.1, "steps": 10000},
}

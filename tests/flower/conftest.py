"""Makes ``cases`` importable: under importlib's import mode no test folder is on ``sys.path``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

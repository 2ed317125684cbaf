"""Runs every strategy for Flower on its own simulation engine, twice, and compares with ours: ``make ray``.

The same cases as ``tests/flower``, whose nodes run in this process. Here they run in Ray's workers, reply in the order
of completion, and connect one after the other, so that a strategy has to wait for all of them.
"""

import os
import sys
import time
from pathlib import Path

os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0", "FLWR_LOG_LEVEL": "WARNING"}

import fedrepro

fedrepro.prepare()
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "flower"))

from cases import CASES, NODES, ROUNDS, differences  # noqa: E402 NumPy comes after prepare()
from flwr.serverapp import ServerApp  # noqa: E402
from flwr.simulation import run_simulation  # noqa: E402

from fedrepro.flower.records import arrays_of  # noqa: E402

TIMES = 2


def simulated(name: str) -> list[str]:
    """What differs from our engine, in words."""
    case, wrong = CASES[name](), []
    server = ServerApp()

    @server.main()
    def main(grid, context):
        strategy = case.strategy()
        for _ in range(TIMES):
            result = strategy.start(grid, case.start, num_rounds=ROUNDS)
            wrong.extend(differences(case, strategy, arrays_of(result.arrays)))

    resources = {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}}
    run_simulation(server_app=server, client_app=case.app, num_supernodes=NODES, backend_config=resources)
    return wrong


def main(names: list[str]) -> int:
    """Run the cases with these names, or all; 1 if one of them differs."""
    failed = False
    for name in names or CASES:
        start = time.perf_counter()
        wrong = simulated(name)
        found = "; ".join(wrong) or ("the same bytes" if CASES[name]().same_bytes else "agrees to 1e-12")
        print(f"{name}: {found} (twice, {time.perf_counter() - start:.0f} s)", flush=True)
        failed |= bool(wrong)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

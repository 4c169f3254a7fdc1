"""`python -m tailback.astra.network CONFIG`: the plan of ASTRA-sim's network, as JSON for libtailback."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection

from tailback.errors import InputError
from tailback.hpcc.inputs import HpccInputs, load_network
from tailback.hpcc.keys import ASTRA_SIM
from tailback.hpcc.plan import LATEST_END_S, make_plan
from tailback.plan import plan_json


def astra_network(
    config: str | os.PathLike[str], *, beside: bool = False, ignore: Collection[str] = ()
) -> HpccInputs:
    """Reads config.txt and the topology for the fork of the HPCC simulator in ASTRA-sim; a run ends with the work.

    Raises:
        InputError: as `load_network`.
    """
    network = load_network(config, beside=beside, variant=ASTRA_SIM, ignore=ignore)
    network.config.values["SIMULATOR_STOP_TIME"] = LATEST_END_S
    return network


def main() -> int:
    """Prints the plan; on bad input, prints a line to stderr and returns 2."""
    if len(sys.argv) != 2:
        print("usage: python -m tailback.astra.network CONFIG", file=sys.stderr)
        return 2
    try:
        print(plan_json(make_plan(astra_network(sys.argv[1]))))
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

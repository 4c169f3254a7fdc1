"""A row a file that is refused: what is wrong in it, and the one line that says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from hpcc_files import CONFIG, FLOW, TOPOLOGY, refusal, without, write


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        # config.txt
        ({"config": None}, "config.txt: expected a text file, found none: no such file or directory"),
        ({"config": ""}, "config.txt: expected TOPOLOGY_FILE (nodes, switches and links): it has no usable default"),
        ({"config": without("FLOW_FILE")}, "config.txt: expected FLOW_FILE (the flows, sorted by start): it has no usable default"),
        ({"config": without("RP_TIMER")}, "config.txt: expected RP_TIMER (DCQCN: period of the rate increase): it has no usable default"),
        ({"config": without("EWMA_GAIN")}, "config.txt: expected EWMA_GAIN (DCQCN and DCTCP: g): it has no usable default"),
        ({"config": without("RATE_HAI")}, "config.txt: expected RATE_HAI (DCQCN and TIMELY: hyper increase): it has no usable default"),
        ({"config": without("L2_ACK_INTERVAL")}, "config.txt: L2_ACK_INTERVAL: expected at least 1: with 0 no packet is acknowledged, and no flow ends"),
        ({"config": CONFIG + "L2_BACK_TO_ZERO 1"}, "config.txt: L2_CHUNK_SIZE: expected at least 1: L2_BACK_TO_ZERO, and packets below L2_ACK_INTERVAL, divide by it"),
        ({"config": CONFIG + "RP_TIMER"}, "config.txt:18: end of file: expected the value of RP_TIMER"),
        ({"config": CONFIG + "RP_TIMER x"}, "config.txt:18: token 'x': expected the value of RP_TIMER, a number from 1 to 1000000000"),
        ({"config": CONFIG + "RP_TIMER 0.5"}, "config.txt:18: token '0.5': expected the value of RP_TIMER, a number from 1 to 1000000000"),
        ({"config": CONFIG + "\n\nHAS_WIN yes"}, "config.txt:20: token 'yes': expected the value of HAS_WIN, a whole number from 0 to 4294967295"),
        ({"config": CONFIG + "BUFFER_SIZE 3.5"}, "config.txt:18: token '3.5': expected the value of BUFFER_SIZE, a whole number from 1 to 4095"),
        ({"config": CONFIG + "RATE_AI 50Gbpm"}, "config.txt:18: token '50Gbpm': expected the value of RATE_AI, a rate, such as 100Gbps or 25Gb/s"),
        ({"config": CONFIG + "KMAX_MAP 1000000000 5 5"}, "config.txt:18: end of file: expected the value of KMAX_MAP: a rate in bit/s"),
        ({"config": CONFIG + "KMAX_MAP 1 40000000000 1"}, "config.txt:18: KMAX_MAP: expected a value for 100000000000 bit/s, the rate of a switch's link (number 1)"),
        ({"config": CONFIG + "KMIN_MAP 1 100000000000 1601"}, "config.txt:18: KMIN_MAP: 1601 for 100000000000 bit/s is above KMAX_MAP's 1600"),
        ({"config": CONFIG + "LINK_DOWN 5 0 1"}, "config.txt:18: LINK_DOWN: expected two nodes with a link between them, found 0 and 1"),
        ({"config": CONFIG + "SIMULATOR_STOP_TIME 0"}, "config.txt:18: SIMULATOR_STOP_TIME: expected a time after 0 s"),
        ({"config": CONFIG + "SIMULATOR_STOP_TIME nan"}, "config.txt:18: token 'nan': expected the value of SIMULATOR_STOP_TIME, a number from 0 to 1e+15"),
        ({"config": CONFIG + "CC_MODE 3 INT_MULTI 0"}, "config.txt:18: token '0': expected the value of INT_MULTI, a whole number from 1 to 4294967295"),
        ({"config": CONFIG + "CC_MODE 10 PINT_LOG_BASE 1"}, "config.txt:18: token '1': expected the value of PINT_LOG_BASE, a number from 1.00001 to 1000000000"),
        ({"config": CONFIG + "TAILBACK_VARIANT ns3"}, "config.txt:18: TAILBACK_VARIANT: expected hpcc, astra-sim or simai"),
        ({"topology": None}, "config.txt:3: token 'topology.txt': expected a text file, found none: no such file or directory"),
        ({"config": CONFIG + "FLOW_FILE ."}, "config.txt:18: token '.': expected a regular file of at most 128MiB, found a directory"),
        ({"config": CONFIG.encode() + b"FLOW_FILE a\0b"}, "config.txt:18: token 'a\\x00b': expected a text file, found a name that no file can have"),
        # topology.txt
        ({"topology": ""}, "topology.txt:1: end of file: expected the number of nodes"),
        ({"topology": b"\x7fELF\x02\x01\x01\x00"}, "topology.txt:1: token '\\x7fELF\\x02\\x01\\x01\\x00': expected the number of nodes, a whole number from 1 to 65536"),
        ({"topology": "1000000000000 1 2"}, "topology.txt:1: token '1000000000000': expected the number of nodes, a whole number from 1 to 65536"),
        ({"topology": "3 4 2"}, "topology.txt:1: token '4': expected the number of switches, a whole number from 0 to 3"),
        ({"topology": TOPOLOGY.replace("3 1 2", "3 1 4000000000")}, "topology.txt:1: token '4000000000': expected the number of links: 3 of 5 tokens each follow the switches"),
        ({"topology": TOPOLOGY.replace("\n2\n", "\n3\n")}, "topology.txt:2: token '3': expected the id of a switch, a whole number from 0 to 2"),
        ({"topology": TOPOLOGY.replace("3 1 2\n", "3 2 2\n2 ")}, "topology.txt:2: token '2': expected a switch that is not yet listed"),
        ({"topology": TOPOLOGY.replace("1 2 100", "1 9 100")}, "topology.txt:4: token '9': expected the id of a node, a whole number from 0 to 2"),
        ({"topology": TOPOLOGY.replace("1 2 100", "1 1 100")}, "topology.txt:4: token '1': expected another node than the link's first"),
        ({"topology": TOPOLOGY.replace("100Gbps 1000ns", "100GBit 1000ns")}, "topology.txt:3: token '100GBit': expected a rate, such as 100Gbps or 25Gb/s"),
        ({"topology": TOPOLOGY.replace("1us", "1us0")}, "topology.txt:4: token '1us0': expected a time, such as 1000ns, 0.001ms or 1us"),
        ({"topology": TOPOLOGY.replace("1us 0", "1us 1.5")}, "topology.txt:4: token '1.5': expected an error rate, a number from 0 to 1"),
        # flow.txt
        ({"flow": "\n \n"}, "flow.txt:1: end of file: expected the number of flows"),
        ({"flow": "-1"}, "flow.txt:1: token '-1': expected the number of flows, a whole number from 0 to 4294967295"),
        ({"flow": FLOW.replace("2\n0", "1000000000000\n0")}, "flow.txt:1: token '1000000000000': expected the number of flows, a whole number from 0 to 4294967295"),
        ({"flow": FLOW.replace("2\n0", "4000000000\n0")}, "flow.txt:1: token '4000000000': expected the number of flows: 2 of 6 tokens each follow"),
        ({"flow": FLOW.replace("2\n0", "27\n0")}, "flow.txt:1: token '27': expected the number of flows: 2 of 6 tokens each follow (2 and a stray digit?)"),
        ({"flow": FLOW.replace("1 0 3", "7 0 3")}, "flow.txt:3: token '7': expected the id of the sending host, a whole number from 0 to 2"),
        ({"flow": FLOW.replace("1 0 3", "1 2 3")}, "flow.txt:3: token '2': expected a host, found switch 2"),
        ({"flow": FLOW.replace("1 0 3", "1 1 3")}, "flow.txt:3: token '1': expected another host than the sender"),
        ({"flow": FLOW.replace("1 0 3", "1 0 8")}, "flow.txt:3: token '8': expected a priority, a whole number from 0 to 7"),
        ({"flow": FLOW.replace("3 100 20000", "3 65536 20000")}, "flow.txt:3: token '65536': expected a destination port, a whole number from 0 to 65535"),
        ({"flow": FLOW.replace("20000", "4294967296")}, "flow.txt:3: token '4294967296': expected bytes to send, a whole number from 1 to 4294967295"),
        ({"flow": FLOW.replace("20000", "2_0")}, "flow.txt:3: token '2_0': expected bytes to send, a whole number from 1 to 4294967295"),
        ({"flow": FLOW.replace("20000", "0")}, "flow.txt:3: token '0': expected bytes to send, a whole number from 1 to 4294967295"),
        ({"flow": FLOW.replace("2.000000577", "1.9")}, "flow.txt:3: token '1.9': expected a start not before that of the flow above, 2000000000 ns (flows are sorted by start)"),
        ({"flow": FLOW.replace("2.000000577", "inf")}, "flow.txt:3: token 'inf': expected the start in seconds, a number from 0 to 9223372036.85478"),
        ({"flow": FLOW.replace("2.000000577", "1e999")}, "flow.txt:3: token '1e999': expected the start in seconds, a number from 0 to 9223372036.85478"),
        ({"flow": FLOW.replace("10000", "9" * 6000)}, "flow.txt:2: token '" + "9" * 57 + "...': expected bytes to send, a whole number from 1 to 4294967295"),
        ({"topology": TOPOLOGY.replace("3 1 2", "3 1 1")}, "flow.txt:2: token '1': expected a host that host 0 has a route to"),
        # trace.txt
        ({"trace": "3 0 1"}, "trace.txt:1: token '3': expected the number of traced nodes: 2 tokens follow"),
        ({"trace": "1 x"}, "trace.txt:1: token 'x': expected a node id, a whole number from 0 to 4294967295"),
    ],
)  # fmt: skip
def test_errors(tmp_path: Path, changed: dict[str, str | bytes | None], line: str) -> None:
    write(tmp_path, **changed)
    assert refusal(tmp_path) == line

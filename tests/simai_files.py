"""Small inputs of SimAI: GPUs in servers of eight with an NVSwitch each, rails, two spines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tailback.simai.inputs import SimaiOptions

CONFIG = """ENABLE_QCN 1
USE_DYNAMIC_PFC_THRESHOLD 1
PACKET_PAYLOAD_SIZE 9000
FLOW_FILE flow1.txt
TRACE_FILE trace1.txt
SIMULATOR_STOP_TIME 40000000000000.00
CC_MODE 1
ALPHA_RESUME_INTERVAL 1
RATE_DECREASE_INTERVAL 4
RP_TIMER 900
EWMA_GAIN 0.00390625
FAST_RECOVERY_TIMES 1
RATE_AI 50Mb/s
RATE_HAI 100Mb/s
L2_CHUNK_SIZE 4000
L2_ACK_INTERVAL 1
HAS_WIN 1
GLOBAL_T 0
VAR_WIN 1
ENABLE_TRACE 0
KMAX_MAP 1 400000000000 3200
KMIN_MAP 1 400000000000 800
PMAX_MAP 1 400000000000 0.2
BUFFER_SIZE 32
QLEN_MON_FILE qlen.txt
BW_MON_FILE bw.txt
MON_END 20000
"""
FIRST = (
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 8 ep: 1 pp: 1 vpp: 1 ga: 1 all_gpus: 16 "
    "checkpoints: 0 checkpoint_initiates: 0"
)
LAYERS = (
    "embedding_layer -1 55600 ALLREDUCE 1048576 1000 NONE 0 1 ALLREDUCE 1000000 1",
    "attention -1 5560 ALLGATHER 1000000 1200 REDUCESCATTER 2000000 1 NONE 0 1",
)


def workload(*layers: str, first: str = FIRST) -> str:
    return "\n".join([first, str(len(layers)), *layers]) + "\n"


def topology(servers: int = 2, per_server: int = 8) -> str:
    """Each GPU on its NVSwitch and on the switch of its rail; each rail on two spines."""
    gpus = servers * per_server
    inner = range(gpus, gpus + servers)
    rails = range(inner.stop, inner.stop + per_server)
    spines = range(rails.stop, rails.stop + 2)
    links = []
    for gpu in range(gpus):
        links.append(f"{gpu} {inner[gpu // per_server]} 2880Gbps 0.000025ms 0")
        links.append(f"{gpu} {rails[gpu % per_server]} 400Gbps 0.0005ms 0")
    links += [f"{rail} {spine} 400Gbps 0.0005ms 0" for rail in rails for spine in spines]
    ids = " ".join(map(str, [*inner, *rails, *spines]))
    first = f"{spines.stop} {per_server} {servers} {per_server + 2} {len(links)} H100"
    return "\n".join([first, ids, *links]) + "\n"


def write(folder: Path, text: str = "", net: str = "", conf: str = CONFIG, **more: Any) -> SimaiOptions:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "w.txt").write_text(text or workload(*LAYERS))
    (folder / "net").write_text(net or topology())
    (folder / "SimAI.conf").write_text(conf)
    return SimaiOptions(folder / "w.txt", folder / "net", folder / "SimAI.conf", **({"send_lat": 6} | more))

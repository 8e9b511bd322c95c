"""The networks between nodes and links inside them that have fitted constants, or what stands in."""

from __future__ import annotations

from typing import Final

INFINIBAND: Final = "InfiniBand"
ROCE: Final = "RoCE"
ROCE_GIB: Final = "RoCE gIB"
EFA_V1: Final = "EFA v1"
EFA_V2: Final = "EFA v2"
EFA_V3: Final = "EFA v3"
EFA_V4: Final = "EFA v4"
TCPXO: Final = "GPUDirect-TCPXO"
TCPX: Final = "GPUDirect-TCPX"
OMNI_PATH: Final = "Omni-Path"
SLINGSHOT: Final = "Slingshot 11"
TCP: Final = "TCP"
NVLINK_3: Final = "NVLink 3"

LIKE: Final = {
    ROCE: INFINIBAND,
    ROCE_GIB: ROCE,
    EFA_V1: INFINIBAND,
    EFA_V2: INFINIBAND,
    EFA_V3: EFA_V2,
    EFA_V4: EFA_V3,
    TCPXO: INFINIBAND,
    TCPX: TCPXO,
    OMNI_PATH: INFINIBAND,
    SLINGSHOT: INFINIBAND,
    TCP: TCPX,
}
"""What stands in for a network without constants: the same verbs, the same maker, else InfiniBand."""

"""The wires of a lab: a bridge in a namespace of its own, an uplink a node, each limited both ways.

# Note [Where the limit sits]
A token bucket (`tc tbf`) limits what leaves an interface. So a node's uplink has one at the node, for what
it sends, and one at the bridge's end, for what it is sent; together they are a full-duplex link. The
bridge's queue is deep enough that nothing is dropped, and delay comes from the rate alone.
Ranks of one node talk to its address over its loopback, by the kernel's own routing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zerosim_runtime.lab.commands import LabError, batch, call
from zerosim_runtime.lab.namespaces import Namespace, open_namespaces
from zerosim_runtime.lab.shape import Shape

UPLINK: Final = "uplink"
"""The interface of a node that leads to the others."""
_BURST_BYTES: Final = 64 * 1024
_LOOPBACK_BURST_BYTES: Final = 256 * 1024
"""Packets of the loopback are up to 64 KiB."""
_BURST_S: Final = 1e-3
_QUEUE_S: Final = 0.2
_CONTROL: Final = "cubic"
_PROC: Final = Path("/proc/sys/net/ipv4")


@dataclass(frozen=True, slots=True)
class Lab:
    """A lab that stands: its namespaces, node by node, and that of the bridge."""

    shape: Shape
    nodes: tuple[Namespace, ...]
    switch: Namespace


@contextmanager
def open_lab(shape: Shape) -> Iterator[Lab]:
    """Make a lab; when the block ends, nothing is left of it. Raises LabError."""
    with open_namespaces(shape.nodes + 1) as (switch, *nodes):
        lab = Lab(shape, tuple(nodes), switch)
        _wire(lab)
        _limit(lab)
        yield lab


def drop_link(lab: Lab, node: int) -> None:
    """Pull a node's cable: nothing gets through any more, and nobody is told. Raises LabError."""
    call([*lab.switch.prefix, "ip", "link", "set", _port(node), "down"])


def restore_link(lab: Lab, node: int) -> None:
    """Plug it in again. Raises LabError."""
    call([*lab.switch.prefix, "ip", "link", "set", _port(node), "up"])


def congestion_control() -> str | None:
    """The congestion control that routes of the lab are given; None: the default is good enough.

    BBR, the default of some clouds, measures the link it is on: a ring's bursts do not fill it.
    """
    default = (_PROC / "tcp_congestion_control").read_text().strip()
    available = (_PROC / "tcp_available_congestion_control").read_text().split()
    return _CONTROL if default != _CONTROL and _CONTROL in available else None


def _port(node: int) -> str:
    """The bridge's end of a node's uplink."""
    return f"node-{node}"


def _wire(lab: Lab) -> None:
    shape = lab.shape
    lines = [
        "link set lo up",
        "link add switch type bridge forward_delay 0 mcast_snooping 0",
        "link set switch addrgenmode none up",
    ]
    for index, node in enumerate(lab.nodes):
        lines += [
            f"link add {_port(index)} type veth peer name {UPLINK} netns {node.pid}",
            f"link set {_port(index)} master switch addrgenmode none mtu {shape.mtu} up",
        ]
    batch(lab.switch.prefix, "ip", lines)
    for index, node in enumerate(lab.nodes):
        lines = [
            "link set lo up",
            f"link set {UPLINK} addrgenmode none mtu {shape.mtu}",
            f"addr add {shape.address(index)}/24 dev {UPLINK}",
            f"link set {UPLINK} up",
        ]
        if (control := congestion_control()) is not None:
            own = f"src {shape.address(index)}"
            lines += [f"route change 10.0.0.0/24 dev {UPLINK} scope link {own} congctl {control}"]
        batch(node.prefix, "ip", lines)


def _limit(lab: Lab) -> None:
    shape = lab.shape
    up = _bucket(shape.inter, _BURST_BYTES)
    for node in lab.nodes:
        lines = [f"qdisc add dev {UPLINK} root handle 1: {up}"]
        if shape.intra is not None:
            lines.append(f"qdisc add dev lo root {_bucket(shape.intra, _LOOPBACK_BURST_BYTES)}")
        batch(node.prefix, "tc", lines)
    batch(
        lab.switch.prefix,
        "tc",
        [f"qdisc add dev {_port(node)} root {up}" for node in range(shape.nodes)],
    )
    if shape.latency_s:
        _delay(lab)


def _delay(lab: Lab) -> None:
    microseconds = round(lab.shape.latency_s * 1e6)
    for node in lab.nodes:
        try:
            line = f"qdisc add dev {UPLINK} parent 1: netem delay {microseconds}us limit 100000"
            batch(node.prefix, "tc", [line])
        except LabError as error:
            raise LabError(
                f"this kernel cannot add a delay ({error}): leave --latency out, or load sch_netem"
            ) from None


def _bucket(rate: float, burst: int) -> str:
    """The token bucket of a rate in bytes a second. Fast ones need a burst that covers a timer's tick."""
    burst = max(burst, round(rate * _BURST_S))
    queue = max(burst, round(rate * _QUEUE_S))
    return f"tbf rate {round(rate * 8)}bit burst {burst}b limit {queue}b"

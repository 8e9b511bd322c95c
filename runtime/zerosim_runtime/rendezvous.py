"""Where the ranks of several machines meet, what torchrun is told about it, and the interface they talk by."""

from __future__ import annotations

import fcntl
import re
import socket
import struct
from dataclasses import dataclass
from typing import Final

from zerosim.errors import InputError

MAX_NODES: Final = 4096
_JOIN_S: Final = 300
"""How long a node waits for the others to come."""
_ENDPOINT: Final = re.compile(
    r"(?P<host>[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})|\[[0-9A-Fa-f:.]+\]):(?P<port>\d{1,5})"
)
_SIOCGIFADDR: Final = 0x8915
_LAST_PORT: Final = 65535


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """The place where the agents of `nnodes` nodes meet; the first node listens there.

    `node_rank` None: nodes are numbered as they come, and may come again after a failure
    (torchrun's c10d); else the number of this node (static). `name` keeps runs apart that meet at one
    place; it must be the same on every node.
    """

    host: str
    port: int
    nnodes: int
    node_rank: int | None = None
    name: str = "zerosim"

    def __post_init__(self) -> None:
        """Refuse counts that are none, and a node that would not be one of them."""
        if not 1 <= self.nnodes <= MAX_NODES:
            raise InputError(f"--nnodes is {self.nnodes}: give 1 to {MAX_NODES}")
        if self.node_rank is not None and not 0 <= self.node_rank < self.nnodes:
            raise InputError(
                f"--node-rank is {self.node_rank}: give 0 to {self.nnodes - 1}, one number a node"
            )


def rendezvous_at(endpoint: str | None, nnodes: int, node_rank: int | None = None) -> Rendezvous:
    """The rendezvous at HOST:PORT. Raises InputError."""
    if endpoint is None:
        raise InputError(
            f"--nnodes is {nnodes}, but no place to meet is given: add --rendezvous HOST:PORT of the "
            "first node, the same on every node"
        )
    found = _ENDPOINT.fullmatch(endpoint)
    if found is None or not 0 < int(found["port"]) <= _LAST_PORT:
        raise InputError(
            f"--rendezvous is '{endpoint[:80]}': give HOST:PORT of the first node, as in node-0:29500"
        )
    return Rendezvous(found["host"].strip("[]"), int(found["port"]), nnodes, node_rank)


def torchrun_words(rendezvous: Rendezvous, address: str | None) -> list[str]:
    """What torchrun is told about where to meet; `address` is this node's own, if it is known."""
    host = f"[{rendezvous.host}]" if ":" in rendezvous.host else rendezvous.host
    words = [f"--nnodes={rendezvous.nnodes}", f"--rdzv-id={rendezvous.name}"]
    if rendezvous.node_rank is not None:
        words += [
            f"--node-rank={rendezvous.node_rank}",
            f"--master-addr={host}",
            f"--master-port={rendezvous.port}",
            f"--rdzv-conf=timeout={_JOIN_S}",
        ]
    else:
        words += [
            "--rdzv-backend=c10d",
            f"--rdzv-endpoint={host}:{rendezvous.port}",
            f"--rdzv-conf=join_timeout={_JOIN_S}",
        ]
    return words if address is None else [*words, f"--local-addr={address}"]


def address_towards(rendezvous: Rendezvous) -> str | None:
    """This machine's own address on the way to the rendezvous; None if it leads by no IPv4 way.

    Raises InputError for a host that nobody knows. Nothing is sent.
    """
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
            way.connect((rendezvous.host, rendezvous.port))
            return str(way.getsockname()[0])
    except socket.gaierror as error:
        if ":" in rendezvous.host:
            return None
        raise InputError(
            f"--rendezvous: nobody knows the host '{rendezvous.host}' ({error.strerror}): "
            "give its address"
        ) from None
    except OSError:
        return None


def interface_of(address: str | None) -> str | None:
    """The network interface that has an address; None if none has.

    A host name often leads to a loopback address that no other node reaches, so ranks are told.
    """
    for _, name in socket.if_nameindex():
        if address is not None and address == _address_of(name):
            return name
    return None


def _address_of(interface: str) -> str | None:
    asked = struct.pack("256s", interface.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            answer = fcntl.ioctl(any_socket.fileno(), _SIOCGIFADDR, asked)
        except OSError:
            return None
    return socket.inet_ntoa(answer[20:24])

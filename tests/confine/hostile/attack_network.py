"""Probes on sockets and the network."""

import array
import errno
import fcntl
import socket
import struct

from tests.confine.hostile.attack import Targets, attempt

CANARY = b"canary"
WAIT_S = 1.0
_WAIT = struct.pack("ll", int(WAIT_S), 0)
_SIOCGIFCONF = 0x8912
_MSG_FASTOPEN = 0x20000000
_IPPROTO_MPTCP, _IPPROTO_SCTP = 262, 132
_AF_ALG, _AF_VSOCK, _AF_XDP, _AF_SMC, _AF_TIPC = 38, 40, 44, 43, 30


def answers(client: socket.socket, address: object) -> bool:
    with client:
        client.settimeout(WAIT_S)
        client.connect(address)  # pyright: ignore[reportArgumentType]
        client.send(b"?")
        return client.recv(100).startswith(CANARY)


@attempt
def tcp_service(t: Targets) -> bool:
    return answers(socket.socket(), ("127.0.0.1", t["tcp_port"]))


@attempt
def tcp_service_6(t: Targets) -> bool:
    return answers(socket.socket(socket.AF_INET6), ("::1", t["tcp_port_6"]))


@attempt
def tcp_mapped(t: Targets) -> bool:
    return answers(socket.socket(socket.AF_INET6), ("::ffff:127.0.0.1", t["tcp_port"]))


@attempt
def tcp_fast_open(t: Targets) -> bool:
    """Data with the first packet connects without `connect`."""
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _WAIT)
        client.sendto(b"?", _MSG_FASTOPEN, ("127.0.0.1", t["tcp_port"]))
        return client.recv(100).startswith(CANARY)


@attempt
def tcp_fast_open_message(t: Targets) -> bool:
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _WAIT)
        client.sendmsg([b"?"], [], _MSG_FASTOPEN, ("127.0.0.1", t["tcp_port"]))
        return client.recv(100).startswith(CANARY)


@attempt
def tcp_several_paths(t: Targets) -> bool:
    return answers(socket.socket(socket.AF_INET, socket.SOCK_STREAM, _IPPROTO_MPTCP), ("127.0.0.1", t["tcp_port"]))


@attempt
def tcp_port_of_proxy(t: Targets) -> bool:
    """The port of the proxy at another address."""
    if not (place := t["proxy_elsewhere"]):
        return False
    with socket.socket() as client:
        client.settimeout(WAIT_S)
        client.connect(tuple(place))
        return client.recv(100).startswith(CANARY)


@attempt
def tcp_listen(t: Targets) -> bool:
    """Offers a service; the host tries to reach it."""
    with socket.socket() as server:
        server.bind(("0.0.0.0", 0))
        return _is_reached(server)


@attempt
def tcp_listen_unbound(t: Targets) -> bool:
    """Without `bind` the kernel chooses the port."""
    with socket.socket() as server:
        return _is_reached(server)


def _is_reached(server: socket.socket) -> bool:
    server.listen()
    print(f"listening {server.getsockname()[1]}", flush=True)
    server.settimeout(WAIT_S)
    try:
        return server.accept()[0].recv(100).startswith(CANARY)
    except TimeoutError:
        return False  # the host could not connect


@attempt
def udp_service(t: Targets) -> bool:
    return answers(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), ("127.0.0.1", t["udp_port"]))


@attempt
def udp_service_6(t: Targets) -> bool:
    return answers(socket.socket(socket.AF_INET6, socket.SOCK_DGRAM), ("::1", t["udp_port_6"]))


@attempt
def names(_: Targets) -> bool:
    """A packet to a name server. The address is reserved for documentation."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        return client.sendto(b"?", ("192.0.2.53", 53)) == 1


@attempt
def metadata(_: Targets) -> bool:
    with socket.socket() as client:
        client.settimeout(WAIT_S)
        client.connect(("169.254.169.254", 80))
        return True


@attempt
def raw_packets(_: Targets) -> bool:
    return socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close() is None


@attempt
def packets_of_machine(_: Targets) -> bool:
    return socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close() is None


@attempt
def ping(_: Targets) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as client:
        client.settimeout(WAIT_S)
        client.sendto(b"\x08\x00\x00\x00\x00\x00\x00\x00canary", ("127.0.0.1", 0))
        return CANARY in client.recv(100)


@attempt
def netlink(_: Targets) -> bool:
    return _opens(socket.AF_NETLINK, socket.SOCK_RAW)


@attempt
def crypto(_: Targets) -> bool:
    return _opens(_AF_ALG, socket.SOCK_SEQPACKET)


@attempt
def vsock(_: Targets) -> bool:
    return _opens(_AF_VSOCK, socket.SOCK_STREAM)


@attempt
def xdp(_: Targets) -> bool:
    return _opens(_AF_XDP, socket.SOCK_RAW)


@attempt
def smc(_: Targets) -> bool:
    return _opens(_AF_SMC, socket.SOCK_STREAM)


@attempt
def tipc(_: Targets) -> bool:
    return _opens(_AF_TIPC, socket.SOCK_STREAM)


@attempt
def sctp(t: Targets) -> bool:
    return _opens(socket.AF_INET, socket.SOCK_STREAM, _IPPROTO_SCTP)


def _opens(family: int, kind: int, protocol: int = 0) -> bool:
    return socket.socket(family, kind, protocol).close() is None


@attempt
def abstract_socket(t: Targets) -> bool:
    return answers(socket.socket(socket.AF_UNIX), "\0" + t["abstract_socket"])


@attempt
def datagram_pair(t: Targets) -> bool:
    """A datagram socket sends to any address, also one of a pair."""
    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    return one.sendto(b"?", t["datagram_socket"]) == 1


@attempt
def addresses_of_machine(_: Targets) -> bool:
    """The interfaces besides the own loopback, through a socket of TCP."""
    names = array.array("B", bytes(4096))
    address, length = names.buffer_info()
    with socket.socket() as client:
        answer = fcntl.ioctl(client, _SIOCGIFCONF, struct.pack("iL", length, address))
    used = struct.unpack("iL", answer)[0]
    found = {names.tobytes()[start : start + 16].rstrip(b"\0") for start in range(0, used, 40)}
    if not found - {b"lo"}:
        raise OSError(errno.ENODEV, "only the own loopback")
    return True

"""Which addresses a provider may have. Pure.

An operator names providers, so one may be on this machine or in this network. What is refused is what no provider is
behind: addresses of one link, which are the metadata of most clouds, and those that mean nobody or everybody.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final

from bollard.host.egress.addresses import Address

__all__ = ["provider_problem"]

_REFUSED_V4: Final = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "100.100.100.200/32",  # metadata of a cloud, in the range that customers share
        "168.63.129.16/32",  # a cloud's own service for its machines, under a public address
        "169.254.0.0/16",  # link-local, the metadata of most clouds
        "192.0.0.0/24",  # protocol assignments; metadata of a cloud
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
_REFUSED_V6: Final = tuple(
    IPv6Network(text)
    for text in (
        "::/128",
        "fd00:ec2::/32",  # a cloud's own services
        "fd20:ce::/32",  # the same of another one
        "fe80::/10",
        "ff00::/8",
    )
)
_NAT64: Final = IPv6Network("64:ff9b::/96")
_COMPATIBLE: Final = IPv6Network("::/96")
_LOOPBACK_V6: Final = IPv6Address("::1")


def provider_problem(address: Address) -> str | None:
    """Why no provider is asked there; `None` where one may be."""
    if isinstance(address, IPv4Address):
        return f"{address} is no address of a provider" if any(address in each for each in _REFUSED_V4) else None
    if address.scope_id is not None or any(address in each for each in _REFUSED_V6):
        return f"{address} is no address of a provider"
    carried = _carried(address)
    if carried is not None and provider_problem(carried) is not None:
        return f"{address} stands for {carried}, which is no address of a provider"
    return None


def _carried(address: IPv6Address) -> IPv4Address | None:
    """The address that another one is a spelling of."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in _NAT64 or (address in _COMPATIBLE and address != _LOOPBACK_V6):
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return None

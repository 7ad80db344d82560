"""Public addresses of the internet: the only ones that webhooks and code may reach."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.core.base.networks import is_public

PUBLIC = [
    "93.184.215.14",
    "8.8.8.8",
    "2606:2800:21f:cb07:6820:80da:af6b:8b2c",
    "2a00:1450:4001:831::200e",
    "::ffff:93.184.215.14",
    "64:ff9b::5db8:d70e",
    "2002:5db8:d70e::1",
]
OURS = [
    "127.0.0.1",
    "10.1.2.3",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "0.0.0.0",
    "224.1.1.1",
    "240.0.0.1",
    "255.255.255.255",
    "192.0.2.1",
    "198.18.0.1",
    "::",
    "::1",
    "fe80::1%eth0",
    "fd00::1",
    "fc00::1",
    "fec0::1",
    "feff::1",
    "ff02::1",
    "::ffff:10.0.0.1",
    "::ffff:127.0.0.1",
    "::127.0.0.1",
    "::10.0.0.1",
    "::93.184.215.14",
    "2002:0a00:0001::",
    "2002:7f00:1::",
    "64:ff9b::a00:1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::5db8:d70e",
    "64:ff9b:1:abcd::a00:1",
    "2001:0:0a00:1::1",
    "2001:db8::1",
    "3fff::1",
    "100::1",
    "5f00::1",
    "4000::1",
    "not an address",
    "127.1",
    "0x7f000001",
    "",
]


@pytest.mark.parametrize("address", PUBLIC)
def test_addresses_of_the_internet_are_public(address: str) -> None:
    """A public address inside an IPv6 address is public too."""
    assert is_public(address)


@pytest.mark.parametrize("address", OURS)
def test_private_and_special_addresses_are_not_public(address: str) -> None:
    """Private, local, shared, multicast, reserved and wrapped addresses and other text are not."""
    assert not is_public(address)


@given(st.integers(0, 2**32 - 1))
def test_wrapped_address_is_no_more_public_than_the_inner_one(number: int) -> None:
    """This holds for every form of wrapping."""
    bare = is_public(str(ipaddress.IPv4Address(number)))
    mapped, nat64 = (0xFFFF << 32) | number, (0x64FF9B << 96) | number
    for wrapped in (mapped, nat64, (0x2002 << 112) | (number << 80)):
        assert is_public(str(ipaddress.IPv6Address(wrapped))) is bare
    for local in (number, (0x64FF9B0001 << 80) | number):
        assert not is_public(str(ipaddress.IPv6Address(local)))

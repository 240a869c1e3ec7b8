"""Which hosts are this machine: loopback addresses, and no others."""

from __future__ import annotations

import pytest

from edgedla.runtime.hosts import is_this_machine


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("192.168.1.5", False),
        ("broker", False),
        ("", False),
    ],
)
def test_only_loopback_addresses_are_this_machine(host: str, expected: bool) -> None:
    assert is_this_machine(host) is expected

# SPDX-License-Identifier: Apache-2.0
"""Looking up a name, connecting and TLS of latency sources end in time."""

import datetime
import ipaddress
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.latency_lines import P95, source
from tests.speaking import dripping, say_nothing, speaking
from vp_agent.latency.base import Measured, SourceError

TLS_HANGING = {
    "nothing": say_nothing,
    "handshake": dripping(b"\x16\x03\x03\x40\x00", b"x"),
}


@pytest.mark.parametrize("answer", TLS_HANGING.values(), ids=TLS_HANGING.keys())
def test_tls_that_hangs_took_as_long_as_was_waited(
    answer: Callable[[socket.socket], None], hasty: None
) -> None:
    with speaking(answer) as address:
        assert source(f"driver=http url=https://{address}/").read(P95) == Measured(300, None)


def test_what_speaks_no_tls_has_no_latency(hasty: None) -> None:
    with (
        speaking(lambda link: link.sendall(b"220 smtp\r\n")) as address,
        pytest.raises(SourceError, match="SSL"),
    ):
        source(f"driver=http url=https://{address}/").read(P95)


@pytest.mark.parametrize(
    "line", ["http url=http://web.example/", "memcached address=web.example:1"]
)
def test_a_name_that_nobody_looks_up_is_no_latency_of_the_server(
    line: str, hasty: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_over, look_up = threading.Event(), socket.getaddrinfo

    def slow(*args: Any, flags: int = 0, **options: Any) -> Any:
        if not flags:
            is_over.wait()
        return look_up(*args, flags=flags, **options)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    try:
        with pytest.raises(SourceError, match="not looked up in time"):
            source(f"driver={line}").read(P95)
    finally:
        is_over.set()


def test_a_name_that_there_is_not_has_no_latency() -> None:
    with pytest.raises(SourceError, match="gaierror"):
        source("driver=http url=http://nothing.invalid/").read(P95)


def answer(link: socket.socket) -> None:
    link.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")


def test_the_next_address_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a name with an address that answers nobody."""
    look_up = socket.getaddrinfo

    def both(host: str, port: int, **options: Any) -> Any:
        return [*look_up("127.0.0.1", 1, **options), *look_up(host, port, **options)]

    with speaking(answer) as address:
        monkeypatch.setattr(socket, "getaddrinfo", both)
        assert source(f"driver=http url=http://{address}/").read(P95).latency_ms < 2000


def test_a_name_of_this_host_is_looked_up() -> None:
    with speaking(answer) as address:
        url = f"http://localhost:{address.rpartition(':')[2]}/"
        assert source(f"driver=http url={url}").read(P95).latency_ms < 2000


def certificate(folder: Path) -> Path:
    """With its key, for 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "web")])
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path = folder / "web.pem"
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path


def test_a_server_with_tls_is_measured_if_its_certificate_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = certificate(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(path)

    def secured(link: socket.socket) -> None:
        with context.wrap_socket(link, server_side=True) as tls:
            tls.recv(4096)
            answer(tls)

    with speaking(secured, is_first_to_listen=False) as address:
        probe = source(f"driver=http url=https://{address}/ samples=2")
        with pytest.raises(SourceError, match="CERTIFICATE_VERIFY_FAILED"):
            probe.read(P95)
        monkeypatch.setenv("SSL_CERT_FILE", str(path))
        assert probe.read(P95).latency_ms < 2000

# SPDX-License-Identifier: Apache-2.0
"""Files of keys: what is read, what is refused with words, and what happens when they change."""

import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from oslo_config import cfg

from nova_vp import conf as options
from nova_vp.signing.identity import Identity, trusted_keys
from nova_vp.signing.keyring import (
    TRUSTED,
    BadKey,
    FileKeys,
    FirstKnown,
    ToldKeys,
    by_sender,
    new_private_key,
    private_text,
    public_text,
    read_private_key,
    trusted_lines,
)
from nova_vp.signing.senders import Process, Sender

NOBODY = 65534
CTL, VP1 = Sender(Process.SCHEDULER, "ctl1"), Sender(Process.AGENT, "vp1")


def a_key() -> str:
    return public_text(new_private_key().public_key())


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 10
        return self.now_s


def test_a_private_key_is_read_as_it_was_written(tmp_path: Path) -> None:
    path, key = tmp_path / "vp-agent.pem", new_private_key()
    path.write_bytes(private_text(key))
    path.chmod(0o640)
    assert read_private_key(path).private_bytes_raw() == key.private_bytes_raw()


def test_private_keys_that_cannot_be_used(tmp_path: Path) -> None:
    path = tmp_path / "vp-agent.pem"
    other = generate_private_key(SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    for data, because in ((None, "no private key"), (b"x", "no private key"), (other, "not an Ed")):
        if data is not None:
            path.write_bytes(data)
            path.chmod(0o600)
        with pytest.raises(BadKey, match=because) as raised:
            read_private_key(path)
        assert "vp-manage credentials create" in str(raised.value)
    path.write_bytes(private_text(new_private_key()))
    path.chmod(0o644)
    with pytest.raises(BadKey, match="anybody can read"):
        read_private_key(path)


def test_a_private_key_of_somebody_else(tmp_path: Path) -> None:
    path = tmp_path / "vp-agent.pem"
    path.write_bytes(private_text(new_private_key()))
    path.chmod(0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)  # To root no file is closed.
    try:
        with pytest.raises(BadKey, match="may not be read") as raised:
            read_private_key(path)
    finally:
        os.seteuid(user)
    assert raised.value.mend.startswith("give the file to this program's user")


def test_trusted_keys_are_read_again_when_the_file_changes(tmp_path: Path) -> None:
    path = tmp_path / TRUSTED
    path.write_text(trusted_lines([(CTL, a_key())]))
    ring = FileKeys(path, Clock())
    assert len(ring.of(CTL)) == 1
    assert not ring.of(VP1)
    path.write_text(trusted_lines([(CTL, a_key()), (CTL, a_key())]))
    assert len(ring.of(CTL)) == 2
    path.write_text("half a li")
    assert len(ring.of(CTL)) == 2, "what cannot be read changes nothing"
    path.write_text("")
    assert len(ring.of(CTL)) == 2, "somebody may just be writing it"
    path.write_text(trusted_lines([(VP1, a_key())]))
    assert not ring.of(CTL)


def test_a_file_that_became_bad_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / TRUSTED
    path.write_text(trusted_lines([(CTL, a_key())]))
    ring = FileKeys(path, Clock())
    path.write_text("half a li")
    for _ in range(3):
        assert len(ring.of(CTL)) == 1
    [told] = caplog.messages
    assert "line 1" in told
    assert "keys that were read before hold" in told
    path.write_text("")
    ring.of(CTL)
    assert len(caplog.messages) == 2


@pytest.mark.parametrize("line", ["vp-scheduler/ctl1", "vp-scheduler/ctl1 AAAA", "root/x AAAA"])
def test_a_line_that_is_wrong_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / TRUSTED
    path.write_text(f"# a remark\n\n{line}\n")
    with pytest.raises(BadKey, match="line 3") as raised:
        FileKeys(path)
    assert "write what `vp-manage credentials trusted` prints there" in str(raised.value)


def test_a_host_that_is_no_longer_told_of_has_no_key() -> None:
    told = ToldKeys()
    ring = FirstKnown(ToldKeys(), told)
    told.accept(by_sender([(VP1, a_key()), (CTL, "broken")]))
    assert len(ring.of(VP1)) == 1
    assert not ring.of(CTL)
    told.accept({})
    assert not ring.of(VP1)


def test_keys_may_come_later(tmp_path: Path) -> None:
    """What is missing is named with its option; nothing is remembered of the failure."""
    conf = cfg.ConfigOpts()
    options.register_all(conf)
    conf([], default_config_files=[])
    conf.set_override("keys_directory", str(tmp_path), group="bus")
    identity = Identity(conf, Process.AGENT, lambda: trusted_keys(conf), "vp1")
    with pytest.raises(cfg.Error, match=r"\[bus\] keys_directory = .*no private key in"):
        identity.check()
    path = tmp_path / "vp-agent.pem"
    path.write_bytes(private_text(new_private_key()))
    path.chmod(0o600)
    with pytest.raises(cfg.Error, match="no public keys in"):
        identity.check()
    (tmp_path / TRUSTED).write_text(trusted_lines([(CTL, a_key())]))
    identity.check()
    assert identity.signer.sender == VP1

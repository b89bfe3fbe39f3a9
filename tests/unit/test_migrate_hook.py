# SPDX-License-Identifier: Apache-2.0
"""The libvirt hook, run as libvirt runs it: arguments, XML on stdin, XML from stdout."""

import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import vp_agent
from nova_vp.core.types.knob import NO_QUOTA, Knob, MemorySize
from tests.domain_xml import NOVA_NS, a_domain, nova_metadata
from vp_agent.drivers import journal_entry
from vp_agent.loop.control_socket import RunFolder

HOOK = Path(vp_agent.__file__).parent / "hooks/qemu.d/nova-vp"
PINNED = "<cputune><vcpupin vcpu='0' cpuset='1'/><vcpupin vcpu='1' cpuset='1'/></cputune>"
HELD = '<vp:held knob="placement" value="1" original="0-1" controller="c" action="a"/>'
ENTRY = f'<vp:applied xmlns:vp="urn:nova-vp:1" epoch="5">{HELD}</vp:applied>'
NUMA = "<cpu><numa><cell id='0' cpus='0-1' memory='16384' unit='KiB'/></numa></cpu>"


@pytest.fixture(autouse=True)
def run_folder(tmp_path, monkeypatch):
    """Not this machine's own."""
    monkeypatch.setenv("NOVA_VP_RUN_DIRECTORY", str(tmp_path / "run"))
    return tmp_path / "run"


def call(text, operation="migrate", env=None):
    command = [HOOK, "instance-00000001", operation, "begin", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, env=env, timeout=30)
    assert done.returncode == 0, done.stderr
    return done.stdout


def arrived(text, operation="migrate"):
    return ET.fromstring(call(text, operation))


def pins(domain):
    return [(p.get("vcpu"), p.get("cpuset")) for p in domain.iterfind("cputune/vcpupin")]


@pytest.mark.parametrize("operation", ["migrate", "restore"])
def test_our_journal_and_its_pins_are_left_behind(operation):
    domain = arrived(a_domain(body=PINNED, metadata=nova_metadata() + ENTRY), operation)
    assert pins(domain) == []
    assert domain.find("cputune") is None
    assert [e.tag for e in domain.find("metadata")] == [f"{{{NOVA_NS}}}instance"]
    assert domain.find("vcpu").get("cpuset") == "0-1"


def test_what_our_journal_says_of_a_balloon_goes_along_and_nothing_else_of_it(run_folder):
    """QEMU takes the balloon along: whoever finds the entry gives the guest its memory back."""
    held = '<vp:held knob="memory-size" value="8192" original="16384" controller="c" action="a"/>'
    entry = ENTRY.replace(HELD, HELD + held)
    domain = arrived(a_domain(body=PINNED, metadata=nova_metadata() + entry))
    assert pins(domain) == []
    given = journal_entry.Given(frozenset({0, 1}), NO_QUOTA)
    left = journal_entry.parse_entry(
        domain.find(f"metadata/{journal_entry.TAG}"), domain.findtext("uuid"), given
    )
    assert [(h.knob, h.original) for h in left.held] == [(Knob.MEMORY_SIZE, MemorySize(16384))]
    assert left.epoch == 5
    assert RunFolder(str(run_folder)).was_asked_lately()


def test_what_is_not_ours_arrives_as_it_was():
    body = PINNED.replace(
        "</cputune>", "<shares>512</shares><emulatorpin cpuset='0'/></cputune><!-- a note -->"
    )
    text = a_domain(body=body, metadata=nova_metadata("ä & <b>") + ENTRY)
    domain = arrived(text)
    assert domain.findtext("cputune/shares") == "512"
    assert domain.find("cputune/emulatorpin").get("cpuset") == "0"
    assert domain.findtext(f"metadata/{{{NOVA_NS}}}instance/{{{NOVA_NS}}}name") == "ä & <b>"
    assert "<!-- a note -->" in call(text)


def test_pins_of_vcpus_that_were_placed_apart_are_left_behind():
    body = "<cputune><vcpupin vcpu='0' cpuset='0'/><vcpupin vcpu='1' cpuset='1'/></cputune>"
    entry = ENTRY.replace('value="1"', 'value="0;1"')
    assert pins(arrived(a_domain(body=body, metadata=nova_metadata() + entry))) == []


CAPPED = "<cputune><period>{period}</period><quota>{quota}</quota></cputune>"


def a_cap(value, original="-1 100000"):
    held = (
        f'<vp:held knob="cpu-cap" value="{value}" original="{original}" controller="c" action="a"/>'
    )
    return ENTRY.replace("</vp:applied>", f"{held}</vp:applied>")


def limits(domain):
    return domain.findtext("cputune/quota"), domain.findtext("cputune/period")


def test_our_cap_is_left_behind():
    body = CAPPED.format(period=100000, quota=45000)
    text = a_domain(body=body, metadata=nova_metadata() + a_cap("45000 100000"))
    assert arrived(text).find("cputune") is None


def test_novas_own_quota_comes_back():
    body = CAPPED.format(period=50000, quota=15000)
    entry = a_cap("15000 50000", "20000 50000")
    domain = arrived(a_domain(body=body, metadata=nova_metadata() + entry))
    assert limits(domain) == ("20000", "50000")


@pytest.mark.parametrize("entry", [ENTRY, a_cap("30000 100000"), a_cap("lots"), ""])
def test_a_quota_that_the_journal_does_not_explain_stays(entry):
    body = CAPPED.format(period=100000, quota=45000)
    domain = arrived(a_domain(body=body, metadata=nova_metadata() + entry))
    assert limits(domain) == ("45000", "100000")
    assert "urn:nova-vp:1" not in ET.tostring(domain, encoding="unicode")


WEIGHED = "<cputune><shares>{shares}</shares></cputune>"


def a_weight(value, original):
    held = (
        f'<vp:held knob="cpu-weight" value="{value}" original="{original}" controller="c" '
        'action="a"/>'
    )
    return ENTRY.replace("</vp:applied>", f"{held}</vp:applied>")


@pytest.mark.parametrize(
    ("shares", "entry", "specs", "left"),
    [
        # Ours: what stood there before comes back, and a default needs no element.
        ("4096", a_weight("4096 shares", "1024 shares"), {}, None),
        ("400", a_weight("400 weight", "100 weight"), {}, None),
        ("4096", a_weight("4096 shares", "2000 shares"), {}, "2000"),
        ("4096", a_weight("4096 shares", "1024 shares"), {"quota:cpu_shares": "1024"}, "1024"),
        ("4096", a_weight("4096 shares", "0 weight"), {}, None),
        ("4096", a_weight("4096 shares", "lots"), {}, None),
        # What an undone one leaves behind.
        ("1024", "", {}, None),
        ("100", ENTRY, {}, None),
        # Nova's or an operator's.
        ("1024", "", {"quota:cpu_shares": "1024"}, "1024"),
        ("2000", "", {}, "2000"),
        ("4096", a_weight("8192 shares", "1024 shares"), {}, "4096"),
        ("4096", a_weight("lots", "1024 shares"), {}, "4096"),
        ("4096", ENTRY, {}, "4096"),
    ],
)
def test_a_weight_of_ours_or_a_default_is_left_behind(shares, entry, specs, left):
    metadata = nova_metadata(extra_specs=specs) + entry
    domain = arrived(a_domain(body=WEIGHED.format(shares=shares), metadata=metadata))
    assert domain.findtext("cputune/shares") == left
    assert "urn:nova-vp:1" not in ET.tostring(domain, encoding="unicode")


def test_with_a_numa_topology_the_weight_stays():
    domain = arrived(a_domain(body=WEIGHED.format(shares=1024) + NUMA))
    assert domain.findtext("cputune/shares") == "1024"


@pytest.mark.parametrize("entry", [ENTRY, ""])
def test_the_other_threads_arrive_free_as_the_vcpus_do(entry):
    others = "<emulatorpin cpuset='1'/><iothreadpin iothread='1' cpuset='1'/>"
    body = PINNED.replace("</cputune>", f"{others}</cputune>")
    domain = arrived(a_domain(body=body, metadata=nova_metadata() + entry))
    assert domain.find("cputune") is None


def test_pins_that_the_journal_does_not_explain_stay():
    body = "<cputune><vcpupin vcpu='0' cpuset='1'/><vcpupin vcpu='1' cpuset='5'/></cputune>"
    assert pins(arrived(a_domain(body=body, metadata=nova_metadata() + ENTRY))) == [("1", "5")]


def test_neutral_pins_of_an_undone_change_are_left_behind():
    assert pins(arrived(a_domain(body=PINNED.replace("'1'/>", "'0-1'/>")))) == []


@pytest.mark.parametrize(
    "body",
    [
        PINNED + NUMA,
        PINNED + "<numatune><memory mode='strict' nodeset='0'/></numatune>",
        "<cputune><vcpupin vcpu='0' cpuset='1'/></cputune>",
        "<cputune><vcpupin vcpu='0' cpuset='0'/><vcpupin vcpu='1' cpuset='1'/></cputune>",
    ],
    ids=["NUMA topology", "memory policy", "one vCPU only", "vCPUs apart"],
)
def test_pins_of_nova_or_of_an_operator_stay_and_the_text_is_untouched(body):
    text = a_domain(body=body)
    assert call(text) == text


def test_with_a_numa_topology_only_the_journal_goes():
    domain = arrived(a_domain(body=PINNED + NUMA, metadata=nova_metadata() + ENTRY))
    assert len(pins(domain)) == 2
    assert "urn:nova-vp:1" not in ET.tostring(domain, encoding="unicode")


def test_guests_of_others_are_untouched():
    text = a_domain(body=PINNED, metadata="")
    assert call(text) == text


@pytest.mark.parametrize(
    "entry",
    [
        ENTRY.replace('value="1"', 'value="lots"').replace('original="0-1"', ""),
        ENTRY.replace('value="1"', 'value="0"').replace('original="0-1"', 'original="2;"'),
        '<vp:applied xmlns:vp="urn:nova-vp:1"/>',
    ],
)
def test_a_malformed_journal_goes_and_pins_it_cannot_explain_stay(entry):
    domain = arrived(a_domain(body=PINNED, metadata=nova_metadata() + entry))
    assert len(pins(domain)) == 2
    assert "urn:nova-vp:1" not in ET.tostring(domain, encoding="unicode")


@pytest.mark.parametrize("text", ["", "not XML", "<domain>", "<network/>", "<domain><metadata/>"])
def test_what_it_does_not_understand_passes_unchanged(text):
    assert call(text) == text


@pytest.mark.parametrize("operation", ["prepare", "start", "started", "stopped", "release"])
def test_other_operations_say_nothing(operation):
    assert call(a_domain(body=PINNED, metadata=nova_metadata() + ENTRY), operation) == ""


def test_without_python_the_xml_passes_unchanged(tmp_path):
    for name in ("sh", "cat"):
        (tmp_path / name).symlink_to(f"/bin/{name}")
    text = a_domain(body=PINNED)
    assert call(text, env={"PATH": str(tmp_path)}) == text


@pytest.mark.parametrize("is_folder_there", [True, False])
def test_where_nobody_lives_the_timer_is_made_to_look(run_folder, is_folder_there):
    if is_folder_there:
        run_folder.mkdir()
    arrived(a_domain(body=PINNED, metadata=nova_metadata() + ENTRY))
    beat = run_folder / "agent.alive"
    assert RunFolder(str(run_folder)).was_asked_lately()
    assert beat.stat().st_uid == run_folder.stat().st_uid
    assert RunFolder(str(run_folder)).silent_for_s() is None


def test_a_living_agents_heartbeat_is_left_alone(run_folder):
    folder = RunFolder(str(run_folder))
    run_folder.mkdir()
    folder.beat()
    arrived(a_domain(body=PINNED, metadata=nova_metadata() + ENTRY))
    assert folder.silent_for_s() is not None


def test_without_anything_of_ours_nobody_has_to_look(run_folder):
    arrived(a_domain(body=PINNED, metadata=nova_metadata()))
    assert not run_folder.exists()


def test_a_folder_that_refuses_is_in_nobodys_way(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NOVA_VP_RUN_DIRECTORY", str(tmp_path / "file"))
    domain = arrived(a_domain(body=PINNED, metadata=nova_metadata() + ENTRY))
    assert pins(domain) == []

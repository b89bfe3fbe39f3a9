# SPDX-License-Identifier: Apache-2.0
"""Configuration of the lab: every template renders fully, hosts are what their names say."""

import configparser

import pytest

from testbed.lab import controller, settings
from testbed.lab.config import common_values, render
from testbed.lab.host import Host, vpmu_maps
from tests.unit.lab.environments import an_environment

HOST_VALUES = {
    "bus": "[bus]\ntransport_url = rabbit://u:p@somewhere:5672/\n",
    "host": "vp1",
    "address": "10.77.0.11",
    "host_folder": "/somewhere/vp1",
    "uuid": "0",
    "shared_cpus": "0-1",
    "dedicated_cpus": "",
    "lock_path": "/run/nova/lock",
    "vpmu_maps": "",
    "cpu_times": "false",
    "vpmu_cpus": "0",
    "vpmu_siblings": "none",
}
PARTS = {"authtoken.conf", "nova-credentials.conf"}
TEMPLATES = sorted(path.name for path in (settings.LAB / "conf").glob("*.conf"))


@pytest.mark.parametrize("name", TEMPLATES)
def test_template_renders_without_placeholders_left(name, tmp_path):
    nova = an_environment(tmp_path, "nova-34.0.0")
    values = controller.controller_values(common_values(nova)) | HOST_VALUES

    text = render(name, values)

    assert "@{" not in text
    if name not in PARTS and "[DEFAULT]" in text:
        configparser.ConfigParser(strict=False, interpolation=None).read_string(text)


def test_an_unknown_placeholder_is_an_error():
    with pytest.raises(KeyError):
        render("nova.conf", {})


def test_standard_host_floats_over_its_real_cpus_and_dedicates_none(monkeypatch):
    monkeypatch.setattr(settings, "REAL_CPUS", 2)
    host = Host.parse("vp2")

    assert host.address == "10.77.0.12"
    assert (host.shared_cpus, host.dedicated_cpus) == ((0, 1), ())


def test_cpus_that_are_not_real_are_for_dedicated_guests(monkeypatch):
    monkeypatch.setattr(settings, "REAL_CPUS", 2)
    host = Host.parse("vp3=0-3/4-7")

    assert (host.shared_cpus, host.dedicated_cpus) == ((0, 1), (2, 3, 4, 5, 6, 7))


def test_guests_float_over_all_cpus_that_are_modelled(monkeypatch):
    monkeypatch.setattr(settings, "REAL_CPUS", 2)
    host = Host.parse("vp3=modelled:0-3/4-7")

    assert host.topology == Host.parse("vp3=0-3/4-7").topology
    assert (host.shared_cpus, host.dedicated_cpus) == (tuple(range(8)), ())
    assert host.shim["NUMA_SHIM_MODELLED_CPUS"] == "8"
    assert Host.parse("vp3=0-3/4-7").shim == {}


@pytest.mark.parametrize(
    ("cells", "maps"),
    [
        ("0/1", ""),
        ("0+1", "cpumap=0:0;1:1\nnodemap=0:0;1:0"),
        ("0-1+2/3", "cpumap=0:0;1:0;2:1;3:2\nnodemap=0:0;1:0;2:1"),
    ],
)
def test_the_software_pmu_is_told_of_caches_that_share_a_cell(cells, maps):
    assert vpmu_maps(Host.parse(f"vp1={cells}").topology) == maps


@pytest.mark.parametrize(
    "text", ["c1", "vp", "vp0", "vp201", "vp1=x", "vp1=0/0", "vp1=0+0", "vp1=modelled:0/0"]
)
def test_wrong_host_is_refused(text):
    with pytest.raises(ValueError):
        Host.parse(text)

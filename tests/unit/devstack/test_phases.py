# SPDX-License-Identifier: Apache-2.0
"""The DevStack plugin in all its phases, on nodes of each kind: what is written, started, left.

DevStack's functions are a stub's; files, `vp-manage`, its database and its keys are real.
"""

import configparser
import socket

import pytest
from oslo_db.options import database_opts

from nova_vp import conf
from tests.unit.devstack.ini import sections_of
from tests.unit.devstack.stack import FILTERS, HOST, REPOSITORY, Stack

COMPUTE = "n-cpu"
CONTROLLER = "key,mysql,rabbit,n-api,n-sch"
VP_CONF = "etc/nova-vp/nova-vp.conf"
NOVA_CONF = "etc/nova/nova.conf"
AGENT_UNIT = "etc/systemd/system/devstack@vp-agent.service.d/nova-vp.conf"
LIBVIRT_UNIT = "etc/systemd/system/libvirtd.service.d/nova-vp.conf"
OF_QEMU = "<emulator>/usr/bin/qemu-system-x86_64</emulator>\n"
CONTROLLER_NAME = socket.gethostname()
OF_LIBRARIES = {"keystone_authtoken", "cloud", "oslo_concurrency", "oslo_middleware", "DEFAULT"}
OF_DEVSTACK = ("etc/nova/", "etc/apache2/", "opt/stack/tempest/")
"""What clean.sh removes or leaves by itself."""


@pytest.fixture
def node(tmp_path):
    def make(services=None, **settings):
        return Stack(tmp_path, **({"services": services} if services else {}), **settings)

    return make


@pytest.fixture(scope="module")
def stacked(tmp_path_factory):
    """One node with everything, as it is after stack.sh."""
    stack = Stack(
        tmp_path_factory.mktemp("stacked"),
        VP_MODE="enforce",
        VP_CONTROLLERS="overlays,vp",
        VP_COMPUTE_MONITOR="True",
        VP_BUILD_GUEST="True",
    )
    stack.stack()
    return stack


def test_every_service_is_started_as_run_process_wants_it(stacked):
    assert stacked.running() == ["vp-scheduler", "vp-api", "vp-agent"]
    started = {call.partition(" ")[0]: call for call in stacked.calls("run_process")}
    assert started["vp-agent"].endswith("/vp-agent run libvirt")
    assert f"--ini {stacked.root}/etc/nova-vp/vp-api-uwsgi.ini" in started["vp-api"]


def test_the_package_is_installed_with_what_each_service_needs(stacked):
    assert stacked.calls("setup_develop") == [f"{stacked.plugin} cli,agent,scheduler,api"]


def test_our_options_exist_and_are_valid(stacked):
    listed = (*conf.list_opts(), ("database", database_opts))
    known = {(group, option.dest) for group, options in listed for option in options}
    written = stacked.options(VP_CONF)
    assert {group for group, _ in written if group not in OF_LIBRARIES} == {
        "agent",
        "bus",
        "database",
        "policy",
        "vp_scheduler",
    }
    assert [key for key in written if key[0] not in OF_LIBRARIES and key not in known] == []
    assert written["agent", "host"] == HOST
    assert written["agent", "counters"] == "vpmu"
    assert written["policy", "controllers"] == "overlays,vp"
    assert written["vp_scheduler", "escalation_mode"] == "observe"


def test_each_program_has_its_own_account_and_key(stacked):
    folder = stacked.root / "etc/nova-vp"
    for program, machine in (
        ("vp-agent", HOST),
        ("vp-scheduler", CONTROLLER_NAME),
        ("vp-api", CONTROLLER_NAME),
        ("nova-scheduler", CONTROLLER_NAME),
    ):
        url = stacked.options(f"etc/nova-vp/{program}.conf")["bus", "transport_url"]
        assert url.startswith(f"rabbit://nova-vp.{program}.{machine}:")
        assert url.endswith("@192.0.2.11:5672/nova-vp")
        assert (folder / "keys" / f"{program}.pem").is_file()
    trusted = (folder / "keys" / "trusted").read_text()
    assert f"vp-scheduler/{CONTROLLER_NAME}" in trusted
    assert not (stacked.root / "opt/stack/data/nova-vp/credentials").exists()
    assert len(stacked.calls("rabbitmqctl")) == 2


def test_nova_schedules_with_our_filter_and_weigher(stacked):
    written = stacked.options(NOVA_CONF)
    assert written["filter_scheduler", "enabled_filters"] == f"{FILTERS},VPIsolationFilter"
    available = [
        value
        for name, value in sections_of(stacked.root / NOVA_CONF)["filter_scheduler"]
        if name == "available_filters"
    ]
    assert available == [
        "nova.scheduler.filters.all_filters",
        "vp_scheduler.filters.VPIsolationFilter",
    ]
    weighers = written["filter_scheduler", "weight_classes"]
    assert weighers.endswith("vp_scheduler.weighers.VPInterferenceWeigher")
    account = stacked.options("etc/nova-vp/nova-scheduler.conf")
    assert written["bus", "transport_url"] == account["bus", "transport_url"]


def test_the_role_of_live_migrations_is_given_and_may_what_it_needs(stacked):
    assert stacked.calls("get_or_create_role") == ["vp_escalation"]
    [granted] = [call for call in stacked.calls("openstack") if "role add" in call]
    assert granted.endswith("--user nova-vp --user-domain Default --domain default --inherited")
    ours = (REPOSITORY / "etc/nova-vp/nova-policy.yaml").read_text()
    assert (stacked.root / "etc/nova/policy.yaml").read_text() == ours


def test_keystone_knows_the_service_and_where_it_is(stacked):
    url = "http://192.0.2.11/performance-isolation"
    [endpoint] = stacked.calls("get_or_create_endpoint")
    assert endpoint == f"performance-isolation RegionOne {url} {url} {url}"
    assert stacked.calls("create_service_user") == ["nova-vp"]
    written = stacked.options(VP_CONF)
    assert written["keystone_authtoken", "username"] == written["cloud", "username"] == "nova-vp"


def test_the_agents_unit_gets_the_rights_of_our_own(stacked):
    ours = configparser.ConfigParser(strict=False, interpolation=None)
    ours.optionxform = str
    ours.read(REPOSITORY / "etc/nova-vp/systemd/vp-agent.service")
    unit = stacked.options(AGENT_UNIT)
    for name in (
        "AmbientCapabilities",
        "CapabilityBoundingSet",
        "LimitNOFILE",
        "RuntimeDirectory",
        "RuntimeDirectoryPreserve",
        "Type",
        "WatchdogSec",
    ):
        assert unit["Service", name] == ours["Service"][name], name
    assert unit["Service", "ExecStopPost"].endswith("/vp-agent release --expired")


def test_the_host_has_hook_and_polkit_rule_and_libvirt_is_restarted(stacked):
    hook = stacked.root / "etc/libvirt/hooks/qemu.d/nova-vp"
    assert hook.stat().st_mode & 0o111
    rule = (stacked.root / "etc/polkit-1/rules.d/50-nova-vp.rules").read_text()
    assert 'subject.user == "stack"' in rule
    assert stacked.calls("restart_service")[0] == "libvirtd"


def test_the_software_pmu_is_in_front_of_qemu(stacked):
    folder = stacked.root / "usr/local/lib/nova-vp"
    wrapper = folder / "lab/bin/qemu-system-x86_64"
    assert (wrapper.parent / "../../vpmu/vpmu.so").resolve().is_file()
    assert wrapper.read_text() == (REPOSITORY / "testbed/lab/bin/qemu-system-x86_64").read_text()
    path = stacked.options(LIBVIRT_UNIT)["Service", "Environment"]
    assert path.startswith(f'"PATH={wrapper.parent}:/usr/local/sbin:')
    assert (stacked.root / "etc/nova-vp/vpmu.conf").read_text() == "busy=1\n"
    assert (
        'security_driver = "none" # nova-vp' in (stacked.root / "etc/libvirt/qemu.conf").read_text()
    )


def test_the_mode_is_set_once_the_api_answers(stacked):
    assert "--os-cloud devstack-admin vp mode set enforce --all" in stacked.calls("openstack")
    assert "devstack@openstack-cli-server" in stacked.calls("restart_service")


def test_tempest_finds_the_plugin_and_guests_that_work_as_asked(stacked):
    done = stacked.run('echo "$TEMPEST_PLUGINS"')
    assert done.stdout.strip() == str(stacked.plugin)
    written = stacked.options("opt/stack/tempest/etc/tempest.conf")
    assert written["service_available", "nova_vp"] == "True"
    assert written["performance_isolation", "sensitive_user_data"] == "work=chase:384"
    assert written["performance_isolation", "image_ref"].startswith("11111111-")
    [made] = [call for call in stacked.calls("openstack") if "image create" in call]
    assert "--property hw_machine_type=pc" in made


def test_plugins_of_others_stay_in_tempest(node):
    done = node(TEMPEST_PLUGINS="/opt/stack/other").run('echo "$TEMPEST_PLUGINS"')
    first, ours = done.stdout.split()
    assert (first, ours.rpartition("/")[2]) == ("/opt/stack/other", "nova-vp")


def test_horizon_gets_the_panels(stacked):
    local = stacked.root / "opt/stack/horizon/openstack_dashboard/local"
    for folder in ("enabled", "local_settings.d"):
        ours = {path.name for path in (REPOSITORY / "vp_dashboard" / folder).glob("_*.py")}
        assert ours
        there = list((local / folder).iterdir())
        assert {path.name for path in there} == ours
        assert all(path.exists() for path in there), "links that lead nowhere"


def test_novas_monitor_is_where_nova_looks_for_it(stacked):
    monitor = stacked.root / "opt/stack/nova/nova/compute/monitors/cpu/vp.py"
    assert "from nova_vp.compute.monitor import Monitor" in monitor.read_text()
    assert stacked.options(NOVA_CONF)["DEFAULT", "compute_monitors"] == "cpu.vp"


def test_unstack_ends_the_agent_first_and_clean_leaves_nothing(node):
    stack = node(VP_COMPUTE_MONITOR="True")
    before = stack.files()
    stack.stack()
    stack.phase("unstack")
    assert stack.calls("stop_process") == ["vp-agent", "vp-api", "vp-scheduler"]
    assert stack.running() == []
    stack.phase("clean")
    left = {
        path: text
        for path, text in stack.files().items()
        if before.get(path) != text and not path.startswith(OF_DEVSTACK)
    }
    assert left == {"var/cache/libvirt/qemu/capabilities/1.xml": OF_QEMU}
    assert not (stack.root / AGENT_UNIT).parent.exists()


def test_a_node_is_stacked_again(node):
    stack = node()
    stack.stack()
    first = stack.options(NOVA_CONF)
    stack.phase("unstack")
    stack.stack()
    again = stack.options(NOVA_CONF)
    assert again.pop(("bus", "transport_url")) != first.pop(("bus", "transport_url"))
    assert again == first
    policy = (stack.root / "etc/nova/policy.yaml").read_text()
    assert policy.count('"os_compute_api:servers:show":') == 1
    assert (stack.root / "etc/libvirt/qemu.conf").read_text().count("nova-vp") == 1


def test_a_compute_node_has_an_agent_with_a_key_and_no_database(node, tmp_path):
    """Its account at RabbitMQ is DevStack's: accounts are made where RabbitMQ is."""
    first = Stack(tmp_path / "first", CONTROLLER)
    first.stack()
    stack = node(COMPUTE)
    (stack.stub / "nova_vp.sqlite").symlink_to(first.stub / "nova_vp.sqlite")
    stack.stack()
    assert stack.running() == ["vp-agent"]
    assert stack.calls("setup_develop") == [f"{stack.plugin} cli,agent"]
    written = stack.options(VP_CONF)
    assert ("database", "connection") not in written
    assert not {"keystone_authtoken", "cloud"} & {group for group, _ in written}
    assert not (stack.root / "etc/nova-vp/database.conf").exists()
    url = stack.options("etc/nova-vp/vp-agent.conf")["bus", "transport_url"]
    assert url == "rabbit://stackrabbit:secret@192.0.2.11:5672/nova-vp"
    keys = stack.root / "etc/nova-vp/keys"
    assert sorted(path.name for path in keys.iterdir()) == ["trusted", "vp-agent.pem"]
    assert f"vp-scheduler/{CONTROLLER_NAME}" in (keys / "trusted").read_text()
    assert "filter_scheduler" not in {
        group for group, name in stack.options(NOVA_CONF) if name == "weight_classes"
    }


def test_a_controller_without_guests_has_no_agent(node):
    stack = node(CONTROLLER)
    stack.stack()
    assert stack.running() == ["vp-scheduler", "vp-api"]
    assert not (stack.root / AGENT_UNIT).exists()
    assert not (stack.root / "etc/libvirt/hooks").exists()
    assert "agent" not in {group for group, _ in stack.options(VP_CONF)}


def test_a_service_that_is_disabled_is_left_out(node):
    stack = node(DISABLED_SERVICES="vp-agent")
    stack.stack()
    assert stack.running() == ["vp-scheduler", "vp-api"]


@pytest.mark.parametrize(
    ("label", "settings", "device", "counters"),
    [
        ("a PMU", {}, "cpu", "perf"),
        ("a PMU with two kinds of cores", {}, "cpu_core", "perf"),
        ("none, emulated guests", {}, None, "vpmu"),
        ("none, and KVM", {"LIBVIRT_TYPE": "kvm"}, None, "auto"),
        ("a PMU, and the software PMU wanted", {"VP_PMU": "vpmu"}, "cpu", "vpmu"),
        ("none, and perf wanted", {"VP_PMU": "perf"}, None, "perf"),
    ],
)
def test_counters_are_what_the_host_has(node, label, settings, device, counters):
    stack = node(COMPUTE, **settings)
    if device:
        (stack.root / "sys" / device).mkdir(parents=True)
    stack.phase("stack", "install")
    done = stack.run(
        'source "$VP_DIR/devstack/lib/nova-vp"; configure_nova_vp; configure_nova_vp_host'
    )
    assert done.returncode == 0, done.stderr
    assert stack.options(VP_CONF)["agent", "counters"] == counters, label
    assert (stack.root / LIBVIRT_UNIT).exists() is (counters == "vpmu")
    assert bool(stack.calls("make")) is (counters == "vpmu")
    assert bool(stack.calls("warn")) is (counters == "auto")
    written = [call for call in stack.calls("sysctl") if call.startswith("-w")]
    assert written == (["-w kernel.perf_event_paranoid=2"] if counters == "perf" else [])


def test_lines_for_the_software_pmu_come_last(node):
    stack = node(VP_PMU_OPTIONS="busy=0 llc_kib=1024")
    stack.stack()
    lines = (stack.root / "etc/nova-vp/vpmu.conf").read_text().splitlines()
    assert lines == ["busy=1", "busy=0", "llc_kib=1024"]


@pytest.mark.parametrize(
    ("services", "settings", "word"),
    [
        (None, {"VP_PMU": "magic"}, "use auto, perf or vpmu"),
        (None, {"VP_MODE": "brave"}, "use observe, advise or enforce"),
        (None, {"VP_PMU": "vpmu", "LIBVIRT_TYPE": "kvm"}, "set LIBVIRT_TYPE=qemu"),
        ("key,mysql,n-api", {}, "enable_service rabbit"),
        ("rabbit,mysql,n-api", {}, "enable_service key"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_installed(node, services, settings, word):
    done = node(services, **settings).run('source "$VP_DIR/devstack/plugin.sh" stack pre-install')
    assert done.returncode == 1
    assert word in done.stderr


def test_a_qemu_that_does_not_load_the_software_pmu_is_told_before_a_guest_needs_it(node):
    stack = node(QEMU_REFUSES="1")
    for phase in ("pre-install", "install"):
        stack.phase("stack", phase)
    done = stack.run('source "$VP_DIR/devstack/plugin.sh" stack post-config')
    assert done.returncode == 1
    assert "use VP_PMU=perf" in done.stderr


@pytest.mark.parametrize(
    ("script", "word"),
    [
        ("nonsense_of_devstack", "have no nonsense_of_devstack"),
        ("run_process vp-agent 'vp-agent run'", "no absolute path"),
        ("run_process vp-agent '/usr/bin/sudo vp-agent'", "sudo does not work"),
        ("iniset $NOVA_CONF '' a b", "give file, section"),
        ("iniset $ROOT/etc/libvirt/qemu.conf a b c", "may not write"),
        ("cp $NOVA_CONF $ROOT/etc/libvirt", "may not write"),
        ("setup_develop $VP_DIR magic", "no extra magic"),
        ("write_uwsgi_config $STUB/a vp_api/wsgi.py /a '' a", "no module path"),
        ("get_or_create_endpoint nothing a b c d", "no service nothing"),
        ("rabbitmqctl import_definitions", "needs sudo"),
        ("sudo rabbitmqctl import_definitions <$NOVA_CONF", "hangs on its standard input"),
        ("sudo rabbitmqctl import_definitions $NOVA_CONF", "rabbitmq may not read"),
    ],
)
def test_the_stub_refuses_what_devstack_would(node, script, word):
    done = node().run(script)
    assert done.returncode != 0
    assert word in done.stderr

# SPDX-License-Identifier: Apache-2.0
"""Recipes name what the code has, and say that they were not run as long as they were not."""

import argparse
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path

import jinja2
import pytest
import yaml

from tests.commands import OURS, of_openstack
from tests.unit.deploy.recipes import (
    CHART,
    CONTAINER_FILES,
    CONTAINERS,
    DEPLOY,
    FILES,
    HELM,
    KOLLA,
    OSA,
    ROOT,
    SHARED,
    first_line,
    ran,
    read,
    strings,
)
from vp_api.healthcheck import PATH
from vp_api.versions import SERVICE_TYPE

SETUP = ConfigParser()
SETUP.read(ROOT / "setup.cfg")
SCRIPTS = {
    line.split(" = ")[0]
    for line in SETUP["options.entry_points"]["console_scripts"].splitlines()
    if line
}
EXTRAS = set(SETUP["options.extras_require"])
OTHER_PROGRAMS = {"waitress-serve", "python", "sh", "sleep"}
UNITS = {path.name: path.read_text() for path in (ROOT / "etc/nova-vp/systemd").iterdir()}
WITHOUT_COMMENTS = {".json"}
YAML_FILES = [path for path in FILES if path.suffix == ".yml" or path.parent in (HELM, CHART)]
KOLLA_SERVICES = read(KOLLA / "roles/nova_vp/defaults/main.yml")["nova_vp_services"]
VALUES = read(CHART / "values.yaml")
TEXTS = {str(path.relative_to(DEPLOY)): path.read_text() for path in FILES}
ALL = "\n".join(TEXTS.values())


def name_of(path: Path) -> str:
    return str(path.relative_to(DEPLOY))


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_the_first_line_says_untested_until_the_page_lists_it_as_run(path: Path) -> None:
    if path.suffix in WITHOUT_COMMENTS:
        return
    places = {
        str(one.relative_to(ROOT)) for one in (path, *path.parents) if one.is_relative_to(DEPLOY)
    }
    assert ("untested" in first_line(path)) is not bool(places & ran())


def test_what_the_page_lists_as_run_exists() -> None:
    assert ran()
    assert [name for name in ran() if not (ROOT / name).exists()] == []


def test_the_page_for_deployers_names_every_recipe() -> None:
    page = (ROOT / "doc/source/deployers.md").read_text()
    folders = {f"deploy/{one.name}/" for one in DEPLOY.iterdir() if one.is_dir()}
    assert folders <= set(re.findall(r"`(deploy/[\w-]+/)", page))
    assert {path.name for path in CONTAINER_FILES} <= set(re.findall(r"`([\w.-]+)`", page))


@pytest.mark.parametrize("path", YAML_FILES, ids=name_of)
def test_yaml_and_its_templates_can_be_parsed(path: Path) -> None:
    environment = jinja2.Environment(autoescape=True)
    for text in strings(yaml.safe_load(path.read_text())):
        environment.parse(text)


def programs() -> Iterator[tuple[str, str]]:
    """Where a program is started, and its name."""
    for path in CONTAINER_FILES:
        for words in re.findall(r"^(?:CMD|ENTRYPOINT) (\[.*\])$", path.read_text(), re.M):
            yield path.name, json.loads(words)[0]
    for name, service in KOLLA_SERVICES.items():
        yield f"kolla-ansible {name}", service["command"].split()[0]
    for words in re.findall(r'\(list ("[^)]*")\)', TEXTS["helm/nova-vp/templates/jobs.yaml"]):
        yield "helm, jobs", words.split('"')[1]
    for words in re.findall(r'\(list ("[^)]*")\)', TEXTS["helm/nova-vp/templates/agent.yaml"]):
        yield "helm, agent", words.split('"')[1]
    for words in re.findall(r"command: \[([\w-]+)", ALL):
        yield "helm, a probe or a pod", words
    listed = read(OSA / "roles/os_nova_vp/vars/main.yml")["nova_vp_programs"]
    for one in re.findall(r"'([\w-]+)'", listed):
        yield "openstack-ansible", one
    for one in re.findall(r"'(vp-[\w-]+)',|\bvenv \}\}/bin/([\w-]+)\"", ALL):
        yield "openstack-ansible, a task", one[0] or one[1]


@pytest.mark.parametrize(("place", "program"), sorted(set(programs())))
def test_a_program_that_is_started_is_a_console_script_or_ships_with_the_image(
    place: str, program: str
) -> None:
    of_images = {path.name for path in CONTAINERS.glob("vp-agent-*")}
    assert program in SCRIPTS | of_images | OTHER_PROGRAMS


def test_programs_are_found_in_each_recipe() -> None:
    places = {place.split(",")[0].split(" ")[0] for place, _ in programs()}
    assert places >= {"vp-agent.Containerfile", "kolla-ansible", "openstack-ansible", "helm"}


def managed() -> set[tuple[str, ...]]:
    """The words after vp-manage, up to the first that is no plain text."""
    found = {
        tuple(re.findall(r"'([\w-]+)'", words))
        for words in re.findall(r"nova_vp_manage\s*\+ \[((?:'[\w-]+'(?:, )?)+)", ALL)
    }
    found |= {
        tuple(re.findall(r'"([\w-]+)"', words)[1:])
        for words in re.findall(r'\(list ("vp-manage"[^)]*)\)', ALL)
    }
    return found


@pytest.mark.parametrize("words", sorted(managed()))
def test_vp_manage_takes_the_command(words: tuple[str, ...]) -> None:
    parser = OURS["vp-manage"]
    for word in words:
        if word.startswith("--"):
            assert word in parser._option_string_actions
        else:
            [inner] = [
                one for one in parser._actions if isinstance(one, argparse._SubParsersAction)
            ]
            parser = inner.choices[word]


def test_vp_manage_makes_database_and_credentials() -> None:
    assert {words[:2] for words in managed()} == {
        ("db", "sync"),
        ("credentials", "create"),
        ("credentials", "trusted"),
        ("credentials", "rights"),
    }


SCRIPT = TEXTS["helm/nova-vp/files/keystone.sh"].replace("\\\n", " ")
KEYSTONE = re.findall(r"openstack ((?:role|user|service|endpoint) [^|>)\n;]*)", SCRIPT)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("command", KEYSTONE)
def test_openstack_takes_the_commands_of_the_chart(command: str) -> None:
    words = shlex.split(re.sub(r"\$\w+", "public", command.removesuffix(" 2")))
    parser, rest = of_openstack(words)
    parser.parse_args(rest)


def test_services_are_registered_with_the_type_that_clients_ask_for() -> None:
    assert len(KEYSTONE) >= 8
    kolla = read(KOLLA / "roles/nova_vp/defaults/main.yml")["nova_vp_ks_services"]
    assert [one["type"] for one in kolla] == [SERVICE_TYPE]
    osa = read(OSA / "roles/os_nova_vp/tasks/keystone.yml")[0]["vars"]
    assert [one["type"] for one in osa["_service_catalog"]] == [SERVICE_TYPE]
    assert osa["_service_catalog"][0]["name"] == osa["_service_endpoints"][0]["service"]
    [created] = [words for words in KEYSTONE if words.startswith("service create")]
    assert created.split()[-1] == SERVICE_TYPE
    assert {words.split()[-3] for words in KEYSTONE if "endpoint create" in words} == {SERVICE_TYPE}


def test_rights_in_nova_are_those_of_etc() -> None:
    ours = read(ROOT / "etc/nova-vp/nova-policy.yaml")
    assert read(HELM / "nova-values.yaml")["conf"]["policy"] == ours
    for recipe in (KOLLA, OSA):
        assert "etc/nova-vp/nova-policy.yaml" in "".join(
            path.read_text() for path in recipe.rglob("*.yml")
        )


def test_bounds_of_queues_are_those_of_etc() -> None:
    bounds = (ROOT / "etc/nova-vp/rabbitmq-policies.json").read_text()
    assert TEXTS["helm/nova-vp/files/rabbitmq-policies.json"] == bounds
    assert "/../../etc/nova-vp/rabbitmq-policies.json" in TEXTS["ansible/rabbitmq.yml"]


def test_the_role_of_live_migrations_is_that_of_the_rights() -> None:
    rights = (ROOT / "etc/nova-vp/nova-policy.yaml").read_text()
    [role] = set(re.findall(r"role:(\w+)", rights))
    assert set(re.findall(r"\bvp_esc\w*", ALL)) == {role}
    for name in ("files/keystone.sh", "kolla", "openstack-ansible"):
        texts = [text for path, text in TEXTS.items() if name in path]
        assert any(role in text for text in texts), name


def test_health_checks_ask_where_health_is_served() -> None:
    asked = re.findall(r"/heal\w*", ALL)
    assert set(asked) == {PATH}
    assert len(asked) >= 8


def test_ports_are_those_of_the_unit_and_of_the_configuration() -> None:
    [port] = re.findall(r"--listen=\*:(\d+)", UNITS["vp-api.service"])
    assert f'"--listen=*:{port}"' in TEXTS["containers/vp-api.Containerfile"]
    assert f"EXPOSE {port}\n" in TEXTS["containers/vp-api.Containerfile"]
    assert VALUES["service"]["port"] == int(port)
    assert f"containerPort: {port}\n" in TEXTS["helm/nova-vp/templates/controllers.yaml"]
    for path in ("kolla-ansible/roles/nova_vp", "openstack-ansible/roles/os_nova_vp"):
        assert re.search(rf"_port: {port}$", TEXTS[f"{path}/defaults/main.yml"], re.M)
    looked_at = set(re.findall(r"127\.0\.0\.1:(\d+)/health", ALL))
    assert looked_at == {str(VALUES["conf"]["vp_scheduler"]["metrics_port"])}
    assert (
        "[vp_scheduler]\nescalation_mode = {{ nova_vp_escalation_mode }}\n"
        in (SHARED / "nova-vp.conf.j2").read_text()
    )
    assert f"metrics_port = {looked_at.pop()}\n" in (SHARED / "nova-vp.conf.j2").read_text()


def test_applications_exist() -> None:
    named = set(re.findall(r"\b(vp_api\.\w+):(\w+)", ALL))
    assert named == {("vp_api.wsgi", "application")}
    assert "\napplication = " in (ROOT / "api/vp_api/wsgi.py").read_text()


@pytest.mark.parametrize("path", CONTAINER_FILES, ids=name_of)
def test_container_files_name_extras_that_exist(path: Path) -> None:
    for extras in re.findall(r'nova_vp-\*\.whl\)\[([\w,]+)\]"', path.read_text()):
        assert set(extras.split(",")) <= EXTRAS
    named = re.findall(r"nova_vp-\*\.whl(\)\[[\w,]+\])?", path.read_text())
    assert len(named) == 1


def test_extras_of_the_role_exist() -> None:
    lists = read(OSA / "roles/os_nova_vp/vars/main.yml")["nova_vp_extras"]
    named = set(re.findall(r"'(\w+)'", lists))
    assert named == {"agent", "api", "scheduler"}
    assert named <= EXTRAS


@pytest.mark.parametrize("path", CONTAINER_FILES, ids=name_of)
def test_container_files_name_no_image_and_copy_what_exists(path: Path) -> None:
    text = path.read_text()
    assert set(re.findall(r"^FROM (\S+)", text, re.M)) == {"${BASE}"}
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    for words in re.findall(r"^COPY (?!--from)(?:--\S+ )*(.*)$", text, re.M):
        for source in words.split()[:-1]:
            assert f"!{source}" in ignored
            assert source.startswith("dist/") or list(ROOT.glob(source))


def test_services_run_without_root() -> None:
    for name in ("vp-api", "vp-scheduler"):
        text = TEXTS[f"containers/{name}.Containerfile"]
        assert re.findall(r"^USER (.*)$", text, re.M) == ["nova-vp"]
    assert "--reuid=nova-vp" in TEXTS["containers/vp-agent-entry"]


def test_the_agent_has_the_capabilities_of_its_unit() -> None:
    [line] = re.findall(r"^AmbientCapabilities=(.*)$", UNITS["vp-agent.service"], re.M)
    names = [name.removeprefix("CAP_") for name in line.split()]
    defaults = read(KOLLA / "roles/nova_vp/defaults/main.yml")
    assert defaults["nova_vp_agent_capabilities"] == names
    as_setpriv = ",".join(f"+{name.lower()}" for name in names)
    assert VALUES["agent"]["capabilities"] == as_setpriv
    assert f":-{as_setpriv}}}" in TEXTS["containers/vp-agent-entry"]


def test_the_agent_is_given_up_after_the_times_of_its_units() -> None:
    [release] = re.findall(r"up - beat > (\d+)", UNITS["vp-agent-release.service"])
    assert f"${{1:-{release}}}" in TEXTS["containers/vp-agent-health"]
    [watchdog] = re.findall(r"^WatchdogSec=(\d+)$", UNITS["vp-agent.service"], re.M)
    assert set(re.findall(r"vp-agent-health[\", ]+(\d+)", ALL)) == {watchdog}
    [pause] = re.findall(r"^OnUnitInactiveSec=(\d+)s$", UNITS["vp-agent-release.timer"], re.M)
    assert f"    sleep {pause} &\n" in TEXTS["containers/vp-agent-release-loop"]


def test_units_and_files_that_tasks_copy_exist() -> None:
    units = read(OSA / "roles/os_nova_vp/vars/main.yml")["nova_vp_units"]
    assert set(re.findall(r"'([\w-]+\.(?:service|timer))'", units)) == set(UNITS)
    copied = set(re.findall(r"playbook_dir(?: \}\}| ~ ')/\.\./\.\./([\w./-]+\w)", ALL))
    assert len(copied) > 4
    assert [name for name in copied if not (ROOT / name).exists()] == []
    included = set(re.findall(r"playbook_dir \}\}/\.\./ansible/([\w.-]+)", ALL))
    assert included == {path.name for path in SHARED.iterdir()}


def test_every_value_that_the_chart_reads_is_there() -> None:
    for path in re.findall(r"\.Values\.([\w.]+)", ALL):
        found = VALUES
        for name in path.split("."):
            assert name in found, path
            found = found[name]


def test_the_chart_reads_files_that_exist() -> None:
    [names] = re.findall(r"range \$name := list ([^}]*) \}\}", ALL)
    named = set(re.findall(r'"([^"]+)"', names))
    assert named == {path.name for path in (CHART / "files").iterdir()}


def test_helm_renders_the_chart(tmp_path: Path) -> None:
    if shutil.which("helm") is None:
        pytest.skip("helm is not installed")
    images = ",".join(f"images.{name}={name.lower()}" for name in VALUES["images"])
    command = [
        "helm",
        "template",
        "nova-vp",
        CHART,
        "--set",
        f"{images},agent.enabled=true,replicas=2",
    ]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    helm = shutil.which("helm")
    done = subprocess.run(
        [helm, *command[1:]], capture_output=True, text=True, env=environment, check=True
    )
    kinds = [one["kind"] for one in yaml.safe_load_all(done.stdout) if one]
    assert {"StatefulSet", "DaemonSet", "Service", "Secret", "Job"} <= set(kinds)

# SPDX-License-Identifier: Apache-2.0
"""People at their shells: who looks, who orders, what comes of it, what each is told of it.

The real client asks the real cloud; live views run under tmux. One set of servers, one act after
the other: the acts build on each other, in file order. Names are random, so that whatever a tenant
is told of a neighbour is found in every byte that the tenant gets.
"""

import csv
import io
import re
import uuid as uuids

import pytest
import yaml

from testbed.lab import cloud, settings
from testbed.lab.monitor import agent_status
from tests.lab.compute_nodes import wait_until_usable
from tests.lab.hosts import (
    BOTH_CPUS,
    HOSTS,
    affinities,
    domain_xml,
    is_degraded_at_cache,
    placement,
    set_mode,
    vp,
    wait_for_vp,
    wait_until_homed,
)
from tests.openstack_shell import Shell
from tests.terminal import ENDED, Terminal, missing_for_terminal

HOST, OTHER = HOSTS
OPENSTACK = settings.VENV / "bin" / "openstack"
LAB = settings.LAB / "lab"
JOURNAL = "urn:nova-vp:1"
TICKS, TICK_S = 5, 1.0
"""What does not happen in so many does not happen; the agent acts within two or three."""
NOBODY = f"nobody-{uuids.uuid4().hex[:8]}"


class Cast:
    """A victim of tenant-a, and a neighbour of tenant-b in its LLC domain that is paused before it
    becomes noisy."""

    def __init__(self, admin, shell):
        self.admin = admin
        self._shell = shell
        self.filler = cloud.boot(admin, a_name("filler"), "vp.small", "work=compute", host=HOST)
        wait_until_homed(HOST, self.filler.id)
        [service] = admin.compute.services(binary="nova-compute", host=OTHER)
        admin.compute.disable_service(service)  # Tenants cannot choose a host.
        try:
            self.victim = boot("tenant-a", "victim", "chase:384")
            self.noisy = boot("tenant-b", "noisy", "compute@4,stream:8192")
        finally:
            admin.compute.enable_service(service)
        admin.compute.pause_server(self.noisy)
        self.is_paused = True
        self.instance = admin.compute.get_server(self.noisy.id).instance_name
        self._canaries = re.compile(
            "|".join(
                rf"\b{re.escape(word)}\b"
                for word in (
                    *(text for one in (self.filler, self.noisy) for text in (one.id, one.name)),
                    *(admin.identity.find_project(name).id for name in ("admin", "tenant-b")),
                    *HOSTS,
                )
            )
        )

    def run(self, command, user="admin"):
        """`openstack COMMAND` as that user. A tenant is told nothing of a neighbour."""
        done = self._shell.run(command, environment(user))
        if user == "tenant-a":
            assert self.betrayed(done.out + done.err) == set()
        return done

    def betrayed(self, text):
        return set(self._canaries.findall(text))

    def wait_for_harm(self):
        if self.is_paused:
            self.admin.compute.wait_for_server(self.noisy, status="PAUSED", wait=60, interval=0.2)
            self.admin.compute.unpause_server(self.noisy)
            self.is_paused = False
        wait_for_vp(HOST, self.victim.id, "the harm", is_degraded_at_cache)

    def actions(self, server):
        return self.run(f"vp action list --server {server.name} -f json").json

    def moves(self):
        return [one for one in self.actions(self.noisy) if one["Reason"] == "move-aggressor"]

    def is_free(self, host):
        """Nothing of ours is on the noisy neighbour, by the kernel's and libvirt's word."""
        is_afloat = set(affinities(self.noisy.id).values()) == {BOTH_CPUS}
        return is_afloat and JOURNAL not in domain_xml(host, self.instance)

    def are_apart(self):
        theirs, ours = placement(self.noisy.id), placement(self.victim.id)
        return len(theirs) == 1 and not theirs & ours


def a_name(what):
    return f"{what}-{uuids.uuid4().hex[:8]}"


def boot(tenant, what, work):
    server = cloud.boot(cloud.connect(tenant), a_name(what), "vp.tiny", f"work={work}")
    wait_until_homed(HOST, server.id)
    return server


def environment(user):
    return {**settings.base_environment(), **settings.admin_environment(user)}


def vp_agent(host, *argv):
    """`vp-agent` at a shell of that host."""
    return cloud.shell(host, "vp-agent", *argv, check=False)


def wait(condition, what, deadline_s=60):
    return cloud.wait_for(condition, what, deadline_s=deadline_s)


def stays(host, is_so):
    """It is so during that many ticks of the host's agent."""
    ticks = [agent_status(host)["at"]]

    def are_over():
        assert is_so()
        at = agent_status(host)["at"]
        if at - ticks[-1] > TICK_S / 2:  # It is told to the microsecond, anew each time.
            ticks.append(at)
        return len(ticks) > TICKS

    wait(are_over, f"{TICKS} ticks of {host}")


@pytest.fixture(scope="module")
def cast(admin):
    shell = Shell()
    try:
        yield Cast(admin, shell)
    finally:
        shell.close()


def top(user):
    words = [f"{name}={value}" for name, value in environment(user).items()]
    return Terminal(["env", *words, OPENSTACK, "vp", "top", "--interval", "1"])


@pytest.mark.skipif(missing_for_terminal() is not None, reason=str(missing_for_terminal()))
def test_who_looks_sees_the_harm_begin(cast):
    victim, noisy = cast.victim.name, cast.noisy.name
    on_host = Terminal([LAB, "shell", HOST, "vp-agent", "top"])
    with top("admin") as operators, top("tenant-a") as tenants, on_host:
        operators.wait_for_line("3 servers, 0 degraded")
        tenants.wait_for_line(victim, "0 pug", "no")
        on_host.wait_for_line(victim, "0 pug", "no")
        cast.wait_for_harm()
        # Its intensity depends on the CPU time that the machine has for it.
        on_host.wait_for_line(victim, "bulldog", "cache", f"by {noisy}")
        operators.wait_for_line("3 servers, 1 degraded")
        operators.wait_for_line(victim, HOST, "bulldog", "%")
        screen = tenants.wait_for_line(victim, "bulldog", "%")
        assert cast.betrayed(screen) == set()
        for terminal in (operators, tenants, on_host):
            terminal.press("q")
            terminal.wait_for(f"{ENDED}: 0")


def test_only_operators_are_told_who_it_is(cast):
    cast.wait_for_harm()

    def explained():
        told = cast.run(f"vp explain {cast.victim.name}").words
        return told if "Aggressor" in told else None

    told = wait(explained, "the API to have the news")
    assert f"Aggressor: {cast.noisy.name} ({cast.noisy.id})" in told
    assert f"`openstack vp host set {HOST} --mode enforce`" in told
    assert cast.betrayed(told) >= {cast.noisy.name, cast.noisy.id, HOST}
    told = cast.run(f"--debug vp explain {cast.victim.name}", "tenant-a")
    assert told.rc == 0
    assert "Yes, by a neighbour" in told.out
    on_host = vp_agent(HOST, "explain", cast.victim.name).stdout
    assert f"Aggressor: {cast.noisy.name}" in on_host


def test_a_host_is_steered_by_itself_while_the_broker_is_away(cast):
    filler = cast.filler
    assert placement(filler.id) < BOTH_CPUS
    cloud.stop("rabbitmq")
    try:
        ordered = vp_agent(HOST, "override", filler.name, "--exempt")
        assert ordered.stdout == f"{filler.name} ({filler.id})\n  on this host: exempt\n"
        wait(lambda: placement(filler.id) == BOTH_CPUS, "its pin to go", deadline_s=60)
        stays(HOST, lambda: placement(filler.id) == BOTH_CPUS)
        assert "measured, but not changed" in vp_agent(HOST, "explain", filler.name).stdout
    finally:
        cloud.start("rabbitmq")

    def told():
        done = cast.run(f"vp show {filler.name} -f json")
        return done.rc == 0 and done.json["unmanaged"] and done.json

    shown = wait(told, "the cloud to hear of it", deadline_s=120)
    assert shown["unmanaged"]["reason"] == "exempt"
    assert shown["overrides"]["exempt"] is False, "that one is the host's own"
    ordered = vp_agent(HOST, "override", filler.name, "--no-exempt")
    assert (ordered.returncode, ordered.stdout) == (0, "no overrides\n")
    wait_until_homed(HOST, filler.id)


def test_what_is_undone_is_told_as_undone(cast):
    cast.wait_for_harm()
    home = placement(cast.victim.id)
    cast.run(f"vp host set {HOST} --mode enforce")
    wait(cast.are_apart, "victim and neighbour to be apart")
    wait_for_vp(HOST, cast.victim.id, "the harm's end", lambda seen: not seen["interference"])
    [move] = wait(cast.moves, "the API to have the news")
    assert (move["Server"], move["Host"]) == (cast.noisy.id, HOST)
    # The victim must not leave in its stead.
    assert cast.run(f"vp set {cast.victim.name} --mode observe").out == ""
    assert move["ID"] in cast.run(f"vp action undo {move['ID']}").words
    wait(lambda: placement(cast.noisy.id) == home, "it to be back")

    def told():
        found = cast.actions(cast.noisy)
        is_told = [one["Result"] for one in found if one["ID"] == move["ID"]] == ["undone"]
        return is_told and [one for one in found if one["Reason"] == "undo-ordered"]

    [undoing] = wait(told, "the API to have the news")
    assert undoing["ID"] != move["ID"]
    again = cast.run(f"vp action undo {move['ID']}")
    assert again.rc == 1
    assert f"{move['ID']} (undone): nothing remains to revert" in again.err
    cast.wait_for_harm()


def test_servers_go_by_name_and_by_id(cast):
    for command in ("show", "explain", "history", "action list --server"):
        for user in ("admin", "tenant-a"):
            for given in (cast.victim.name, cast.victim.id):
                assert cast.run(f"vp {command} {given}", user).words
    told = cast.run(f"vp show {cast.victim.name} -f json", "tenant-a").json
    assert told["server_id"] == cast.victim.id


@pytest.mark.parametrize(
    ("command", "mend"),
    [
        ("show {nobody}", "`openstack vp list` lists the known servers"),
        (f"show {uuids.uuid4()}", "`openstack vp list` lists the known servers"),
        ("explain {nobody}", "`openstack vp list` lists the known servers"),
        ("history {nobody}", "`openstack vp list` lists the known servers"),
        ("set {nobody} --opt-out", "`openstack vp list` lists the known servers"),
        ("unset {nobody} --opt-out", "`openstack vp list` lists the known servers"),
        ("set {victim}", "Give at least one option; `--help` lists them."),
        ("action show {nobody}", "`openstack vp action list` lists the stored actions"),
        ("action undo {nobody}", "`openstack vp action list` lists the stored actions"),
        ("action accept {nobody}", "`openstack vp action list` lists the stored actions"),
        ("host show {nobody}", "`openstack vp host list` lists the known hosts"),
        ("host set {nobody} --mode observe", "`openstack vp host list` lists the known hosts"),
        ("escalation show {nobody}", "`openstack vp escalation list` lists the stored"),
        ("profile show {nobody}", "`openstack vp profile list` lists the known"),
    ],
)
def test_who_mistypes_is_told_in_one_line_what_to_do(cast, command, mend):
    done = cast.run(f"vp {command.format(nobody=NOBODY, victim=cast.victim.name)}")
    assert (done.rc, done.out) == (1, "")
    [line] = done.err.splitlines()
    assert mend in line


@pytest.mark.parametrize(
    ("argv", "mend"),
    [
        (("explain", NOBODY), "give the id of one of: {filler}"),
        (("override", NOBODY, "--opt-out"), "give a UUID of `vp-agent status --json`: {filler}"),
        (("undo", NOBODY), "actions that can be reverted: "),
        (("accept", NOBODY), "`vp-agent mode advise`"),
    ],
)
def test_and_so_on_the_host(cast, argv, mend):
    done = vp_agent(HOST, *argv)
    assert (done.returncode, done.stdout) == (1, "")
    [line] = done.stderr.splitlines()
    assert mend.format(filler=cast.filler.name) in line


def test_what_was_undone_is_not_done_again_and_the_cluster_is_asked_instead(cast):
    """By then it could have been done many times."""

    def told():
        found = cast.run("vp escalation list -f json").json
        return [one for one in found if one["Victim"] == cast.victim.id]

    [asked] = wait(told, "the cluster to be told that nothing helps the victim", 60)
    assert placement(cast.noisy.id) == placement(cast.victim.id) < BOTH_CPUS
    assert len(cast.moves()) == 1
    told = cast.run(f"vp explain {cast.victim.name}").words
    assert f"`openstack vp escalation show {asked['ID']}`" in told
    assert cast.run(f"vp escalation show {asked['ID']}").words


LISTS = ("list", "history {victim}", "action list --server {victim}")
OPERATORS_LISTS = ("action list", "host list", "escalation list", "profile list")


def test_lists_are_for_programs_and_for_narrow_terminals(cast):
    wait(lambda: cast.run(f"vp history {cast.victim.name} -f json").json, "a minute", 90)
    for user, commands in (("admin", (*LISTS, *OPERATORS_LISTS)), ("tenant-a", LISTS)):
        for command in commands:
            asked = f"vp {command.format(victim=cast.victim.name)}"
            assert cast.run(asked, user).words, "a table, narrow enough"
            read = [
                cast.run(f"{asked} -f json", user).json,
                yaml.safe_load(cast.run(f"{asked} -f yaml", user).out),
                list(csv.DictReader(io.StringIO(cast.run(f"{asked} -f csv", user).out))),
            ]
            assert all(read), asked
            assert len({frozenset(rows[0]) for rows in read}) == 1, asked


def test_who_is_exempt_is_let_go_of_at_once(cast):
    assert not cast.is_free(HOST)
    assert "HTTP 403" in cast.run(f"vp set {cast.noisy.name} --exempt", "tenant-b").err
    assert cast.run(f"vp set {cast.noisy.id} --exempt").out == ""
    wait(lambda: cast.is_free(HOST), "its pin to go", deadline_s=60)
    stays(HOST, lambda: cast.is_free(HOST))
    for user in ("admin", "tenant-b"):
        shown = cast.run(f"vp show {cast.noisy.name} -f json", user).json
        assert shown["overrides"]["exempt"] is True
        assert shown["unmanaged"]["reason"] == "exempt"


def test_and_is_left_alone_wherever_it_goes(cast):
    """Others are homed there as they arrive."""
    set_mode(OTHER, "enforce")
    for host in HOSTS:
        wait_until_usable(cast.admin, host)  # Nova may still be waiting for the broker of before.
    assert cloud.live_migrate(cast.admin, cast.noisy, OTHER) == OTHER
    wait_for_vp(OTHER, cast.noisy.id, "it to be known", lambda seen: is_exempt(cast, seen))
    stays(OTHER, lambda: is_exempt(cast, vp(OTHER, cast.noisy.id)))


def is_exempt(cast, seen):
    """Nothing was ever done to it on this host."""
    assert cast.is_free(OTHER)
    assert seen["actions"] == []
    return seen["unmanaged"] == "exempt"


def test_who_is_exempt_no_longer_is_placed_again(cast):
    assert cast.run(f"vp unset {cast.noisy.id} --exempt").out == ""
    wait_until_homed(OTHER, cast.noisy.id)
    assert len(placement(cast.noisy.id)) == 1


def test_an_order_outlives_the_silence_of_the_host(cast):
    cloud.stop(f"vp-agent@{OTHER}")
    try:
        told = cast.run(f"vp set {cast.noisy.id} --exempt")
        assert "applied when its host next reports" in told.err
    finally:
        cloud.start(f"vp-agent@{OTHER}")
    wait_for_vp(OTHER, cast.noisy.id, "the order", lambda seen: seen["unmanaged"] == "exempt")
    assert cast.is_free(OTHER)
    stays(OTHER, lambda: cast.is_free(OTHER))

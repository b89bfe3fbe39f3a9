# SPDX-License-Identifier: Apache-2.0
"""Steps that scenarios share: a host to steer, servers in chosen places, a neighbour let loose.

A scenario sets the mode of hosts and puts the former one back. Whatever it cannot do here (no
counters, one host, one cache) is a skip that says so.
"""

from typing import Any

from tempest import config
from tempest.common import waiters
from tempest.lib import exceptions
from tempest.lib.common.utils import test_utils

from vp_tempest_plugin.tests.base import BaseTest

CONF = config.CONF
NO_CAP = (None, "none")
"""As the API says that a server's CPU is not limited; null: its agent is of an earlier release."""


class ScenarioTest(BaseTest):
    """`os_project_admin` chooses hosts for servers of the project of `os_primary`."""

    credentials = ("primary", "admin", "project_admin")

    @classmethod
    def hosts(cls) -> list[dict[str, Any]]:
        """Those that report, the emptiest first."""
        hosts = cls.operator.list_hosts(is_stale="false")["hosts"]
        if not hosts:
            raise cls.skipException("no host reports to nova-vp")
        return sorted(hosts, key=lambda host: (host["vps_count"], host["name"]))

    @classmethod
    def host_with_counters(cls) -> str:
        """Raises a skip with what the hosts say of their counters."""
        hosts = cls.hosts()
        for host in hosts:
            if host["counters"]["source"] != "none":
                return str(host["name"])
        why = "; ".join(f"{h['name']}: {' '.join(h['counters']['problems'])}" for h in hosts)
        raise cls.skipException(f"no host can read counters, so nothing is measured: {why}")

    @classmethod
    def need_user_data(cls, *names: str) -> None:
        for name in names:
            if not CONF.performance_isolation[name]:
                raise cls.skipException(
                    f"[performance_isolation] {name} is not set: what lets a server of image_ref "
                    "do that is not known"
                )

    @classmethod
    def steer(cls, host: str, mode: str) -> None:
        """That mode holds for the host until its own former one is put back."""
        levels = {one["level"]: one["mode"] for one in cls.operator.show_host(host)["mode_levels"]}
        cls.addClassResourceCleanup(cls.operator.set_host_mode, host, levels.get("host"))
        cls.set_mode(host, mode)

    @classmethod
    def set_mode(cls, host: str, mode: str) -> None:
        cls.operator.set_host_mode(host, mode)

        def holds() -> bool:
            shown = cls.operator.show_host(host)
            tighter = [
                one for one in shown["mode_levels"] if one["level"] in ("cloud", "aggregate")
            ]
            own = [one for one in shown["mode_levels"] if one["level"] == "host"]
            if shown["mode"] != mode and own and own[0]["mode"] == mode and tighter:
                raise cls.skipException(f"a tighter mode than {mode} holds for {host}: {tighter}")
            return bool(shown["mode"] == mode)

        cls.wait_for(holds, f"{host} to be in mode {mode}")

    @classmethod
    def domains_of(cls, host: str) -> dict[int, int]:
        """CPUs of each LLC domain of the host, by its number."""
        shown = cls.operator.show_host(host)
        domains = [domain for cell in shown["cells"] for domain in cell["domains"]]
        return {domain["id"]: count_of(domain["cpus"]) for domain in domains}

    @classmethod
    def boot_on(cls, host: str, manager: Any = None, **options: Any) -> str:
        """The id of a server that host reports."""
        server = cls.boot(manager or cls.os_project_admin, host=host, **options)
        server_id = str(server["id"])
        cls.wait_until_told(server_id, f"the server to be on {host}", lambda vp: vp["host"] == host)
        return server_id

    @classmethod
    def wait_until_placed(cls, server_id: str) -> int:
        """The LLC domain that the agent gave it."""
        vp = cls.wait_until_told(
            server_id, "the agent to give the server a place", lambda vp: len(vp["domains"]) == 1
        )
        return int(vp["domains"][0])

    @classmethod
    def pause(cls, manager: Any, server_id: str) -> None:
        manager.servers_client.pause_server(server_id)
        waiters.wait_for_server_status(manager.servers_client, server_id, "PAUSED")

    @classmethod
    def unpause(cls, manager: Any, server_id: str) -> None:
        manager.servers_client.unpause_server(server_id)
        waiters.wait_for_server_status(manager.servers_client, server_id, "ACTIVE")

    def never(self, condition: Any, what: str) -> None:
        """It does not become so while it is watched."""
        silence_s = CONF.performance_isolation.silence
        self.assertFalse(test_utils.call_until_true(lambda: bool(condition()), silence_s, 1), what)


class InterferenceTest(ScenarioTest):
    """A victim that lives off the cache that a paused neighbour of another project shares."""

    @classmethod
    def resource_setup(cls) -> None:
        super().resource_setup()
        cls.need_user_data("sensitive_user_data", "streaming_user_data")
        cls.host = cls.host_with_counters()
        cls.steer(cls.host, "enforce")
        cls.leave_one_cache()
        managed = cls.make_flavor(specs={"vp:manage": "yes"})
        work = CONF.performance_isolation
        cls.victim = cls.boot_on(cls.host, flavor=managed, user_data=work.sensitive_user_data)
        home = cls.wait_until_placed(cls.victim)
        cls.neighbour = cls.boot_on(
            cls.host, cls.os_admin, flavor=managed, user_data=work.streaming_user_data
        )
        place = cls.wait_until_placed(cls.neighbour)
        cls.pause(cls.os_admin, cls.neighbour)
        if place != home:
            raise cls.skipException(
                f"other servers on {cls.host} keep victim and neighbour in different caches"
            )
        cls.wait_until_told(
            cls.victim,
            "the victim to be known to live off its cache",
            lambda vp: "cache" in vp["sensitivity"],
            work.reaction_timeout,
        )

    @classmethod
    def leave_one_cache(cls) -> None:
        """Idle servers with two vCPUs per CPU in all LLC domains but one: the emptiest is left."""
        first, *others = cls.domains_of(cls.host).values()
        for cpus in others:
            filler = cls.make_flavor(vcpus=2 * max(cpus, first))
            cls.wait_until_placed(cls.boot_on(cls.host, flavor=filler))

    def let_loose(self) -> dict[str, Any]:
        """The operator's view of the victim once it is degraded."""
        self.unpause(self.os_admin, self.neighbour)
        return self.wait_until_told(
            self.victim,
            "the victim to be degraded by its neighbour",
            lambda vp: vp["hurt_by_neighbour"],
            CONF.performance_isolation.reaction_timeout,
        )

    def help_for_victim(self) -> list[dict[str, Any]]:
        """Actions for it, which a tenant would be told of, since both were placed."""
        found = self.operator.list_actions(host=self.host)["actions"]
        return [
            one
            for one in found
            if one["victim"]
            and one["victim"]["server_id"] == self.victim
            and one["result"] not in ("proposed", "rejected")
        ]

    def mended(self) -> dict[str, Any]:
        """The action that mended it."""
        timeout_s = CONF.performance_isolation.reaction_timeout
        found: dict[str, Any] = self.wait_for(
            lambda: next(
                (one for one in self.help_for_victim() if one["result"] == "mended"), None
            ),
            "an action that helps the victim",
            timeout_s,
        )
        self.wait_until_told(
            self.victim,
            "the victim not to be degraded any more",
            lambda vp: vp["hurt_by_neighbour"] is False,
            timeout_s,
        )
        return found


def count_of(cpus: str) -> int:
    """Of a list of CPUs such as 0-3,8."""
    parts = [part.partition("-") for part in cpus.split(",")]
    return sum(int(last or first) - int(first) + 1 for first, _, last in parts)


def is_gone(ask: Any, *given: Any) -> bool:
    try:
        ask(*given)
    except exceptions.NotFound:
        return True
    return False

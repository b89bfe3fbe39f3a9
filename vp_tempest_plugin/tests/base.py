# SPDX-License-Identifier: Apache-2.0
"""What all tests share: who asks, servers to ask about, waiting until the API tells something.

Servers have no network: nothing here logs in to a guest. What a guest does is told by user data.
"""

import base64
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from tempest import config, test
from tempest.common import waiters
from tempest.lib import exceptions
from tempest.lib.common import api_version_utils
from tempest.lib.common.utils import data_utils, test_utils

from vp_tempest_plugin.services.performance_isolation import PerformanceIsolationClient

CONF = config.CONF
ERROR_PREFIX = "performance-isolation."
COMPUTE_MICROVERSION = "2.74"
"""Since which Nova lets administrators ask for a host by name, and servers have no network."""
POLL_S = 1
NOBODY = "00000000-0000-4000-8000-000000000000"
"""An id of nothing."""


class BaseTest(test.BaseTestCase):
    """`microversion`: what the requests of a class ask for, the oldest that has what it tests."""

    credentials: ClassVar[Any] = ("primary", "admin")
    microversion: ClassVar[str] = "1.4"

    @classmethod
    def skip_checks(cls) -> None:
        super().skip_checks()
        if not CONF.service_available.nova_vp:
            raise cls.skipException("[service_available] nova_vp is false")
        ours, nova = CONF.performance_isolation, CONF.compute
        for test_version, configured in ((cls.microversion, ours), (COMPUTE_MICROVERSION, nova)):
            api_version_utils.check_skip_with_microversion(
                test_version,
                "latest",
                configured.min_microversion or test_version,
                configured.max_microversion or "latest",
            )

    @classmethod
    def setup_credentials(cls) -> None:
        cls.set_network_resources()
        super().setup_credentials()

    @classmethod
    def setup_clients(cls) -> None:
        super().setup_clients()
        cls.member = cls.client_of(cls.os_primary)
        cls.operator = cls.client_of(cls.os_admin)

    @classmethod
    def client_of(cls, manager: Any, microversion: str | None = None) -> PerformanceIsolationClient:
        client: PerformanceIsolationClient = (
            manager.performance_isolation.PerformanceIsolationClient()
        )
        client.microversion = microversion or cls.microversion
        return client

    @classmethod
    def resource_setup(cls) -> None:
        super().resource_setup()
        cls.setup_api_microversion_fixture(compute_microversion=COMPUTE_MICROVERSION)

    @classmethod
    def make_flavor(cls, vcpus: int = 1, specs: Mapping[str, str] | None = None) -> str:
        """As large as that of [compute] flavor_ref but for its vCPUs; its id."""
        flavors = cls.os_admin.flavors_client
        like = flavors.show_flavor(CONF.compute.flavor_ref)["flavor"]
        flavor = flavors.create_flavor(
            name=data_utils.rand_name("vp"), ram=like["ram"], disk=like["disk"], vcpus=vcpus
        )["flavor"]
        cls.addClassResourceCleanup(flavors.delete_flavor, flavor["id"])
        if specs:
            flavors.set_flavor_extra_spec(flavor["id"], **specs)
        return str(flavor["id"])

    @classmethod
    def boot(
        cls,
        manager: Any,
        flavor: str | None = None,
        user_data: str = "",
        status: str = "ACTIVE",
        **fields: Any,
    ) -> dict[str, Any]:
        """A server in that project, as Nova tells it once it has that status.

        Without `flavor` that of [compute] flavor_ref. `host` among the fields asks for a host by
        name, which filters still judge.
        """
        servers = manager.servers_client
        made = servers.create_server(
            name=data_utils.rand_name("vp"),
            imageRef=CONF.performance_isolation.image_ref or CONF.compute.image_ref,
            flavorRef=flavor or CONF.compute.flavor_ref,
            networks="none",
            config_drive=True,
            user_data=base64.b64encode(user_data.encode()).decode(),
            **fields,
        )["server"]
        cls.addClassResourceCleanup(cls.delete, manager, made["id"])
        waiters.wait_for_server_status(
            servers, made["id"], status, raise_on_error=status != "ERROR"
        )
        shown: dict[str, Any] = servers.show_server(made["id"])["server"]
        return shown

    @classmethod
    def delete(cls, manager: Any, server_id: str) -> None:
        servers = manager.servers_client
        test_utils.call_and_ignore_notfound_exc(servers.delete_server, server_id)
        waiters.wait_for_server_termination(servers, server_id, ignore_error=True)

    @classmethod
    def wait_for(cls, condition: Callable[[], Any], what: str, timeout_s: int | None = None) -> Any:
        """What the condition gave as soon as that was something."""
        timeout_s = timeout_s or CONF.performance_isolation.report_timeout
        found: list[Any] = []

        def is_so() -> bool:
            found[:] = [condition()]
            return bool(found[0])

        if not test_utils.call_until_true(is_so, timeout_s, POLL_S):
            raise exceptions.TimeoutException(f"{what}: not within {timeout_s} s")
        return found[0]

    @classmethod
    def wait_until_told(
        cls,
        server_id: str,
        what: str = "the server to be reported",
        accept: Callable[[dict[str, Any]], Any] = bool,
        timeout_s: int | None = None,
    ) -> dict[str, Any]:
        """The operator's view of a server, once it is as `accept` wants it."""

        def told() -> dict[str, Any] | None:
            try:
                vp = cls.operator.show_vp(server_id)
            except exceptions.NotFound:
                return None
            return vp if accept(vp) else None

        found: dict[str, Any] = cls.wait_for(told, what, timeout_s)
        return found

    def refused(
        self, code: str, status: type[Exception], ask: Any, /, *given: Any, **named: Any
    ) -> Any:
        """The error with which a request is refused, after a look at its form."""
        raised: Any = self.assertRaises(status, ask, *given, **named)
        [error] = raised.resp_body
        self.assertEqual(ERROR_PREFIX + code, error["code"])
        self.assertTrue(error["detail"] and error["title"])
        self.assertEqual(raised.resp["x-openstack-request-id"], error["request_id"])
        return error

# SPDX-License-Identifier: Apache-2.0
"""Other people's clients ask for microversions by the service's type in the catalog."""

import pytest
from keystoneauth1.adapter import Adapter
from openstack import resource
from openstack.connection import Connection
from openstack.proxy import Proxy
from openstack.service_description import ServiceDescription

from vp_api.versions import NEWEST, OLDEST

pytestmark = pytest.mark.filterwarnings(
    "ignore:Support for InfluxDB",
    "ignore:The .service_type. parameter is unnecesary",
    "ignore:The _compute_attributes method is deprecated",
)
HEADER = "OpenStack-API-Version"
OF_USER = (
    "OS_AUTH_URL",
    "OS_USERNAME",
    "OS_PASSWORD",
    "OS_PROJECT_NAME",
    "OS_USER_DOMAIN_NAME",
    "OS_PROJECT_DOMAIN_NAME",
)
SERVICE_TYPE = "performance-isolation"


class Server(resource.Resource):
    """As programs over openstacksdk declare what an API has."""

    base_path, resources_key, allow_list = "/vps", "vps", True
    _max_microversion = str(NEWEST)
    _query_mapping = resource.QueryParameters("name", "sort")
    server_id = resource.Body("server_id", alternate_id=True)
    name = resource.Body("name")


@pytest.fixture
def connection(lab):
    told = {name.removeprefix("OS_").lower(): text for name, text in lab.environment().items()}
    auth = {
        name: text for name, text in told.items() if name not in ("path", "home", "region_name")
    }
    isolation = ServiceDescription(SERVICE_TYPE, {"1": Proxy})
    with Connection(auth=auth, region_name="RegionOne") as one:
        one.add_service(isolation)
        yield one


@pytest.mark.parametrize("version", [str(OLDEST), "1.1", str(NEWEST)])
def test_keystoneauth_gets_the_microversion_that_it_asks_for(connection, version):
    adapter = Adapter(connection.session, service_type=SERVICE_TYPE, default_microversion=version)
    assert adapter.get("/v1/vps").headers[HEADER] == f"{SERVICE_TYPE} {version}"


def test_keystoneauth_learns_which_microversions_there_are(connection):
    data = Adapter(connection.session, service_type=SERVICE_TYPE).get_endpoint_data()
    assert (data.min_microversion, data.max_microversion) == (
        (OLDEST.major, OLDEST.minor),
        (NEWEST.major, NEWEST.minor),
    )


def test_openstacksdk_gets_the_microversion_that_it_asks_for(connection):
    isolation = connection.performance_isolation
    answer = isolation.get("/actions", microversion="1.1")
    assert answer.status_code == 200
    assert answer.headers[HEADER] == f"{SERVICE_TYPE} 1.1"
    assert isolation.get("/actions").status_code == 404  # As all that 1.0 did not have.


@pytest.mark.parametrize(
    ("asked", "got"),
    [
        ({"microversion": "latest"}, str(NEWEST)),
        ({"headers": {HEADER: "vp 1.2"}}, "1.2"),  # What clients asked by before 1.2.
        ({}, str(OLDEST)),
    ],
    ids=str,
)
def test_an_answer_names_the_type_and_the_microversion(connection, asked, got):
    answer = connection.performance_isolation.get("/vps", **asked)
    assert answer.headers[HEADER] == f"{SERVICE_TYPE} {got}"


@pytest.mark.parametrize(("minimum", "maximum"), [("1", "1.latest"), ("1.0", "1")])
def test_keystoneauth_finds_the_endpoint_of_a_range_of_versions(connection, minimum, maximum):
    adapter = Adapter(
        connection.session,
        service_type=SERVICE_TYPE,
        min_version=minimum,
        max_version=maximum,
        default_microversion="1.1",
    )
    assert adapter.get_api_major_version() == (1, 0)
    assert adapter.get("/actions").headers[HEADER] == f"{SERVICE_TYPE} 1.1"


def test_keystoneauth_finds_no_endpoint_of_a_later_version(connection):
    adapter = Adapter(connection.session, service_type=SERVICE_TYPE, min_version="2")
    assert adapter.get_endpoint_data() is None


def test_one_that_is_not_spoken_is_refused_with_what_is(connection):
    answer = connection.performance_isolation.get("/vps", microversion="1.99")
    (fault,) = answer.json()["errors"]
    assert answer.status_code == 406
    assert (fault["min_version"], fault["max_version"]) == (str(OLDEST), str(NEWEST))


def test_openstacksdk_negotiates_the_newest_and_follows_pages(connection):
    isolation = connection.performance_isolation
    whole = [one.server_id for one in Server.list(isolation)]
    in_pages = Server.list(isolation, limit=1)
    assert [one.microversion for one in in_pages] == [str(NEWEST)] * len(whole)
    assert [one.server_id for one in Server.list(isolation, limit=1)] == whole
    assert len(set(whole)) > 1

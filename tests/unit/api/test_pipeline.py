# SPDX-License-Identifier: Apache-2.0
"""The pipeline as it is deployed: the real auth_token, against a keystone on loopback."""

import pytest
import webob

from tests.keystone import Keystone
from tests.loopback import served
from tests.unit.api import cloud
from tests.unit.api.client import configuration
from tests.unit.api.stored import holding
from vp_api import deploy
from vp_api.testing import MemoryAgents

CONFIGURATION = """
[keystone_authtoken]
auth_type = password
auth_url = {url}
www_authenticate_uri = {url}
username = service
password = secret
project_name = service
user_domain_name = Default
project_domain_name = Default
http_request_max_retries = 0
"""


def configure(folder, keystone_url):
    path = folder / "vp-api.conf"
    path.write_text(CONFIGURATION.format(url=keystone_url))
    return configuration(str(path))


def loadapp(folder, keystone_url):
    return deploy.loadapp(
        configure(folder, keystone_url),
        holding(),
        MemoryAgents(),
        clock=lambda: cloud.NOW,
    )


@pytest.fixture
def application(tmp_path):
    with served(Keystone()) as url:
        yield loadapp(tmp_path, url)


def ask(application, path, **headers):
    request = webob.Request.blank(path)
    request.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    return request.get_response(application)


def test_a_token_that_keystone_knows(application):
    response = ask(application, "/v1/vps", X_Auth_Token=f"member.{cloud.ALPHA}")
    assert [vp["name"] for vp in response.json["vps"]] == ["victim", "sleeper"]
    response = ask(application, "/v1/hosts", X_Auth_Token=f"admin.{cloud.ALPHA}")
    assert response.status_int == 200


def test_a_token_that_keystone_does_not_know(application):
    response = ask(application, "/v1/vps", X_Auth_Token="forged")
    assert response.status_int == 401
    assert response.json["errors"][0]["code"] == "performance-isolation.unauthenticated"
    assert response.headers["WWW-Authenticate"].startswith("Keystone uri=")


FORGED = {
    "X_Identity_Status": "Confirmed",
    "X_User_Id": "root",
    "X_Project_Id": cloud.ALPHA,
    "X_Tenant_Id": cloud.ALPHA,
    "X_Roles": "admin,reader",
    "X_Is_Admin_Project": "True",
}


def test_identity_headers_of_a_client_without_a_token_count_for_nothing(application):
    assert ask(application, "/v1/hosts", **FORGED).status_int == 401


def test_identity_headers_of_a_client_are_replaced_by_what_keystone_says(application):
    token = {"X_Auth_Token": f"member.{cloud.GAMMA}"}
    assert ask(application, "/v1/hosts", **FORGED, **token).status_int == 403
    assert ask(application, "/v1/vps", **FORGED, **token).json == {"vps": []}


@pytest.mark.parametrize("path", ["/v1//hosts", "//v1/hosts", "/v1/hosts/", "/v1/../v1/hosts"])
def test_no_spelling_of_a_path_gets_around_keystone(application, path):
    assert ask(application, path, **FORGED).status_int == 401


@pytest.mark.parametrize("path", ["/", "/v1"])
def test_versions_need_no_token_and_no_keystone(tmp_path, path):
    application = loadapp(tmp_path, "http://127.0.0.1:1")
    assert ask(application, path).status_int == 200


def test_a_keystone_that_does_not_answer(tmp_path):
    application = loadapp(tmp_path, "http://127.0.0.1:1")
    response = ask(application, "/v1/vps", X_Auth_Token="any")
    assert response.status_int == 503
    assert response.json["errors"][0]["code"] == "performance-isolation.identity-unavailable"

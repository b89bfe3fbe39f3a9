# untested
# SPDX-License-Identifier: Apache-2.0
"""Make the virtual host at RabbitMQ, and bound its queues, by the API of the management plug-in."""

import base64
import json
import os
from pathlib import Path
from urllib.parse import quote
from urllib.request import Request, urlopen

URL, VHOST = os.environ["VP_RABBITMQ_URL"], os.environ["VP_VHOST"]
POLICIES = Path(__file__).with_name("rabbitmq-policies.json")
TIMEOUT_S = 30


def ask(method: str, path: str, body: object) -> None:
    account = f"{os.environ['USER']}:{os.environ['PASSWORD']}".encode()
    headers = {
        "Authorization": f"Basic {base64.b64encode(account).decode()}",
        "Content-Type": "application/json",
    }
    request = Request(f"{URL}/api/{path}", json.dumps(body).encode(), headers, method=method)
    with urlopen(request, timeout=TIMEOUT_S) as answer:
        print(method, path, answer.status)


definitions = json.loads(POLICIES.read_text())
for one in definitions["parameters"]:
    one["vhost"] = VHOST
ask("PUT", f"vhosts/{quote(VHOST, safe='')}", {})
ask("POST", "definitions", definitions)

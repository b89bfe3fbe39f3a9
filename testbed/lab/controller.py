# SPDX-License-Identifier: Apache-2.0
"""The controller's services: one table, and the files they read.

A row for a new service of the product goes into `product()`; it runs once its code is installed.
"""

import importlib.util
import shutil
import socket

from testbed.dashboard import serve as horizon
from testbed.lab import nova, processes, settings
from testbed.lab.config import Values, render_to
from testbed.lab.supervise import Service

CONFIGS = ("keystone.conf", "placement.conf", "glance-api.conf", "nova.conf", "nova-vp.conf")
CREDENTIALS = settings.RUN / "credentials" / socket.gethostname()
"""Of this machine, made by `credentials.py`."""
HORIZON = "horizon"
ERLANG = {
    "HOME": str(settings.RUN / "rabbitmq"),
    "ERL_EPMD_PORT": str(settings.EPMD_PORT),
    "ERL_EPMD_ADDRESS": "127.0.0.1",
    "RABBITMQ_NODENAME": "nova-vp@localhost",
    "RABBITMQ_CONF_ENV_FILE": "/dev/null",
}


def controller_values(common: Values) -> Values:
    """nova-scheduler loads our filter and weigher only where the package provides them."""
    provided = _is_importable("vp_scheduler.filters") and _is_importable("vp_scheduler.weighers")
    ours = {
        "vp_available_filters": "available_filters = vp_scheduler.filters.VPIsolationFilter",
        "vp_enabled_filters": ",VPIsolationFilter",
        "vp_weight_classes": ",vp_scheduler.weighers.VPInterferenceWeigher",
    }
    own = {"lock_path": str(settings.RUN / "nova" / "lock")}
    own["credentials"] = str(CREDENTIALS)
    own["rabbit_port"] = str(settings.RABBIT_PORT)
    return common | own | (ours if provided else dict.fromkeys(ours, ""))


def render_configs(values: Values) -> None:
    for name in CONFIGS:
        render_to(settings.ETC / name, name, values)
    render_to(settings.ETC / "nova-api.conf", "nova.conf", values)
    render_to(settings.RUN / "rabbitmq" / "rabbitmq.conf", "rabbitmq.conf", values)
    (settings.RUN / "rabbitmq" / "enabled_plugins").write_text("[].\n")
    for source in (
        nova.chosen().folder / "etc" / "nova" / "api-paste.ini",
        settings.VENV / "etc" / "glance" / "glance-api-paste.ini",
    ):
        (settings.ETC / source.name).write_text(source.read_text())
    for name in ("nova", "nova-vp", "glance/images", "glance/tasks", "glance/staging"):
        (settings.RUN / name).mkdir(parents=True, exist_ok=True)


def infrastructure() -> list[Service]:
    """The database is started by its own module, which must make it first."""
    rabbit = settings.RUN / "rabbitmq"
    environment = ERLANG | {
        "RABBITMQ_MNESIA_BASE": str(rabbit / "mnesia"),
        "RABBITMQ_LOG_BASE": str(rabbit),
        "RABBITMQ_CONFIG_FILE": str(rabbit / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(rabbit / "enabled_plugins"),
        "RABBITMQ_DIST_PORT": str(settings.RABBIT_DIST_PORT),
        # No busy waiting: two cores carry the whole cloud.
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none",
    }
    memcached = ("memcached", "-u", "nobody", "-m", "32", "-l", settings.CONTROLLER_IP)
    return [
        service("epmd", ("epmd",), ERLANG),
        service("rabbitmq", ("/usr/lib/rabbitmq/bin/rabbitmq-server",), environment),
        service("memcached", (*memcached, "-p", str(settings.MEMCACHED_PORT))),
    ]


def identity() -> list[Service]:
    keystone = {
        "OS_KEYSTONE_CONFIG_DIR": str(settings.ETC),
        "OS_KEYSTONE_CONFIG_FILES": "keystone.conf",
    }
    return [wsgi("keystone", "keystone.wsgi.api", settings.KEYSTONE_PORT, keystone)]


def compute() -> list[Service]:
    etc = str(settings.ETC)
    its_nova = nova.chosen()
    its_conf = ("--config-file", f"{etc}/nova.conf")
    conductor, scheduler = map(its_nova.program, ("nova-conductor", "nova-scheduler"))
    # The later file wins: nova's own database and transport stay nova's.
    both = (*_ours("nova-scheduler"), *its_conf)
    glance = {"OS_GLANCE_CONFIG_DIR": etc, "OS_GLANCE_CONFIG_FILES": "glance-api.conf"}
    nova_api = {"OS_NOVA_CONFIG_DIR": etc}
    placement = {"OS_PLACEMENT_CONFIG_DIR": etc}
    return [
        wsgi("placement", "placement.wsgi.api", settings.PLACEMENT_PORT, placement),
        service("nova-conductor", (conductor, *its_conf), config="nova.conf"),
        service("nova-scheduler", (scheduler, *both), config="nova.conf"),
        wsgi("nova-api", "nova.wsgi.osapi_compute", settings.NOVA_PORT, nova_api, its_nova.python),
        wsgi("glance", "glance.wsgi.api", settings.GLANCE_PORT, glance),
        wsgi("network", "testbed.lab.network_stub", settings.NETWORK_STUB_PORT, {}),
    ]


def product() -> list[Service]:
    """Ours, as far as it is installed."""
    rows = []
    if is_installed("vp-scheduler"):
        rows.append(
            service("vp-scheduler", ("vp-scheduler", *_ours("vp-scheduler")), config="nova-vp.conf")
        )
    if _is_importable("vp_api.wsgi"):
        shutil.copy(CREDENTIALS / "vp-api.conf", settings.ETC)
        environment = {"OS_NOVA_VP_CONFIG_DIR": str(settings.ETC)}
        rows.append(wsgi("vp-api", "vp_api.wsgi", settings.VP_API_PORT, environment))
    return rows


def dashboard() -> list[Service]:
    """Where it was asked for."""
    address = settings.CONTROLLER_IP
    argv = horizon.argv(address, settings.HORIZON_PORT)
    return [service(HORIZON, argv, horizon.environment(address, settings.KEYSTONE_URL))]


def _ours(program: str) -> tuple[str, ...]:
    """All our programs' options, and the account of this one."""
    files = (settings.ETC / "nova-vp.conf", CREDENTIALS / f"{program}.conf")
    return tuple(word for file in files for word in ("--config-file", str(file)))


def is_installed(script: str) -> bool:
    return (settings.VENV / "bin" / script).exists()


def service(
    name: str,
    argv: tuple[str, ...],
    extra: dict[str, str] | None = None,
    config: str = "",
) -> Service:
    return Service(
        name=name,
        argv=argv,
        environment=settings.base_environment() | (extra or {}),
        log=str(processes.log_path(processes.CONTROLLER, name)),
        folder=str(settings.RUN),
        revision=(settings.ETC / config).read_text() if config else "",
    )


def wsgi(
    name: str,
    module: str,
    port: int,
    extra: dict[str, str],
    python: str = str(settings.PYTHON),
) -> Service:
    argv = (python, "-m", "testbed.lab.serve", module)
    return service(name, (*argv, settings.CONTROLLER_IP, str(port), "8"), extra)


def rabbitmqctl(*argv: str) -> str:
    env = [f"{key}={value}" for key, value in ERLANG.items()]
    return processes.run("env", *env, "/usr/lib/rabbitmq/bin/rabbitmqctl", *argv)


def _is_importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False

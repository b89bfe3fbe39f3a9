# SPDX-License-Identifier: Apache-2.0
"""A private RabbitMQ, MariaDB and PostgreSQL, one for many tests: each takes seconds to start."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from oslo_config import cfg
from sqlalchemy import Connection, Engine, event

from nova_vp.db.report_store import ReportStore
from tests.connections import collect_sockets, end_connections, end_listeners, look_up_often
from tests.escalations import QUIET, Cluster, World, a_world
from tests.mariadb import MariaDB
from tests.messages import AGGRESSOR, VICTIM
from tests.postgresql import PostgreSQL
from tests.rabbitmq import RabbitMQ
from tests.synced import Synced, make_file
from vp_agent.latency import base, http_get, memcached

# oslo.messaging leaves its sockets to the garbage collector, which may find them during a later
# test, of another module.
SOCKETS = "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(SOCKETS))


@pytest.fixture(scope="session", autouse=True)
def ends_are_quick() -> Iterator[None]:
    """Of listeners in this process; those in processes of their own are as they are."""
    with pytest.MonkeyPatch.context() as patch:
        look_up_often(patch)
        yield


@pytest.fixture(scope="module")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    """A test that stops it starts it again."""
    broker = RabbitMQ(tmp_path_factory.mktemp("rabbitmq"))
    try:
        broker.start()
        yield broker
        end_connections()
    finally:
        broker.close()
        collect_sockets()  # Of connections that ended with it.


@pytest.fixture
def nobody_listens_on() -> Iterator[None]:
    """After the test, whoever it told to stop."""
    yield
    end_listeners()


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDB]:
    server = MariaDB(tmp_path_factory.mktemp("mariadb"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    server = PostgreSQL()
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(params=["sqlite", "mariadb", "postgresql"])
def database_kind(request: pytest.FixtureRequest) -> str:
    """Once each that we support."""
    return str(request.param)


@pytest.fixture
def disposed_engines() -> Iterator[None]:
    """After the test, those that connected: a socket that is left to the garbage collector warns,
    in whatever test runs then, or after the last one."""
    engines: set[Engine] = set()

    def remember(connection: Connection) -> None:
        engines.add(connection.engine)

    event.listen(Engine, "engine_connect", remember)
    yield
    event.remove(Engine, "engine_connect", remember)
    for engine in engines:
        engine.dispose()


@pytest.fixture
def database_url(
    database_kind: str, request: pytest.FixtureRequest, tmp_path: Path, disposed_engines: None
) -> str:
    """Of a new database, without tables."""
    if database_kind == "sqlite":
        return f"sqlite:///{tmp_path}/store.sqlite"
    server: MariaDB | PostgreSQL = request.getfixturevalue(database_kind)
    return server.make_database("store")


@pytest.fixture(scope="session")
def synced_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("synced") / "store.sqlite"
    make_file(path)
    return path


@pytest.fixture(scope="session")
def synced_mariadb(mariadb: MariaDB) -> Iterator[Synced]:
    with closing(Synced(mariadb.make_database("synced"))) as synced:
        yield synced


@pytest.fixture(scope="session")
def synced_postgresql(postgresql: PostgreSQL) -> Iterator[Synced]:
    with closing(Synced(postgresql.make_database("synced"))) as synced:
        yield synced


@pytest.fixture
def synced_sqlite_url(synced_file: Path, tmp_path: Path) -> str:
    return f"sqlite:///{shutil.copy(synced_file, tmp_path / 'store.sqlite')}"


@pytest.fixture
def synced_url(database_kind: str, request: pytest.FixtureRequest, disposed_engines: None) -> str:
    """Of an up-to-date empty database."""
    if database_kind == "sqlite":
        return str(request.getfixturevalue("synced_sqlite_url"))
    synced: Synced = request.getfixturevalue(f"synced_{database_kind}")
    synced.empty()
    return synced.url


@pytest.fixture
def database_conf(synced_url: str, tmp_path: Path) -> cfg.ConfigOpts:
    """Of an up-to-date empty database."""
    file = tmp_path / "nova-vp.conf"
    file.write_text(f"[database]\nconnection = {synced_url}\nsqlite_synchronous = false\n")
    conf = cfg.ConfigOpts()
    conf(["--config-file", str(file)])
    return conf


@pytest.fixture
def store(database_conf: cfg.ConfigOpts) -> ReportStore:
    return ReportStore(database_conf)


@pytest.fixture
def world() -> Iterator[World]:
    with a_world() as world:
        for id in (VICTIM, AGGRESSOR, QUIET):
            world.nova.add_server(id)
        yield world


@pytest.fixture
def cluster(tmp_path: Path, synced_file: Path, world: World) -> Cluster:
    return Cluster(Path(shutil.copy(synced_file, tmp_path / "ledger.sqlite")), world)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """A latency source waits for nobody long."""
    for module in (base, http_get, memcached):
        monkeypatch.setattr(module, "TIMEOUT_S", 0.3)

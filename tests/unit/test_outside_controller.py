# SPDX-License-Identifier: Apache-2.0
"""A controller of another package, installed by pip outside of this repository, works everywhere:
in the agent, in the simulator, in Nova's validator, among the options, in the documentation and in
recordings. It is the example of the page "Write a controller"."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nova_vp.controllers import by_default

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "doc/examples/background"
OURS = os.pathsep.join(map(str, (ROOT, ROOT / "api")))
TIMEOUT_S = 120

ENABLED = (*by_default(), "background")
CONFIG = f"""[policy]
controllers = {",".join(ENABLED)}
[controller_background]
cap_ratio = 0.4
linger_s = 5
"""
VALIDATOR = """
import sys
from nova import exception
from nova_vp.compute import extra_specs
[one] = [one for one in extra_specs.register() if one.name == "vp:background"]
for value in ("yes", "no"):
    one.validate(one.name, value)
try:
    one.validate(one.name, "perhaps")
except exception.ValidationError as exc:
    print(exc)
"""
SIMULATOR = "from vp_sim.cli import main; raise SystemExit(main())"


class Place:
    """A folder outside of the repository, in which the package is installed, or is not."""

    def __init__(self, folder: Path, target: Path | None) -> None:
        self.folder = folder
        path = OURS if target is None else os.pathsep.join((str(target), OURS))
        own = {"PYTHONPATH": path, "XDG_CACHE_HOME": str(folder), "PYTHONWARNINGS": "ignore"}
        self._env = {**os.environ, **own}

    def run(self, *words: str | Path, code: int = 0) -> "subprocess.CompletedProcess[str]":
        done = subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env=self._env,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """With the package, as pip installs it."""
    folder = tmp_path_factory.mktemp("outside")
    shutil.copytree(EXAMPLE, folder / "background", ignore=_UNWANTED)
    target = folder / "target"
    offline = ("--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check")
    pip = ("-m", "pip", "install", "--quiet", *offline)
    Place(folder, None).run(*pip, "--target", target, folder / "background")
    return Place(folder, target)


_UNWANTED = shutil.ignore_patterns("__pycache__", "*.egg-info", "build", ".*cache")


@pytest.fixture(scope="module")
def made(outside: Place) -> dict[str, dict[str, list[float]]]:
    """What its limits were in an agent that recorded itself."""
    config = outside.folder / "nova-vp.conf"
    config.write_text(CONFIG)
    done = outside.run("-m", "tests.outside_controller", config, outside.folder)
    return json.loads(done.stdout)


def test_the_agent_runs_it_and_gives_everything_back(
    made: dict[str, dict[str, list[float]]],
) -> None:
    assert made["while busy"] == {"busy": [1.0, 1.0], "limited": [0.4, 0.25]}
    assert made["afterwards"] == {"busy": [1.0, 1.0], "limited": [1.0, 1.0]}
    assert made["busy again"] == made["while busy"], "beyond its lease"
    assert made["stopped"] == made["afterwards"]
    assert {"limit-background", "release-limit"} <= set(made["reasons"])
    assert len(made["reasons"]) < 10, "what stands is not done again"


def test_a_recording_with_it_is_replayed_where_it_is_installed_and_else_refused(
    outside: Place, made: dict[str, dict[str, list[float]]], tmp_path: Path
) -> None:
    tape = outside.folder / "tape"
    done = outside.run("-c", SIMULATOR, "replay", tape)
    assert "limit-background" in done.stdout
    assert "the same decisions in every tick" in done.stdout
    changed = ("--set", "background.cap_ratio=0.7", "--json")
    again = json.loads(outside.run("-c", SIMULATOR, "replay", tape, *changed).stdout)
    assert again["differing_ticks"]
    refused = Place(tmp_path, None).run("-c", SIMULATOR, "replay", tape, code=1)
    assert "'background' is not an installed controller" in refused.stderr
    assert "or install its package" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_the_simulator_compares_it(outside: Place) -> None:
    policy = f"core:{'+'.join(ENABLED)}"
    words = ("--mix", "voldemort-mapreduce", "--policies", policy, "--runs", "1", "--json")
    told = json.loads(outside.run("-c", SIMULATOR, "compare", *words).stdout)
    assert policy in json.dumps(told)


def test_a_mix_gives_applications_its_flavor_key(outside: Place) -> None:
    mix = outside.folder / "mix.json"

    def apps(value: str) -> str:
        batch = {"app": "stream", "extra_specs": {"vp:background": value}}
        return json.dumps({"applications": [{"app": "mcf"}, batch]})

    mix.write_text(apps("yes"))
    words = ("run", "--mix", mix, "--policy", "core:background")
    assert "limit-background" in outside.run("-c", SIMULATOR, *words).stdout
    mix.write_text(apps("no"))
    assert "limit-background" not in outside.run("-c", SIMULATOR, *words).stdout
    mix.write_text(apps("perhaps"))
    refused = outside.run("-c", SIMULATOR, *words, code=2).stderr
    assert "vp:background='perhaps' is not allowed: use one of yes, no" in refused


@pytest.mark.nova
def test_novas_validator_accepts_its_flavor_key_and_refuses_other_values(outside: Place) -> None:
    told = outside.run("-c", VALIDATOR).stdout
    assert "vp:background='perhaps' is not allowed: use one of yes, no" in told


def test_its_options_are_in_the_sample_configuration(outside: Place) -> None:
    generator = Path(sys.executable).with_name("oslo-config-generator")
    text = outside.run(generator, "--namespace", "nova_vp").stdout
    section = text.split("[controller_background]\n")[1].split("\n[")[0]
    assert "#busy_ratio = 0.5\n" in section
    assert "# Minimum value: 0.1\n" in section
    assert "`background` limits background servers" in " ".join(text.replace("#", "").split())


def test_the_documentation_has_its_page(outside: Place) -> None:
    source = outside.folder / "doc"
    unwanted = shutil.ignore_patterns("build", "controllers", "__pycache__")
    shutil.copytree(ROOT / "doc", source, ignore=unwanted)
    for folder in ("etc", "releasenotes"):
        shutil.copytree(ROOT / folder, outside.folder / folder)
    html = outside.folder / "html"
    outside.run("-m", "sphinx", "-W", "-q", "-b", "html", source / "source", html)
    page = (html / "controllers/background.html").read_text()
    for told in ("background servers", "busy_ratio", "vp:background", "limit-background"):
        assert told in page
    assert "controllers/background.html" in (html / "controllers.html").read_text()


def test_its_own_tests_pass_where_it_is_installed(outside: Place) -> None:
    tests = outside.folder / "background/tests"
    done = outside.run("-m", "pytest", "-q", "-p", "no:cacheprovider", tests)
    assert " passed" in done.stdout


def test_without_the_package_a_configuration_that_names_it_is_refused(
    outside: Place, made: dict[str, dict[str, list[float]]], tmp_path: Path
) -> None:
    config = outside.folder / "nova-vp.conf"
    done = Place(tmp_path, None).run("-m", "tests.outside_controller", config, tmp_path, code=1)
    assert "background" in done.stderr.splitlines()[-1]

# SPDX-License-Identifier: Apache-2.0
"""Tempest with our plugin in an environment of its own in .cache/, so that its pins bind nothing of
ours: a stage in, the outcome of every test out.
"""

import configparser
import csv
import hashlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from testbed.lab import settings
from tests.bench.harness import progress
from tests.tempest.stages import Options, Stage

PINS = Path(__file__).with_name("constraints.txt")
PACKAGING = settings.ROOT / "setup.cfg"
"""Which says what tempest finds of our plugin."""
FOLDER = settings.CACHE / "tempest"
OUTCOMES = {"success": "passed", "skip": "skipped"}


class TempestError(Exception):
    """It did not get as far as running tests. The text says what it said."""


def base_options(references: dict[str, str], workspace: Path) -> dict[str, dict[str, object]]:
    """What holds in the lab for every stage."""
    return {
        "DEFAULT": {"log_file": str(workspace / "tempest.log")},
        "oslo_concurrency": {"lock_path": str(workspace / "lock")},
        "auth": {
            "use_dynamic_credentials": True,
            "create_isolated_networks": False,
            "admin_username": "admin",
            "admin_password": settings.PASSWORD,
            "admin_project_name": "admin",
            "admin_domain_name": "Default",
        },
        "identity": {
            "uri_v3": settings.KEYSTONE_URL,
            "auth_version": "v3",
            "region": settings.REGION,
        },
        "compute": {
            **references,
            "min_compute_nodes": 2,
            "build_timeout": 90,
            "build_interval": 1,
            "max_microversion": settings.COMPUTE_MICROVERSION,
        },
        "compute-feature-enabled": {
            "live_migration": True,
            "block_migration_for_live_migration": False,
            "vnc_console": False,
            "resize": False,
            "cold_migration": False,
            "scheduler_enabled_filters": "ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter",
        },
        "validation": {"run_validation": False},
        "performance_isolation": {
            "sensitive_user_data": "work=chase:384",
            "streaming_user_data": "work=compute@15,stream:8192",
        },
        # The stub that answers for neutron; without it tempest leaves tests of servers out.
        "service_available": {
            "neutron": True,
            "cinder": False,
            "swift": False,
            "glance": True,
            "nova": True,
            "horizon": False,
        },
    }


@dataclass(frozen=True, slots=True)
class Tempest:
    bin: Path

    @classmethod
    def installed(cls) -> "Tempest":
        inputs = PINS.read_bytes() + PACKAGING.read_bytes()
        stamp, wanted = FOLDER / ".complete", hashlib.sha256(inputs).hexdigest()
        if not stamp.exists() or stamp.read_text() != wanted:
            progress("installing tempest into .cache/tempest")
            shutil.rmtree(FOLDER, ignore_errors=True)
            _call("/usr/bin/python3.11", "-m", "venv", str(FOLDER))
            install = (
                "pip",
                "install",
                "-q",
                "--compile-bytecode",
                "--python",
                f"{FOLDER}/bin/python",
            )
            uv = str(settings.VENV / "bin" / "uv")
            _call(uv, *install, "-r", str(PINS))
            # Without what our other packages need: the plugin imports none of them.
            _call(uv, *install, "--no-deps", "-e", str(settings.ROOT))
            stamp.write_text(wanted)
        return cls(FOLDER / "bin")

    def run(self, stage: Stage, references: dict[str, str], label: str) -> dict[str, str]:
        """Outcome by test: passed, failed or skipped."""
        progress(f"tempest, {label} ours: {stage.name}")
        workspace = (
            FOLDER / "workspace" / f"{label}-{stage.name.replace(' ', '-').replace(',', '')}"
        )
        shutil.rmtree(workspace, ignore_errors=True)
        registry = ("--workspace-path", str(workspace.parent / "workspaces.yaml"))
        (workspace.parent).mkdir(parents=True, exist_ok=True)
        (workspace.parent / "workspaces.yaml").unlink(missing_ok=True)
        self._call("tempest", "init", *registry, str(workspace), folder=workspace.parent)
        _write(
            workspace / "etc" / "tempest.conf", base_options(references, workspace), stage.options
        )
        lists = {"--include-list": stage.include, "--exclude-list": stage.exclude}
        for option, expressions in lists.items():
            (workspace / option.strip("-")).write_text("".join(f"{one}\n" for one in expressions))
        arguments = [part for option in lists for part in (option, option.strip("-"))]
        ran = self._call(
            "tempest",
            *("run", "--concurrency", str(stage.workers), *arguments),
            folder=workspace,
            check=False,
        )
        (workspace / "output.txt").write_text(ran.stdout + ran.stderr)
        outcomes = self._outcomes(workspace)
        if not outcomes:
            raise TempestError(f"{stage.name}: no test ran\n{(ran.stdout + ran.stderr)[-3000:]}")
        if ran.returncode and "failed" not in outcomes.values():
            # Of a worker that died nothing is told, and its other tests are missing.
            raise TempestError(f"{stage.name}: not all tests ran; see {workspace}/tempest.log")
        return outcomes

    def _outcomes(self, workspace: Path) -> dict[str, str]:
        stream = subprocess.run(
            [self.bin / "stestr", "last", "--subunit"],
            cwd=workspace,
            capture_output=True,
            env=self._environment(),
        ).stdout
        # Its exit status tells of failures, as the table does.
        table = subprocess.run(
            [self.bin / "subunit2csv", "--no-passthrough"],
            input=stream,
            capture_output=True,
            env=self._environment(),
        ).stdout.decode()
        rows = csv.DictReader(table.splitlines())
        return {row["test"]: OUTCOMES.get(row["status"], "failed") for row in rows}

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "PATH": f"{self.bin}:{os.environ['PATH']}"}

    def _call(
        self, program: str, *argv: str, folder: Path, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(self.bin / program), *argv],
            cwd=folder,
            capture_output=True,
            text=True,
            env=self._environment(),
        )
        if check and done.returncode:
            raise TempestError(f"{program} {' '.join(argv)}\n{done.stdout}{done.stderr}")
        return done


def _write(path: Path, base: dict[str, dict[str, object]], more: Options) -> None:
    parser = configparser.ConfigParser(interpolation=None, default_section="none")
    for group in (*base, *(group for group in more if group not in base)):
        values = {**base.get(group, {}), **more.get(group, {})}
        parser[group] = {name: str(value) for name, value in values.items()}
    with path.open("w") as file:
        parser.write(file)


def _call(*argv: str) -> None:
    subprocess.run(argv, check=True)

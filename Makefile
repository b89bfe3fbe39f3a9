# Everything a newcomer needs is `make demo` and `make test`; both install what they need.
# Nothing that runs here gains from doing without: hundreds of tests start a process of ours.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: demo demo-down overlay-demo test lint unit unit-lane hosts-lane bus-lane services-lane alone software-pmu cover rules removal-test lab-test fault-test chaos pair-test cpu-test state-8-test traits-test orphan-test escalation-test numa-test cgroup2-test machine-test upgrade-test dashboard-test dashboard-lab-test dashboard-demo dashboard-screenshots nova-matrix faults tempest tempest-mutants mutants api-fuzz rpc-fuzz bench venv docs screenshots install-test dist genconfig genpolicy packages

demo: venv
	@.venv/bin/python -W ignore -m testbed.lab.demo

demo-down:
	@testbed/lab/lab down

# An application of three tiers, with and without the calls of an overlay; needs root, ten minutes.
overlay-demo: venv
	@.venv/bin/python -W ignore -m tests.bench.overlay_demo

test: venv software-pmu
	@$(MAKE) $(SIDE_BY_SIDE) lint $(LANES)
	@$(MAKE) --no-print-directory alone rules lab-test LAB_TESTS=--turn

venv: packages
	@tools/make-venv

packages:
	@tools/install-debian-packages

SHELL_FILES = $(addprefix devstack/,plugin.sh settings override-defaults lib/nova-vp) \
              $(addprefix devstack/upgrade/,settings resources.sh shutdown.sh upgrade.sh)
lint: venv
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	shellcheck $(SHELL_FILES) deploy/containers/vp-agent-* deploy/helm/nova-vp/files/keystone.sh
	@# E005: DevStack sources files whose names have no .sh.
	.venv/bin/bashate --max-line-length 100 --ignore E005 $(SHELL_FILES)

# Two cores serve three lanes, since each waits for brokers, databases or guests half of the time. A
# lane prints once it has ended. What measures itself against time has the machine alone.
SIDE_BY_SIDE = --no-print-directory -j3 -Otarget
LANES = hosts-lane bus-lane unit-lane services-lane
SERVICES = tests/contract/services
BUS = $(addprefix $(SERVICES)/test_,bus.py cluster_agents.py escalation_bus.py escalation_killed.py)
ALONE = tests/contract/test_controller_alone.py

unit: venv software-pmu
	@$(MAKE) $(SIDE_BY_SIDE) $(LANES)
	@$(MAKE) --no-print-directory alone

# Before lanes that would build it at the same time.
software-pmu: packages
	@$(MAKE) -s --no-print-directory -j2 -C testbed/vpmu

unit-lane:
	.venv/bin/python -m pytest tests/unit

hosts-lane:
	.venv/bin/python -m pytest tests/contract --ignore $(SERVICES) --ignore $(ALONE)

bus-lane:
	.venv/bin/python -m pytest $(BUS)

services-lane:
	.venv/bin/python -m pytest $(SERVICES) $(addprefix --ignore=,$(BUS))

alone: venv
	.venv/bin/python -m pytest $(ALONE)

# The core is small and pure: every branch of it has a test that goes there.
cover: venv
	.venv/bin/coverage run -m pytest -q tests/unit/core
	.venv/bin/coverage report

# Without each controller in turn, all unit tests and the documentation's build; half an hour.
removal-test: venv
	.venv/bin/python -m tests.removal

# Every rule of the controllers is disabled in turn, in a copy: a test of its own must fail then.
rules: venv
	.venv/bin/python -m tests.rules

# A failed test is repeated once, on a fresh lab. LAB_TESTS: some of its files, or --turn.
lab-test: venv
	.venv/bin/python -m tests.lab.run $(LAB_TESTS)

# Everything that takes part in an escalation dies, at every point, TIMES times; hours.
TIMES ?= 20
fault-test: venv
	testbed/lab/lab up
	.venv/bin/python -m tests.lab.faults --times $(TIMES) --json .lab/fault-test.json

# Operations of every kind while everything dies and hangs: nothing is left behind. SABOTAGE: pin, lost, double.
SEED ?= 1
MINUTES ?= 30
chaos: venv
	.venv/bin/python -W ignore -m tests.lab.chaos --seed $(SEED) --minutes $(MINUTES) \
	    $(addprefix --sabotage ,$(SABOTAGE))

# Every kind of move but the live one that succeeds, and the cluster's story on three hosts; minutes.
orphan-test: venv
	.venv/bin/python -m pytest tests/lab/long_orphans.py

escalation-test: venv
	.venv/bin/python -m pytest tests/lab/long_escalation.py tests/lab/long_faults.py

# Traits through updates, a stop and a kill of nova-compute, whose own pace it waits for; four minutes.
traits-test: venv
	.venv/bin/python -m pytest tests/lab/long_traits.py

# Newcomers forced past the filter, and what they truly cost; some minutes.
pair-test: venv
	.venv/bin/python -m pytest -s tests/lab/long_pairs.py

# CPU waiting on hosts of modelled CPUs: relieved, capped, escalated; seven minutes.
cpu-test: venv
	.venv/bin/python -m pytest tests/lab/long_cpu_waiting.py

# Newcomers that stream, while the memory controllers of a host are busy; some minutes.
state-8-test: venv
	.venv/bin/python -m pytest tests/lab/long_state_8.py

numa-test: venv
	.venv/bin/python -m pytest tests/numa
	testbed/numa/numa-lab run -- python -m pytest tests/numa tests/contract/test_actuator.py

# The agent beside Debian's libvirt, on an emulated machine with systemd and unified cgroups; root.
cgroup2-test: venv
	testbed/cgroup2/cgroup2-lab run -- python -m pytest tests/cgroup2 tests/contract/test_lab_cgroups.py \
	    tests/contract/test_cpu_times.py tests/contract/test_actuator.py -k "not fake and not version"

# Our units with real systemd as pid 1, and the machine that has it; root, two minutes.
machine-test: venv
	.venv/bin/python -m pytest tests/machine

# Processes of a former release beside those of this one; FORMER: its revision. Minutes.
upgrade-test: venv
	NOVA_VP_FORMER=$(FORMER) .venv/bin/python -m pytest tests/upgrade

# Horizon with our panels, keystone and vp-api as they are installed; minutes, and 700 MiB of disk.
dashboard-test: venv
	@tools/make-dashboard-venv
	@tools/install-debian-packages screenshots
	.venv/bin/python -m pytest tests/dashboard

# The same panels with the lab's cloud behind them; brings the lab up and takes it down.
dashboard-lab-test: venv
	.venv/bin/python -m pytest tests/lab/dashboard/long_views.py

# The demo with Horizon: pictures of the panels, and where to log in. The lab stays up.
dashboard-demo: venv
	@tools/make-dashboard-venv
	@tools/install-debian-packages screenshots
	@.venv/bin/python -W ignore -m testbed.lab.dashboard_demo

# The pictures of the page *Dashboard*, of servers in the lab, which it brings up and takes down.
dashboard-screenshots: venv
	.venv/bin/python -m pytest tests/lab/dashboard/long_screenshots.py

# Filters, weighers and validators on every supported release of Nova, and a lab that runs it.
nova-matrix: venv
	@.venv/bin/python -m tests.nova_matrix

# Everything that can die dies at every named point, on all databases. Takes an hour or more.
faults: venv
	NOVA_VP_FAULT_ROUNDS=20 .venv/bin/python -m pytest tests/contract/services/test_escalation_killed.py

# The lab without nova-vp and with it, as tempest sees it, and the tests of our plugin.
tempest: venv
	@.venv/bin/python -m tests.tempest

# Faults planted in the lab's vp-api, one at a time: the tests of our plugin must find each.
tempest-mutants: venv
	@.venv/bin/python -m tests.tempest.mutants

# Small faults planted in the core and beside it: does a test fail? MUTANTS: see its --help.
MUTANTS ?= --sample 100
mutants: venv
	@.venv/bin/uv pip install -q --python .venv/bin/python -c constraints.txt mutmut
	@chrt --idle 0 .venv/bin/python -m tests.mutants $(MUTANTS)

# Made-up requests against the API's own description, as every persona; ten minutes.
api-fuzz: venv
	.venv/bin/python -W ignore -m tests.api_fuzz

# Made-up messages, orders and files for everything that takes any, until PAYLOADS or a finding.
PAYLOADS ?= 1000000
rpc-fuzz: venv
	.venv/bin/python -W ignore -m tests.fuzz --payloads $(PAYLOADS)

bench: venv
	@.venv/bin/python -m tests.bench

docs: venv
	.venv/bin/sphinx-build -W -b html doc/source doc/build

# The pictures in these pages; needs a browser, which nothing else does.
screenshots: docs
	@tools/install-debian-packages screenshots
	.venv/bin/python tools/take-screenshots

# The installation guide, typed into two machines with real systemd; minutes, most of them pip's. FROM: a file of
# dist/ in place of this clone. DEBIAN: one release, 12 or 13, in place of both.
install-test: venv
	.venv/bin/python -m tests.install $(FROM) $(if $(DEBIAN),--debian $(DEBIAN))

# Builds both files for a package index in dist/, and tests each extra in a virtual environment of its own.
dist: venv
	@tools/install-debian-packages dist
	.venv/bin/python -m tests.dist
	.venv/bin/python -m tests.dist --lowest

# Libraries import eventlet where it is installed, and that warns.
genconfig: venv
	PYTHONWARNINGS=ignore .venv/bin/oslo-config-generator --config-file etc/nova-vp/config-generator.conf

genpolicy: venv
	PYTHONWARNINGS=ignore .venv/bin/oslopolicy-sample-generator --config-file etc/nova-vp/policy-generator.conf

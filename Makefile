# Everything a newcomer needs is `make demo` and `make test`; both install what they need.
.PHONY: demo demo-down test lint unit lab-test bench venv docs genconfig genpolicy packages

demo: venv
	@.venv/bin/python -m devstack.lab.demo

demo-down:
	@devstack/lab/lab down

test: venv lint unit lab-test

venv: packages
	@tools/make-venv

packages:
	@tools/install-debian-packages

lint: venv
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

unit: venv
	.venv/bin/python -m pytest tests/unit tests/contract

lab-test: venv
	.venv/bin/python -m pytest tests/lab

bench: venv
	@.venv/bin/python -m tests.bench

docs: venv
	.venv/bin/sphinx-build -W -b html doc/source doc/build

# Libraries import eventlet where it is installed, and that warns.
genconfig: venv
	PYTHONWARNINGS=ignore .venv/bin/oslo-config-generator --config-file etc/nova-vp/config-generator.conf

genpolicy: venv
	PYTHONWARNINGS=ignore .venv/bin/oslopolicy-sample-generator --config-file etc/nova-vp/policy-generator.conf

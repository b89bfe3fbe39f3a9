# Everything a newcomer needs is `make demo` and `make test`; both install what they need.
.PHONY: demo demo-down test lint unit lab-test bench venv docs packages

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

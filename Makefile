# Every target sets up what it needs on a bare machine with python3, make and a network.
PYTHON ?= python3
APP    ?= fraud
MINUTES ?= 90
VENV   := .venv
BIN    := $(VENV)/bin
SETUP  := $(PYTHON) tools/setup.py

packages := $(VENV)/.packages
java     := $(VENV)/.java
jars     := $(VENV)/.jars
registry := $(VENV)/.registry
archive  := $(VENV)/.archive
redis    := $(VENV)/.redis
valkey   := $(VENV)/.valkey
postgres := $(VENV)/.postgres
nats     := $(VENV)/.nats
clickhouse := $(VENV)/.clickhouse
cassandra := $(VENV)/.cassandra
browser  := $(VENV)/.browser
wrk      := $(VENV)/.wrk
running  := $(packages) $(java) $(jars)

.PHONY: help demo test check bench faults soak setup lock clean
.NOTPARALLEL:

help:
	@echo 'make demo    the fraud example from first event to prediction, on this machine; APP=flights: a season of real flights'
	@echo 'make test    the tests'
	@echo 'make check   ruff, mypy, import-linter, names and folders, the examples in docstrings'
	@echo 'make bench   the benchmark'
	@echo 'make faults  the long runs: crashes, promotions under load, stream = HTTP = batch'
	@echo 'make soak    the fraud app for 90 minutes with a schedule of faults; MINUTES=10: shorter'
	@echo 'make setup   only what the others need: .venv, Java, jars, a schema registry, redis-server, PostgreSQL, NATS, ClickHouse, Cassandra, a browser'
	@echo 'make lock    the lock files anew from what they lock'
	@echo 'make clean   remove .venv and what tools left behind'

demo: $(running)
	@$(BIN)/python examples/$(APP)/demo.py

test: $(running) $(registry) $(archive) $(redis) $(valkey) $(postgres) $(nats) $(clickhouse) $(cassandra) $(browser)
	@$(BIN)/python -m pytest -n 3 --no-loadscope-reorder

check: $(packages)
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python tools/check_layout.py
	@$(BIN)/python -m pytest -q --doctest-modules src/headrace

bench: $(running) $(registry) $(archive) $(redis) $(postgres) $(wrk)
	@$(BIN)/python -m bench

faults: $(running) $(registry) $(archive) $(redis) $(valkey) $(postgres) $(nats) $(clickhouse) $(cassandra) $(browser)
	@$(BIN)/python -m pytest -m faults --timeout 3600

soak: $(running) $(redis) $(postgres)
	@$(BIN)/python -m tests.soak --minutes $(MINUTES)

setup: $(running) $(registry) $(archive) $(redis) $(valkey) $(postgres) $(nats) $(clickhouse) $(cassandra) $(browser)

lock: $(packages)
	@$(BIN)/uv pip compile -q pyproject.toml --group dev --extra train --extra mlflow --extra postgres --extra nats --extra pulsar --extra cassandra --extra iceberg --extra protobuf --extra registry --universal --python-version 3.11 \
		--generate-hashes --no-annotate --custom-compile-command 'make lock' -o requirements.lock
	@for peer in feast evidently flink; do \
		$(BIN)/uv pip compile -q bench/peers/$$peer/requirements.in --universal --python-version 3.11 --generate-hashes \
		--no-annotate --custom-compile-command 'make lock' -o bench/peers/$$peer/requirements.lock || exit 1; done

clean:
	@rm -rf $(VENV) bench/.peers dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find src tests examples bench tools -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(packages): requirements.lock pyproject.toml tools/setup.py
	@$(SETUP) python
	@touch $@

$(java): $(packages)
	@$(SETUP) java
	@touch $@

$(jars): $(packages) src/headrace/embedded_servers/jars.lock
	@$(SETUP) jars
	@touch $@

$(registry): $(packages) src/headrace/embedded_servers/jars.lock
	@$(SETUP) registry
	@touch $@

$(archive): $(java) $(jars)
	@$(SETUP) archive
	@touch $@

$(redis): $(packages)
	@$(SETUP) redis
	@touch $@

$(valkey): $(packages)
	@$(SETUP) valkey
	@touch $@

$(postgres): $(packages)
	@$(SETUP) postgres
	@touch $@

$(nats): $(packages)
	@$(SETUP) nats
	@touch $@

$(clickhouse): $(packages)
	@$(SETUP) clickhouse
	@touch $@

$(cassandra): $(packages) src/headrace/embedded_servers/jars.lock
	@$(SETUP) cassandra
	@touch $@

$(browser): $(packages)
	@$(SETUP) browser
	@touch $@

$(wrk): $(packages)
	@$(SETUP) wrk
	@touch $@

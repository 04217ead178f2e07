# Every target sets up what it needs by itself. Python 3.11+ and Java 17+ are the only things that must be there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := .make/ready
JARS := .make/jars
BENCH ?= all
CHAOS ?=
RACE ?=
SOAK ?=
FUZZ ?=
SIEGE ?=
UP ?=
PROFILE ?= quick
REV ?= HEAD~1

# Workers and the commands that tests start compile each module once, not each of them again.
unexport PYTHONDONTWRITEBYTECODE

# Each worker has half of the tests and steals from the other at the end: files with shared fixtures stay together.
WORKERS := -n 2 --dist worksteal
LOCAL := not spark and not parts and not e2e and not kills and not long
FAST := not lake and not slow and $(LOCAL)

.DEFAULT_GOAL := help
.PHONY: help setup jars dist test-wheel demo test test-fast test-slow test-cpu test-spark test-e2e test-kills test-long test-outside chaos race soak fuzz siege up check format bench bench-compare docs lock parts parts-cheap clean

help: ## what can be made
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): requirements/dev.lock pyproject.toml
	@echo "setting up $(VENV) (once; a few minutes)"
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if v >= (3, 11) else f"Python {v[0]}.{v[1]} found, 3.11 or later is needed: make PYTHON=python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@mkdir -p .make && touch $@

$(JARS): $(READY) src/neve/lake/spark/jars.py
	@$(BIN)/python -m neve.lake.spark.jars
	@touch $@

setup: $(READY) $(JARS) ## the virtual environment and the jars

jars: $(JARS)

demo: setup ## an hour of telemetry of a shop: made, ingested, asked about
	@$(BIN)/neve demo

up: setup ## the demo's lake in service, with a shop that sends live, until Ctrl+C; UP="--rate 500" for more
	@$(BIN)/neve up $(UP)

# One Spark session, servers that are waited for, and the commands of a newcomer leave cores idle: they run side by side.
test: setup ## the tests: those without a JVM first, then those on Spark, and beside them real parts and end to end; test-kills and test-long stand apart
	@$(BIN)/python -m pytest -q $(WORKERS) -m "$(LOCAL)"
	@$(BIN)/python -m pytest -q -p no:cacheprovider -m "e2e and not kills and not long" > .make/e2e.log 2>&1 & e2e=$$!; \
	$(BIN)/python -m pytest -q -p no:cacheprovider -m "parts and not spark and not e2e and not kills and not long" > .make/served.log 2>&1 & served=$$!; \
	$(BIN)/python -m pytest -q -m "spark and not e2e and not kills and not long"; failed=$$?; \
	wait $$served || failed=1; cat .make/served.log; wait $$e2e || failed=1; cat .make/e2e.log; exit $$failed

test-fast: $(READY) ## the quick tests, which need neither a JVM nor a lake, with a third of the examples of each property
	@$(BIN)/python -m pytest -q $(WORKERS) -m "$(FAST)" --hypothesis-profile=$(PROFILE) --cpu-report

test-slow: $(READY) ## the tests without a JVM that commit to Iceberg tables, or take more than 0.2 CPU seconds
	@$(BIN)/python -m pytest -q $(WORKERS) -m "(lake or slow) and $(LOCAL)" --hypothesis-profile=$(PROFILE) --cpu-report

test-cpu: $(READY) ## the tests that need no JVM, and their CPU seconds in total and by file
	@$(BIN)/python -m pytest -q $(WORKERS) -m "$(LOCAL)" --hypothesis-profile=$(PROFILE) --cpu-report

test-spark: setup ## the tests that share one Spark session, and those that start real parts
	@$(BIN)/python -m pytest -q -m "(spark or parts) and not e2e and not kills and not long"

test-e2e: setup ## the commands, run as a newcomer would
	@$(BIN)/python -m pytest -q -m e2e

test-kills: setup ## short runs of chaos and race, killed ingestion, rollups and tail sampling: about seven minutes
	@$(BIN)/python -m pytest -q -m kills

test-long: setup ## proofs from many samples, long histories, the autopilot: about fifteen minutes
	@$(BIN)/python -m pytest -q -m long

dist: $(READY) ## the wheel, in dist
	@rm -rf build dist
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .
	@rm -rf build && ls dist/*.whl

test-wheel: dist ## install the wheel in a clean environment of stock Python, then run `neve --version` and `neve demo` there
	@rm -rf .make/wheel && $(PYTHON) -m venv .make/wheel/venv
	@.make/wheel/venv/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	@.make/wheel/venv/bin/python -m pip check
	@cd .make/wheel && venv/bin/neve --version && venv/bin/neve setup && venv/bin/neve demo && venv/bin/neve -c demo/neve.yaml tables

test-outside: $(READY) ## tests on public data in the folder NEVE_OUTSIDE; tests/outside/README.md says how to fetch it
	@$(BIN)/python -m pytest -q -rs -m outside tests/outside tests/promql/test_corpus.py tests/rules/test_unit_tests.py

chaos: setup ## ten minutes of sending and killing; CHAOS=--collector sends with the stock collector
	@$(BIN)/python -m tests.chaos $(CHAOS)

race: setup ## fifty rounds of writing, compacting and killing, about 20 minutes; RACE="--rounds 10 --seed 2" for others
	@$(BIN)/python -m tests.race $(RACE)

soak: setup ## 20 minutes of `neve serve` under load, judged at the end; SOAK="--seconds 120 --rate 500 --kill" for others
	@$(BIN)/python -m tests.soak $(SOAK)

fuzz: $(READY) ## five minutes of hostile bytes and statements in limited processes; FUZZ="--minutes 30 --target query" for others
	@$(BIN)/python -m tests.fuzz $(FUZZ)

siege: setup ## five minutes of one hostile organization beside an honest one, judged at the end; SIEGE="--seconds 30" for less
	@$(BIN)/python -m tests.siege $(SIEGE)

check: $(READY) ## format, lint, types, import direction
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(READY) ## let ruff write the format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: setup ## benchmarks; BENCH=decode runs one
	@$(BIN)/python -m bench $(BENCH)

bench-compare: setup ## one benchmark of this tree and of the commit REV, in turn, with ratios; BENCH=decode REV=v0.1.0
	@$(BIN)/python -m bench.compare $(REV) $(BENCH)

docs: $(READY) ## the pages that are made from code
	@$(BIN)/python -m docs.generate

parts-cheap: $(READY) ## real parts that need only Java (Kafka, an Iceberg REST catalog), into the cache
	@$(BIN)/python -m tests.parts.build cheap

parts: $(READY) ## all real parts, those built with Go too (half an hour), into the cache
	@$(BIN)/python -m tests.parts.build all

lock: $(READY) ## compile the lock files again from pyproject.toml
	@$(BIN)/python -m pip install --quiet uv
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
		--group dev --all-extras -o requirements/dev.lock pyproject.toml
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
		-o requirements/runtime.lock pyproject.toml

clean: ## forget the environment (the cache of jars and parts stays)
	@rm -rf $(VENV) .make

# Every target sets up what it needs by itself. Python 3.11+ and Java 17+ are the only things that must be there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := .make/ready
JARS := .make/jars
PAGE := src/neve/page/index.html
PAGE_MODULES := page/node_modules/.package-lock.json
PAGE_SOURCES := $(shell find page -name node_modules -prune -o -type f -print)
BENCH ?= all
QUICK ?=
CHAOS ?=
RACE ?=
SOAK ?=
FUZZ ?=
SIEGE ?=
IMAGE ?=
UP ?=
PROFILE ?= quick
REV ?= HEAD~1

# Workers and the commands that tests start compile each module once, not each of them again.
unexport PYTHONDONTWRITEBYTECODE

# Each worker has half of the tests and steals from the other at the end: files with shared fixtures stay together.
WORKERS := -n 2 --dist worksteal
LOCAL := not spark and not parts and not e2e and not kills and not long
FAST := not lake and not slow and $(LOCAL)
# Collecting all tests takes 25 CPU seconds: these folders have those that are marked e2e.
# The page is last: its servers and browser end after the last test, and the report counts their time there.
E2E := tests/e2e tests/cli/test_up.py tests/compat tests/test_code_walk.py tests/page
PYTEST := $(BIN)/python -m pytest -q --hypothesis-profile=$(PROFILE)

.DEFAULT_GOAL := help
.PHONY: help setup jars page page-types check-page dist image test-wheel demo test test-fast test-slow test-cpu test-spark test-e2e test-kills test-long test-outside chaos race soak fuzz siege up check format bench bench-compare screenshots docs lock parts parts-cheap clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): requirements/dev.lock pyproject.toml
	@echo "setting up $(VENV) (once; a few minutes)"
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if v >= (3, 11) else f"Python {v[0]}.{v[1]} found, 3.11 or later is needed: make PYTHON=python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements/dev.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@mkdir -p .make && touch $@

$(JARS): $(READY) src/neve/lake/spark/jars.py
	@$(BIN)/python -m neve.lake.spark.jars
	@touch $@

# Node comes from PyPI, for building only; an installed wheel has the files and needs neither Node nor npm.
$(PAGE_MODULES): $(READY) page/package.json page/package-lock.json
	@cd page && PATH="$(CURDIR)/$(BIN):$$PATH" npm ci --silent --prefer-offline
	@touch $@

$(PAGE): $(PAGE_MODULES) $(PAGE_SOURCES)
	@cd page && PATH="$(CURDIR)/$(BIN):$$PATH" npm run --silent build -- --logLevel error

setup: $(READY) $(JARS) $(PAGE) ## create the virtual environment, download the jars, build the web page

jars: $(JARS)

page: $(PAGE) ## build the web page into the package

page-types: $(READY) ## write the types of the API's documents for the web page, from OpenAPI
	@$(BIN)/python -m tools.page_types

check-page: $(PAGE_MODULES) ## check the types of the web page, and warnings of its compiler
	@cd page && PATH="$(CURDIR)/$(BIN):$$PATH" npm run --silent check

demo: setup ## generate an hour of telemetry of a shop, ingest it, query it
	@$(BIN)/neve demo

up: setup ## serve the lake of the demo with live telemetry until Ctrl+C; UP="--rate 500" sends more
	@$(BIN)/neve up $(UP)

# Browsers, servers and the commands of a newcomer are waited for most of the time: they run beside the others.
test: setup ## run all tests but test-kills and test-long: those without a JVM, then Spark and services, and end to end beside both
	@$(PYTEST) -p no:cacheprovider $(E2E) -m "e2e and not kills and not long" --cpu-report > .make/e2e.log 2>&1 & e2e=$$!; \
	$(PYTEST) $(WORKERS) -m "$(LOCAL)" --cpu-report || { kill $$e2e; exit 1; }; \
	$(PYTEST) -p no:cacheprovider -m "parts and not spark and not e2e and not kills and not long" --cpu-report > .make/served.log 2>&1 & served=$$!; \
	$(PYTEST) -m "spark and not e2e and not kills and not long" --cpu-report; failed=$$?; \
	wait $$served || failed=1; cat .make/served.log; wait $$e2e || failed=1; cat .make/e2e.log; exit $$failed

test-fast: $(READY) ## run the quick tests, without a JVM or a lake, with a quarter of the examples of each property
	@$(PYTEST) $(WORKERS) -m "$(FAST)" --cpu-report

test-slow: $(READY) ## run the tests without a JVM that commit to Iceberg tables, or take more than 0.2 CPU seconds
	@$(PYTEST) $(WORKERS) -m "(lake or slow) and $(LOCAL)" --cpu-report

test-cpu: $(READY) ## run all tests without a JVM, and print their CPU seconds in total and by file
	@$(PYTEST) $(WORKERS) -m "$(LOCAL)" --cpu-report

test-spark: setup ## run the tests on Spark, and those that start external services
	@$(BIN)/python -m pytest -q -m "(spark or parts) and not e2e and not kills and not long"

test-e2e: setup ## run the commands as a new user types them
	@$(BIN)/python -m pytest -q -m e2e

test-kills: setup ## run short chaos and race runs, and repeatedly killed ingestion, rollups and tail sampling; 7 minutes
	@$(BIN)/python -m pytest -q -m kills

test-long: setup ## run statistical tests, long histories, the whole autopilot, and all examples of each property; 30 minutes
	@$(BIN)/python -m pytest -q -m long
	@$(BIN)/python -m pytest -q $(WORKERS) -m "(hypothesis or sampled) and $(LOCAL)"

dist: $(READY) $(PAGE) ## build the wheel in dist
	@rm -rf build dist
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .
	@rm -rf build && ls dist/*.whl

image: dist ## build the container image, or its root file system in the cache where no builder is; IMAGE="--tag neve:1"
	@$(BIN)/python -m deploy.image.build $(IMAGE)

test-wheel: dist ## install the wheel in a clean environment of stock Python, then run `neve --version` and `neve demo` there
	@rm -rf .make/wheel && $(PYTHON) -m venv .make/wheel/venv
	@.make/wheel/venv/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl
	@.make/wheel/venv/bin/python -m pip check
	@cd .make/wheel && venv/bin/neve --version && venv/bin/neve setup && venv/bin/neve demo && venv/bin/neve -c demo/neve.yaml tables

test-outside: $(READY) ## run the tests on public data in the folder NEVE_OUTSIDE; see tests/outside/README.md
	@$(BIN)/python -m pytest -q -rs -m outside tests/outside tests/promql/test_corpus.py tests/rules/test_unit_tests.py

chaos: setup ## send telemetry and kill the service for 10 minutes; CHAOS=--collector sends with the stock collector
	@$(BIN)/python -m tests.chaos $(CHAOS)

race: setup ## run 50 rounds of concurrent writes, compaction and kills; 20 minutes; RACE="--rounds 10 --seed 2"
	@$(BIN)/python -m tests.race $(RACE)

soak: setup ## run `neve serve` under load for 20 minutes, then check it; SOAK="--seconds 120 --rate 500 --kill"
	@$(BIN)/python -m tests.soak $(SOAK)

fuzz: $(READY) ## run malformed bytes and statements for 5 minutes; FUZZ="--minutes 30 --target query"
	@$(BIN)/python -m tests.fuzz $(FUZZ)

siege: setup ## let one organization attack while another works for 5 minutes; SIEGE="--seconds 30"
	@$(BIN)/python -m tests.siege $(SIEGE)

check: $(READY) check-page ## check format, lint, types and import direction, also of the web page
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: $(READY) ## format the code
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: setup ## run the benchmarks; BENCH=decode runs one, QUICK=1 a small size within a minute
	@$(BIN)/python -m bench $(BENCH) $(if $(QUICK),--quick)

bench-compare: setup ## run a benchmark of this tree and of the commit REV in turn; BENCH=decode REV=v0.1.0
	@$(BIN)/python -m bench.compare $(REV) $(BENCH) $(if $(QUICK),--quick)

screenshots: setup ## take the pictures of the documentation with Chromium
	@$(BIN)/python -m tests.page.screenshots

docs: $(READY) ## generate the pages, dashboards and chart files that come from code
	@$(BIN)/python -m docs.generate
	@$(BIN)/python -m deploy.generate

parts-cheap: $(READY) ## install the services and tools that need no compiler (Kafka, an Iceberg REST catalog, helm) into the cache
	@$(BIN)/python -m tests.parts.build cheap

parts: $(READY) ## install all services for tests into the cache; builds some with Go, 45 minutes
	@$(BIN)/python -m tests.parts.build all

lock: $(READY) ## compile the lock files from pyproject.toml
	@$(BIN)/python -m pip install --quiet uv
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
		--group dev --all-extras -o requirements/dev.lock pyproject.toml
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
		-o requirements/runtime.lock pyproject.toml
	@$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
		--extra glue --extra kafka --extra redis --extra sqs --extra trino -c requirements/dev.lock \
		-o requirements/image.lock pyproject.toml

clean: ## remove the environment; the cache of jars and services stays
	@rm -rf $(VENV) .make

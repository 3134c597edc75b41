# Everything runs in a virtual environment of its own, made on first use.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help install demo lint check test agents bench load soak fuzz hostile kills faults knowledge quality regex docs site pictures identity samples conformance mutants lock locked lowest release wheels clean
.DEFAULT_GOAL := help

help: ## Show this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

install: $(STAMP) ## Make the virtual environment with everything the project needs

$(STAMP): pyproject.toml scripts/install.sh
	@PYTHON="$(PYTHON)" VENV="$(VENV)" sh scripts/install.sh
	@touch $(STAMP)

demo: $(STAMP) ## Set up, index this repository, answer a few searches
	@sh scripts/demo.sh "$(abspath $(BIN))"

lint: $(STAMP) ## Format and lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

check: lint ## Lint, types, import contracts, file sizes and names
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/gate.py

docs: $(STAMP) ## Write the tool reference, the picture of the floors, the lists of modules and of rows
	$(BIN)/python scripts/reference.py
	$(BIN)/python scripts/architecture.py
	$(BIN)/python scripts/rows.py

site: $(STAMP) ## Build the documentation as a web site that works offline: site/index.html
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group site
	$(BIN)/python scripts/site_pages.py

pictures: $(STAMP) ## Record the terminal session of the README, and take pictures of the pages (needs chromium)
	$(BIN)/python scripts/recording.py
	$(BIN)/python scripts/pictures.py

test: check ## Everything that CI runs
	$(BIN)/python scripts/reference.py --check
	$(BIN)/python scripts/architecture.py --check
	$(BIN)/python scripts/rows.py --check
	$(BIN)/python -m pytest -n 3 --dist worksteal  # on two cores: many tests wait for a process

agents: $(STAMP) ## Drive five real agents against a scripted model (npm; Linux x64)
	sh scripts/agents/agents.sh "$(abspath $(BIN))/python" "$(abspath .clients)" $(AGENTS)

bench: $(STAMP) ## The benchmarks (long); see benchmarks/README.md
	$(BIN)/python benchmarks/run.py --write

fuzz: $(STAMP) ## Schemathesis against the REST API (minutes)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --group fuzz
	$(BIN)/python scripts/fuzz_api.py

hostile: $(STAMP) ## 100,000 hostile inputs over every surface, seeded (long): make hostile ARGS="--count 5000"
	$(BIN)/python scripts/hostile.py $(ARGS)

kills: $(STAMP) ## Kill the indexer at hundreds of random instants, on both stores (long)
	$(BIN)/python tests/faults/kills.py --runs 400
	$(BIN)/python tests/faults/kills.py --runs 120 --store lance

faults: $(STAMP) ## Make every call that writes an index fail, one after the other (long; Linux, cc)
	$(BIN)/python -m tests.faults.failing_writes $(ARGS)

load: $(STAMP) ## A real server under many clients, bad ones and too many: make load SECONDS=5
	$(BIN)/python benchmarks/load.py $(or $(SECONDS),5)

soak: $(STAMP) ## An hour of edits, renames, branch switches and kills: make soak SECONDS=600
	$(BIN)/python benchmarks/soak.py $(or $(SECONDS),3600) $(ARGS)

knowledge: $(STAMP) ## A million pieces of knowledge: make knowledge TEXTS="folders" AT=folder
	$(BIN)/python benchmarks/knowledge_scale.py fill "$(AT)" --texts $(TEXTS) $(ARGS)
	$(BIN)/python benchmarks/knowledge_scale.py ask "$(AT)" --texts $(TEXTS) $(ARGS)

quality: $(STAMP) ## Retrieval quality, cross-validated: make quality CORPORA=folder QUERIES=file
	$(BIN)/python benchmarks/quality_split.py "$(CORPORA)" "$(QUERIES)" $(ARGS)

regex: $(STAMP) ## Compare 5,000 generated regular expressions with rg (minutes)
	SONDE_REGEX_EXAMPLES=5000 $(BIN)/python -m pytest -q tests/searching/test_regex_like_ripgrep.py

identity: $(STAMP) ## The law of identity over 60 random histories of every container (minutes)
	SONDE_IDENTITY_EXAMPLES=60 $(BIN)/python -m pytest -q tests/knowledge/test_identity.py -k stays_what_it_is

samples: $(STAMP) ## Bring in real public exports: make samples REPOS=folder of clones
	$(BIN)/python scripts/samples.py "$(REPOS)" $(ARGS)

conformance: $(STAMP) ## The official MCP conformance suite (needs npm); see docs/conformance.md
	$(BIN)/python scripts/conformance.py --write

mutants: $(STAMP) ## Change the source in 100 places and see which changes the tests notice (long)
	[ -e .mutants/record/times.json ] || $(BIN)/python scripts/mutants.py record
	$(BIN)/python scripts/mutants.py try $(ARGS)

lock: $(STAMP) ## Write requirements.lock: exact versions and hashes for development and CI
	$(BIN)/python scripts/lock.py

locked: ## Install exactly what requirements.lock says into $(VENV), refusing anything else
	[ -x "$(BIN)/python" ] || "$(PYTHON)" -m venv "$(VENV)"
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

lowest: ## Test the lowest versions that pyproject.toml allows, in an environment of their own
	sh scripts/lowest.sh "$(PYTHON)" .venv-lowest

release: $(STAMP) ## Build wheel, bundle, container, SBOM, sums, signature: make release KEY=ssh key HOME_URL=address
	rm -rf dist
	$(BIN)/python scripts/release.py dist $(if $(KEY),--key "$(KEY)") $(if $(HOME_URL),--home "$(HOME_URL)")

wheels: $(STAMP) ## Install the wheel in an empty environment of every supported Python here, and search
	$(BIN)/python scripts/wheels.py

clean: ## Remove what make made
	rm -rf $(VENV) .venv-lowest dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .conformance .mutants

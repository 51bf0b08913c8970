# Two commands matter: `make run` starts the product, `make test` passes every check.
# Both set up everything they need from Python >= 3.11, make and git alone.
SHELL := /bin/bash
VENV := .venv
STAMP := $(VENV)/.ready

.PHONY: setup run console test test-rest test-all check bench chaos explore fuzz clean help

help:            ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/ \t/'

setup: $(STAMP)  ## install everything into .venv
$(STAMP): pyproject.toml uv.lock scripts/setup
	@scripts/setup && touch $(STAMP)

run: setup       ## start the host: http://127.0.0.1:8420, data in ./data; the first time it builds the console
	@scripts/run

console: setup   ## build the console, if its sources have changed
	@.venv/bin/python scripts/console

test: setup      ## lint, types, imports, the quick tier of the tests, the console and its browser smokes (minutes)
	@scripts/test

test-rest: setup ## the tests that the quick tier leaves out: full matrices, fault injection, every page, every browser test
	@scripts/test --rest

test-all: test test-rest ## every check and every test

check: setup     ## the quick half of the tests: lint, types, imports
	@scripts/check

bench: setup     ## the performance figures of every suite (SUITE=host for one)
	@missed=0; for suite in $(or $(SUITE),wire host surface capabilities agent messages console); do scripts/bench $$suite || missed=1; done; exit $$missed

chaos: setup     ## longer fault injection, about 25 minutes on 2 cores (by hand; SEED=1 ROUNDS=5)
	@scripts/chaos --seed $(or $(SEED),1) --rounds $(or $(ROUNDS),5)

explore: setup   ## more generated requests against a host (by hand; SEED=1 EXAMPLES=100)
	@scripts/explore --seed $(or $(SEED),1) --examples $(or $(EXAMPLES),100)

fuzz: setup      ## coverage-guided fuzzing of the frame parser (by hand; FUZZ_SECONDS=60)
	@scripts/fuzz

clean:           ## forget the environment
	rm -rf $(VENV) .uv

# Flow's make targets; "make help" lists them. Everything else is in .ci/.
SHELL := /bin/bash
.DEFAULT_GOAL := all

GO      ?= go
FLOW    := bin/flow
# Packages with a server in their tests run side by side; the race detector wants memory rather than cores.
TESTFLAGS ?=

.PHONY: all help demo build test chaos bench generate generate-check lint fmt clean

all: generate-check lint test ## Everything CI does

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: build ## Power a simulated GB200 NVL72 rack on and show it
	@$(FLOW) demo

build: ## Build bin/flow, with a PostgreSQL inside where one can be had
	@.ci/postgres
	@mkdir -p bin
	$(GO) build -trimpath -o $(FLOW) ./cmd/flow

test: ## Run every test against a real PostgreSQL, with the race detector
	@.ci/postgres
	@command -v "$$($(GO) env CC)" >/dev/null || .ci/apt gcc libc6-dev # the race detector's
	$(GO) run ./store/storetest/shared $(GO) test -race -timeout 8m $(TESTFLAGS) ./...

chaos: ## Run the long proofs whole: 200 kills, long outages, 500 plays with queues
	@.ci/postgres
	RAPID_CHECKS=500 $(GO) test -race -timeout 30m -count 1 -v -run 'OneAfterTheOther|WhateverHappens' ./engine
	FLOW_CHAOS_KILLS=200 FLOW_CHAOS_OUTAGE=20s $(GO) test -race -timeout 60m -count 1 -v -run 'Crash|Outage|Nodes|Graceful|Cancel' ./cmd/flow

bench: build ## Measure a running server and compare with the numbers to hold
	$(GO) run ./cmd/bench -flow $(FLOW)
	$(GO) run ./cmd/bench -flow $(FLOW) -inventory

generate: ## Generate api/gen and store/db
	@.ci/generate

generate-check: generate ## Fail when generated code is not current
	@git diff --exit-code --stat -- api/gen store/db
	@test -z "$$(git ls-files --others --exclude-standard api/gen store/db)"

lint: ## Check format and run the linters
	@bad=$$(gofmt -l $$(git ls-files '*.go' | grep -v /gen/)); test -z "$$bad" || { echo "not formatted:" $$bad >&2; exit 1; }
	$(GO) vet ./...
	@.ci/tools/build staticcheck
	bin/tools/staticcheck ./...

fmt: ## Format the Go code
	gofmt -w $$(git ls-files '*.go' | grep -v /gen/)

clean: ## Remove what was built
	rm -rf bin

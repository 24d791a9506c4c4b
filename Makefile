# `make help` lists the targets. All of them work on a fresh clone.

.DEFAULT_GOAL := help
SHELL := /bin/bash

TOOL    := go tool -modfile=tools/go.mod
GO_FILES = $(shell git ls-files --cached --others --exclude-standard '*.go' | grep -vE '\.(pb|connect)\.go$$')
# What was built in one clone of the repository is used in each other one.
export GOFLAGS := $(strip $(shell go env GOFLAGS) -trimpath)
# The program needs no cgo. With one setting the checks, the build and the tests without the race
# detector share what they compile.
export CGO_ENABLED := 0
COMMA := ,
SPACE := $(subst ,, )
PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
RACE := linux/amd64/race

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F'\t' '{printf "  make %-13s %s\n", $$1, $$2}'

.PHONY: build
build: ## build bin/taskengine, static, for this machine
	go build -buildvcs=auto -trimpath -ldflags '-s -w' -o bin/taskengine ./cmd/taskengine

.PHONY: cross
cross: ## compile everything for every supported platform; PLATFORMS='linux/arm64' selects
	@set -e; for p in $(PLATFORMS); do \
		echo "compiling for $$p"; \
		GOOS=$${p%/*} GOARCH=$${p#*/} go build ./...; \
	done

# To check the types of all packages and their tests takes less than a tenth of the time to compile the packages.
.PHONY: types
types: ## check the types for other platforms, also of the tests; PLATFORMS='darwin/arm64' selects
	go -C tools run ./lint -types $(subst $(SPACE),$(COMMA),$(strip $(PLATFORMS) $(RACE))) $(CURDIR)

.PHONY: test
test: ## run every test, most with the race detector; ARGS='-run X' selects
	@scripts/test $(ARGS)

.PHONY: test-scaffolds
test-scaffolds: ## run the first command of each project that `handler new` writes; fetches what they require
	SCAFFOLDS=1 go test -count=1 -run TestTheFirstCommandOfEachScaffoldWorks ./cmd/taskengine/e2e

.PHONY: chart
chart: ## render the Helm chart into deploy/ and check it, after a change of it; compiles Helm's library for minutes
	cd tools/chart && go test -count=1 . -update && go test -count=1 .

.PHONY: test-postgres
test-postgres: ## test with PostgreSQL 14 to 18; VERSIONS='14 18' and ARGS='-run X' select
	@scripts/test-postgres $(VERSIONS) $(ARGS)

.PHONY: check
check: fmt-check vet lint tidy-check paths arch ## check format, vet, lint, go.mod, architecture and paths

.PHONY: static
static: fmt-check analyse tidy-check paths # what make check does that make test does not, if nothing has been compiled

.PHONY: fmt
fmt: ## format the Go files
	@$(TOOL) gofumpt -w $(GO_FILES)

.PHONY: fmt-check
fmt-check:
	@bad=$$($(TOOL) gofumpt -l $(GO_FILES)); \
	if [ -n "$$bad" ]; then echo "not formatted (run make fmt):"; echo "$$bad"; exit 1; fi

.PHONY: vet
vet:
	go vet ./...

.PHONY: lint
lint:
	$(TOOL) staticcheck ./...

# What vet and lint do, without the results of earlier runs, and without the compiler.
.PHONY: analyse
analyse:
	go -C tools run ./lint $(CURDIR)

.PHONY: tidy-check
tidy-check:
	@go mod tidy -diff || { echo "go.mod is not tidy (run go mod tidy)"; exit 1; }
	@go mod verify >/dev/null

.PHONY: arch
arch:
	go test ./internal/arch

# A checked-in file must not contain the path of this clone: it would not work in another clone.
.PHONY: paths
paths:
	@bad=$$(git grep -lF "$(CURDIR)/" || true); \
	if [ -n "$$bad" ]; then echo "these files contain the path of this clone:"; echo "$$bad"; exit 1; fi

.PHONY: generate
generate: ## regenerate code from the .proto files; needs protoc
	go generate ./...

.PHONY: bench
bench: ## run the benchmarks of the hot path; RUNS=10 for benchstat
	go test -run '^$$' -bench . -benchmem -count $(or $(RUNS),1) ./engine/... ./storage/... ./coord/...

.PHONY: bench-quick
bench-quick: build ## measure and verify five scenarios in three minutes, into bench/out/
	bin/taskengine bench run noop peak limits kill-node sweep-quick --runs 3 --duration 2500ms --set warm_up=500ms \
		--dir $(or $(DIR),/var/tmp) --out bench/out/quick.json --html bench/out/quick.html

.PHONY: bench-peers
bench-peers: ## compare with other task queues; QUICK=1 is shorter
	@bench/peers/run

.PHONY: bench-pressure
bench-pressure: ## take queues through a held horizon, crashes and overload; PHASE=10s is a trial
	go run ./bench/pressure -phase $(or $(PHASE),1m)

.PHONY: benchstat
benchstat: ## compare two outputs of make bench: OLD=a.txt NEW=b.txt
	$(TOOL) benchstat $(OLD) $(NEW)

.PHONY: fuzz
fuzz: ## run every fuzz target for TIME (20s by default)
	@set -e; for f in $$(git ls-files --cached --others --exclude-standard '*_test.go' | xargs grep -l '^func Fuzz'); do \
		for t in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*).*/\1/p' $$f); do \
			go test -run '^$$' -fuzz "^$$t\$$" -fuzztime $(or $(TIME),20s) ./$$(dirname $$f); \
		done; \
	done

.PHONY: cover
cover: ## show the test coverage of each package
	go test -cover ./... | grep -v 'no test files'

.PHONY: demo
demo: build ## run examples/checksum on this repository, and verify the result
	examples/checksum/run

.PHONY: outbox
outbox: ## run examples/outbox on a PostgreSQL server of its own, and verify it
	go test -count=1 -v ./examples/outbox

.PHONY: outbox-kafka
outbox-kafka: ## run examples/outbox-kafka on a database and a broker of its own, and verify it
	@scripts/kafka >/dev/null
	go test -count=1 -v ./examples/outbox-kafka

.PHONY: ingest
ingest: ## run examples/ingest on a broker of its own, and verify it
	@scripts/kafka >/dev/null
	go test -count=1 -v ./examples/ingest

.PHONY: cluster
cluster: ## run examples/cluster: three nodes, one killed, under a limit that is changed; COORD=etcd or zookeeper
	COORD="$${COORD:-postgres}" go test -count=1 -v -run TestTheLimitHolds ./examples/cluster

.PHONY: orders
orders: ## run examples/orders: three nodes fetch from three platforms, all of which fail, and verify it; FOR=5m is longer
	go test -count=1 -v -timeout 0 ./examples/orders -args -for $(or $(FOR),0s)

.PHONY: order-saga
order-saga: ## run examples/order-saga, kill its shop again and again, and verify its orders
	go test -count=1 -v ./examples/order-saga

.PHONY: incidents
incidents: ## run the commands of examples/incidents, and verify what they print
	go test -count=1 -v -run TestTheCommandsOfTheReadme ./examples/incidents

.PHONY: etl
etl: ## run the commands of examples/etl, a workflow of every night, and verify what they print
	go test -count=1 -v ./examples/etl

.PHONY: site
site: ## make a site of the documentation in dist/site/VERSION (VERSION=latest) beside other versions, with a search that needs no server
	@go -C tools run ./site -version '$(or $(VERSION),latest)' $(CURDIR)

SDKS ?= python,node,java
RELEASE_FLAGS = -version '$(VERSION)' -key '$(if $(KEY),$(abspath $(KEY)))' -gpg '$(GPG)' -sdks '$(SDKS)'

.PHONY: release
release: ## make the files of a version in dist/: VERSION=v1.2.3; KEY=file signs them with an SSH key, GPG=key the jars; SDKS= leaves the other languages out
	go -C tools run ./release $(RELEASE_FLAGS) $(CURDIR)

.PHONY: release-check
release-check: ## make release, and make all of it again in other folders without what was compiled before, and compare
	go -C tools run ./release -check $(RELEASE_FLAGS) $(CURDIR)

.PHONY: first-task
first-task: ## measure the time to the first task by each file of a release: DIST=dist/v1.2.3; needs root and Debian
	@scripts/first-task '$(or $(DIST),$(lastword $(sort $(wildcard dist/v*))))' $(KINDS)

# The database is on the internet, and changes: a commit that passes today may fail tomorrow. So this is no part of make check.
.PHONY: vuln
vuln: ## look for known vulnerabilities in the code that is called; GOVULNDB=file:///folder is a copy of the database
	$(TOOL) govulncheck $(if $(GOVULNDB),-db '$(GOVULNDB)') ./...

.PHONY: clean
clean: ## remove build results
	rm -rf bin dist

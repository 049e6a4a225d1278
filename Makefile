# Every target that is for people has a comment behind ##; bare `make` lists them.

GOLANGCI_VERSION := v2.11.4
GOLANGCI         := bin/golangci-lint-$(GOLANGCI_VERSION)

OTELGRPC := go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc

GOVULNCHECK_VERSION := v1.8.0

GORELEASER_VERSION := v2.16.0
GORELEASER         := bin/goreleaser-$(GORELEASER_VERSION)

# Every go.mod of the tree: the product, and the modules that keep other
# people's libraries out of it.
MODULES := $(patsubst %/go.mod,%,$(shell git ls-files --cached --others --exclude-standard '*go.mod'))
MODULES := $(patsubst go.mod,.,$(MODULES))
# The libraries of Kubernetes are slow to build and to lint: make chart-check tests this one.
CHART_TEST := deploy/helm/rendertest
MODULES    := $(filter-out $(CHART_TEST),$(MODULES))
# FerretDB brings SQLite, which takes minutes to analyse. This module has no tests, and only
# the part that does not import FerretDB is linted.
FERRETDB := internal/testenv/ferretdb
# The modules beside the product's that are linted and tested in full.
OTHER_MODULES := $(filter-out . $(FERRETDB),$(MODULES))

FUZZTIME  := 30s
FAULT     :=
MODEL     := 10m
FORMER    := $(shell cat internal/upgrade/former)
SOAK      := 10m
SEED      := 0
HISTORIES := 1000
MUTANTS   := 100
FILES     :=

# Tests that compute much in one goroutine, or repeat what a smaller test does, run without
# the race detector: it would find nothing more and make them about five times slower.
NO_RACE          := _NoRace$$|(Conformance|CorrectEditor|FaultyEditor)/(as_long_as_a_document|.*MaxOverrides|.*overrides_that_has_no_bound)
# The slowest package is first.
NO_RACE_PACKAGES  = $(shell git grep --untracked -lE 'func .*_NoRace|rulestest.(Run|Checks)' -- '*_test.go' | xargs -n1 dirname | sort -ru | sed 's|^|./|')

# The linter runs vet.
# Tests that compile the tree would delay those that measure time: make docs runs them.
TEST := go test -shuffle=on -vet=off -timeout 30m -p 4 -skip '$(NO_RACE)|_Compile$$'

# The packages that take longest start first. Otherwise one of them is the last, and a core
# idles meanwhile.
SLOW := ./internal/cli ./store/redisstore ./rules/mongorules ./server ./internal/chaos

.DEFAULT_GOAL := help
.PHONY: $(shell sed -nE 's/^([a-z0-9-]+):.*## .*/\1/p' $(MAKEFILE_LIST)) format-check

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /|/' | awk -F'|' '{printf "  %-16s %s\n", $$1, $$2}'

check: lint console-check test ## lint and test the product; CI also runs lint-modules, test-modules, docs, chart-check, clients, console-e2e and figures-smoke

format: ## rewrite the Go files with gofmt
	gofmt -w $$(git ls-files --cached --others --exclude-standard '*.go')

format-check:
	@files=$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go')); \
	if [ -n "$$files" ]; then echo "not formatted, run make format:"; echo "$$files"; exit 1; fi

lint: format-check $(GOLANGCI) ## check the format and run golangci-lint on the product's module
	$(GOLANGCI) run ./...

lint-modules: $(GOLANGCI) ## run golangci-lint on the other modules, whose libraries take minutes to analyse
	@rm -f bin/go.work*
	@GOWORK=$(CURDIR)/bin/go.work go work init $(MODULES) # one workspace: the libraries are analysed once
	@# A workspace also sees requirements that no module needs: an old genproto has packages that are modules now.
	@GOWORK=$(CURDIR)/bin/go.work go work edit -replace google.golang.org/genproto=google.golang.org/genproto@v0.0.0-20260401024825-9d38bb4040a9
	@# envoyproxy/ratelimit needs a version that another module's requirements would replace.
	@GOWORK=$(CURDIR)/bin/go.work go work edit -replace $(OTELGRPC)=$(OTELGRPC)@v0.53.0
	GOWORK=$(CURDIR)/bin/go.work $(GOLANGCI) run $(OTHER_MODULES:%=./%/...) ./$(FERRETDB)/relay

build: ## compile everything
	@for m in $(MODULES); do echo "build $$m"; (cd $$m && go build ./...) || exit 1; done

test: ## run the tests of the product with the race detector
	@# First compile what most tests need: a compiler beside them would delay those that measure time.
	go build -race $$(go list -f '{{if and .GoFiles (ne .Name "main")}}{{.ImportPath}}{{end}}' ./...)
	go test -vet=off -race -count=1 -run '^TestPrograms_Build$$' ./internal/testenv
	$(TEST) -race $(SLOW) ./...
	go test -vet=off -run '$(NO_RACE)' $(NO_RACE_PACKAGES)

# They mostly start servers. Without the race detector, they use what the linter compiled.
test-modules: ## run the tests of the other modules
	@for m in $(OTHER_MODULES); do echo "test $$m"; (cd $$m && $(TEST) ./...) || exit 1; done

# The packages that talk to Redis themselves.
REDIS_PACKAGES := ./store/redisstore ./rules/redisrules ./rules/reload ./server/receipt

test-servers: ## run the tests of the packages that use Redis on every server of docs/compatibility.md, minutes
	@internal/testenv/install-servers bin/servers
	@for s in '' $(CURDIR)/bin/servers/*/; do \
	  echo "test on $$(PATH=$$s:$$PATH redis-server --version)"; PATH=$$s:$$PATH go test -vet=off -count=1 -p 2 $(REDIS_PACKAGES) || exit 1; \
	done

quick: ## run the tests that need no server and compute little, without the race detector and vet
	go test -vet=off -short -p 6 -skip '$(NO_RACE)|_Compile$$' ./server ./... # they mostly wait

console: console/node_modules/.package-lock.json ## build the web console into console/dist
	cd console && npm run --silent build

console-check: console/node_modules/.package-lock.json ## lint and test the console, and check that its committed assets are what it builds to
	cd console && npm run --silent lint && npm run --silent test && npm run --silent types -- --check && npx vite build --logLevel warn --outDir node_modules/.dist
	@diff -rq console/node_modules/.dist console/dist || { echo "console/dist is not what the source builds to, run make console"; exit 1; }

console-e2e: console/node_modules/.package-lock.json ## look at every screen of the console in a browser
	cd console && npm run --silent e2e

console-all: console-check console-e2e ## both, as CI does

console-pictures: console/node_modules/.package-lock.json ## take the pictures of docs/console.md and docs/customers.md from a fleet under load, three minutes
	cd console && E2E=pictures.ts npm run --silent e2e

docs-site: docs/node_modules/.package-lock.json ## build the documentation site into docs/.vitepress/dist and check its links; DOCS_BASE=/path/ if it is not at the root
	cd docs && npm run --silent build

docs: docs-site ## the same, and type the documented commands that compile
	go test -vet=off -run '_Compile$$' ./internal/cli

docs-weight: docs/node_modules/.package-lock.json ## measure the first paint and the size of the home page against its bars, after make docs
	cd docs && npm run --silent weight

docs-serve: docs/node_modules/.package-lock.json ## serve the documentation site with live reloading
	cd docs && npm run --silent dev

%/node_modules/.package-lock.json: %/package-lock.json
	cd $* && npm ci --ignore-scripts --no-audit --no-fund

chart: ## copy the alerts and the dashboard into the Helm chart
	cp deploy/prometheus/alerts.yaml deploy/helm/fluxgate/files/
	cp deploy/grafana/dashboards/*.json deploy/helm/fluxgate/files/dashboards/

chart-check: ## lint and render the Helm chart in combinations of its values, and start what it renders
	cd $(CHART_TEST) && go test -count=1 ./...

client-check: clients/typescript/node_modules/.package-lock.json ## build, lint and test the TypeScript client against a real server
	cd clients/typescript && npm run --silent types -- --check && npm run --silent build && npm run --silent lint && npm run --silent test

# Debian's interpreter has Debian's packages, others need pyproject.toml's and those of .ci/install.
PYTHON := /usr/bin/python3

client-python: ## build, type-check and test the Python client against a real server
	go build -o clients/python/build/ ./cmd/fluxgate ./clients/conformance/harness
	cd clients/python && $(PYTHON) -m hatchling build && $(PYTHON) -m mypy && $(PYTHON) -m pytest

client-java: ## build the Java client into clients/java/build, and test it against real servers
	clients/java/build.sh test

clients: client-check client-python client-java ## build, lint and test every client

size: ## count the lines of code of the product by package
	@go run -C tools ./codesize

pictures: ## draw the pictures of docs/limits.md
	@go run -C bench ./limitpictures ../docs/images

recording: ## record docs/images/recording.svg from runs of the program, a minute
	@go run -C tools ./recording ../docs/images/recording.svg

fuzz: ## run every fuzz target for FUZZTIME (30s)
	@for pkg in $$(git grep -l --untracked 'func Fuzz' -- '*_test.go' | xargs -n1 dirname | sort -u); do \
	  for f in $$(grep -hoE 'func Fuzz[A-Za-z0-9_]+' $$pkg/*_test.go | sed 's/func //' | sort -u); do \
	    echo "fuzz $$pkg $$f"; (cd $$pkg && go test . -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x) || exit 1; \
	  done; \
	done

model-redis: ## run some of them in real time on a Redis and on a cluster
	@go test ./store/redisstore -run '^TestHistories' -count=1 -v -redisstore.realtime | grep -v '^ *[0-9]*:'

mutate: ## change details of the arithmetic, the leases and the engine, and print what no test notices, hours; FILES selects some, MUTANTS of each (100)
	@go run ./internal/mutate -mutants $(MUTANTS) $(FILES)

linearizability: ## check HISTORIES (1000) histories of 8 gateways on a Redis and on a cluster, minutes
	@cd bench && go test ./linearizability -run '^TestRedis' -count=1 -timeout 60m -v -histories $(HISTORIES)

upgrade: ## replace servers of FORMER (a commit, see internal/upgrade/former) by those of this tree and back, under load
	@rm -rf bin/former && mkdir -p bin/former && git archive $(FORMER) | tar -x -C bin/former
	@cd bin/former && GOWORK=off go build -o ../fluxgate-former ./cmd/fluxgate && rm -rf ../former
	@go test ./internal/upgrade -count=1 -v -former "$(CURDIR)/bin/fluxgate-former" -decisions 200000

model: ## run random histories of a simulated fleet against the specification for MODEL (10m); SEED=n begins there
	@GOGC=400 go test ./internal/model -run '^TestRandomHistories$$' -count=1 -timeout 0 -v -model '$(MODEL)' -seed '$(SEED)'

# Every history is one of a seed: so many of them, whatever the machine.
model-histories: ## the same for 100,000 histories, as every night
	@GOGC=400 go test ./internal/model -run '^TestRandomHistories$$' -count=1 -timeout 0 -v -histories 100000 -seed '$(SEED)'

envoy-sequences: ## compare 20,000 random sequences of calls with envoyproxy/ratelimit on Redis, minutes
	@cd internal/envoyratelimit && go test . -run '^TestCounting$$' -count=1 -timeout 0 -v -sequences 20000

chaos: ## inject every fault under load and print what callers saw, minutes; FAULT=expression selects some
	@go test ./internal/chaos -run '^TestFaults_Full$$' -count=1 -timeout 20m -v -chaos -fault '$(FAULT)'

soak: ## look for leaks under random faults for SOAK (10m), and abuse a server in full size, half an hour; SEED repeats a run
	@go test ./internal/chaos -run '^Test(Soak|Abuse)' -count=1 -timeout 90m -v -soak '$(SOAK)' -seed '$(SEED)'

# FACTS=1 records what the figures measure in docs/facts.json.
export FACTS_FILE := $(if $(FACTS),$(CURDIR)/docs/facts.json)

# One after the other: they load the machine.
figures-smoke: ## run all figures for a moment, to see that they still run; no bar is judged
	@cd bench && go test ./figures/... -run '^TestFigures$$' -count=1 -timeout 20m -p 1 -smoke

figures-core: ## measure the core against its bars (a minute or two)
	@cd bench && go run ./figures/core

figures-redis: ## measure the Redis store against its bars, minutes
	@cd bench && go test ./figures/redis -run '^TestFigures$$' -count=1 -timeout 20m -v -figures

figures-limits: ## measure quotas and sliding windows against the token bucket, minutes
	@cd bench && go test ./figures/limits -run '^TestFigures$$' -count=1 -timeout 20m -v -figures

figures-rules: ## measure how rules change against its bars, minutes
	@cd bench && go test ./figures/rules -run '^TestFigures$$' -count=1 -timeout 20m -v -figures

figures-http: ## measure the middleware against others, a minute
	@cd bench && go test ./figures/http -run '^TestFigures$$' -count=1 -timeout 20m -v -figures

figures-server: ## measure the server against envoyproxy/ratelimit, minutes
	@cd bench && go test ./figures/server -run '^TestFigures$$' -count=1 -timeout 20m -v -figures

figures-envoy: ## measure Envoy's protocol against envoyproxy/ratelimit, minutes
	@cd bench && go test ./figures/envoy -run '^TestFigures$$' -count=1 -timeout 20m -v -figures

figures-bare: ## measure a decision against a server that decides nothing and an empty script, minutes
	@cd bench && go test ./figures/bare -run '^TestFigures$$' -count=1 -timeout 20m -v -figures

figures-admin: ## measure the admin API against its bars, a minute or two
	@cd bench && go test ./figures/admin -run '^TestFigures$$' -count=1 -timeout 20m -v -figures

figures-chaos: ## measure what faults do to callers against its bars, minutes
	@cd bench && go test ./figures/chaos -run '^TestFigures$$' -count=1 -timeout 20m -v -figures

figures-trust: ## measure what changes of credentials do to callers, and how long checks take with empty caches, an hour; the machine must be idle
	@cd bench && go test ./figures/trust -run '^TestFigures$$' -count=1 -timeout 120m -v -figures

figures-scale: ## measure what lets one Redis serve a fleet against its bars, minutes
	@cd bench && go test ./figures/scale -run '^TestFigures$$' -count=1 -timeout 20m -v -figures

figures-insight: console/node_modules/.package-lock.json ## measure simulations, the console and what the live numbers cost against their bars, minutes
	@cd bench && go test ./figures/insight -run '^TestFigures$$' -count=1 -timeout 20m -v -figures

figures-ship: clients/typescript/node_modules/.package-lock.json ## measure what a newcomer meets, with empty caches, half an hour; the machine must be idle
	@cd clients/typescript && npm run --silent build
	@cd bench && go test ./figures/ship -run '^TestFigures$$' -count=1 -timeout 90m -v -figures

figures-clients: ## measure the clients for Java and Python after make client-java and client-python, and the metrics for Prometheus, minutes
	@cd bench && go test ./figures/clients -run '^TestFigures$$' -count=1 -timeout 20m -v -figures

figures-customers: ## measure overrides for single customers against their bars, minutes
	@cd bench && go test ./figures/customers -run '^TestFigures$$' -count=1 -timeout 20m -v -figures

figures-warnings: ## measure warnings of limits against their bars, minutes
	@cd bench && go test ./figures/warnings -run '^TestFigures$$' -count=1 -timeout 20m -v -figures

figures-change: ## measure what makes changes of rules safe against its bars, seconds
	@cd bench && go test ./figures/change -run '^TestFigures$$' -count=1 -timeout 20m -v -figures

benchmarks: ## compare with other limiters and write docs/benchmarks, six minutes; the machine must be idle
	@cd bench && go test ./benchmarks -run '^TestBenchmarks$$' -count=1 -timeout 30m -v -benchmarks

simulate-fleet: ## simulate up to 1,000 gateways on virtual time and write docs/scaling, a quarter of an hour
	@cd bench && GOGC=400 go test ./fleet -run '^TestSimulateFleet$$' -count=1 -timeout 60m -v -simulate

vulnerabilities: ## look for known vulnerabilities in the code that the product calls
	go run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION) ./...

release-snapshot: $(GORELEASER) ## try a release without images, signatures and publishing, into bin/dist, and check its files; the first time ten minutes
	$(GORELEASER) check
	$(GORELEASER) release --snapshot --clean --timeout 3h --skip=docker,sign,publish
	cd tools && go test ./sbom -run '^TestRelease$$' -count=1 -v -dist $(CURDIR)/bin/dist

$(GORELEASER):
	@mkdir -p bin
	GOBIN=$(CURDIR)/bin go install github.com/goreleaser/goreleaser/v2@$(GORELEASER_VERSION)
	@mv bin/goreleaser $@

$(GOLANGCI):
	@mkdir -p bin
	GOBIN=$(CURDIR)/bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	@mv bin/golangci-lint $@

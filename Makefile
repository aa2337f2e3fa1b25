# Grattoir. The two commands of a newcomer are `make demo` and `make test`.
SHELL := /bin/bash
.DEFAULT_GOAL := build

GO      ?= go
comma   := ,
VERSION := $(shell git describe --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -X main.buildVersion=$(VERSION)
# One file that needs nothing of the terminal's system: static, no dynamic extensions.
STATIC_TAGS    := sqlite_omit_load_extension,osusergo,netgo
STATIC_LDFLAGS := $(LDFLAGS) -s -w -linkmode external -extldflags -static

.PHONY: build deps deps-build demo test check race lint cross smoke emulated bench soak fuzz clean image test-image deps-image

build: ## the programs, into bin/
	$(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ ./cmd/central ./cmd/terminald ./cmd/terminalctl ./cmd/demo ./cmd/bench

deps-build: ## what building and the demo need
	@.ci/deps build

deps: ## what building and testing need
	@.ci/deps build test

demo: deps-build build ## the main job with simulated devices; ONCE=1 ends by itself
	bin/demo $(if $(filter 1,$(ONCE)),--once)

test: deps check race cross smoke emulated demo-once ## everything CI runs
	@echo "make test: all of it passed"

.PHONY: demo-once
demo-once: build
	bin/demo --once --out demo-out/test > /dev/null

check: ## formatting, vet, static analysis, a tidy go.mod
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "gofmt -w is needed for:"; echo "$$out"; exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags crashpoints ./cmd/terminald
	$(GO) tool staticcheck ./...
	$(GO) mod tidy -diff
	$(GO) mod verify

race: ## all tests with the race detector
	CI=$${CI:-} $(GO) test -race -timeout 15m ./...
	@# Side by side: 50 000 power cuts, whose log has the figures, and 1 000 tickets with a fault before every twentieth.
	CI=$${CI:-} GRATTOIR_DAY=whole $(GO) test -timeout 15m -v -run 'PowerCuts|DayOfFaults' ./sync/ledger ./cmd/terminald
	CI=$${CI:-} GRATTOIR_FLEET=whole $(GO) test -cpu 1 -parallel 2 -timeout 15m -v -run Fleet ./cmd/terminald # simulated evenings of 20 shops, 6 a processor and at most 40, and bugs planted in some
	CI=$${CI:-} $(GO) test -timeout 5m ./validate/game/rules # what the detector makes too slow: see uniform_test.go

lint: check

cross: ## terminald and terminalctl for the terminals' processors
	GOOS=linux GOARCH=arm64 CGO_ENABLED=1 CC=aarch64-linux-gnu-gcc $(GO) build -trimpath -tags $(STATIC_TAGS) -ldflags '$(STATIC_LDFLAGS)' -o bin/arm64/ ./cmd/terminald ./cmd/terminalctl
	GOOS=linux GOARCH=arm GOARM=7 CGO_ENABLED=1 CC=arm-linux-gnueabihf-gcc $(GO) build -trimpath -tags $(STATIC_TAGS) -ldflags '$(STATIC_LDFLAGS)' -o bin/armv7/ ./cmd/terminald ./cmd/terminalctl

smoke: build cross ## the cross-built terminalctl gives the same verdicts under emulation
	@.ci/smoke

emulated: ## the devices' tests, cross-built, under emulation; what it cannot do is listed in the script
	@GO=$(GO) .ci/emulated

bench: build ## the figures of the design, each beside what it is compared with; also in bench-out/
	bin/bench --out bench-out
	set -o pipefail; $(GO) test -run '^$$' -bench Paint -benchtime 500x ./device/screen | tee bench-out/paint.txt # from the check to the frame after the verdict's, in a browser
	set -o pipefail; $(GO) test -run '^$$' -bench Ingest -benchtime 800x -timeout 30m ./sync/central -present 10000000 | tee bench-out/ingest.txt # both stores, beside bare inserts and pgbench
	set -o pipefail; $(GO) test -run '^$$' -bench Reports -benchtime 3x -timeout 30m ./sync/report -claims 1000000 | tee bench-out/reports.txt # each report of a country, on either store

soak: ## the long runs
	GRATTOIR_SOAK=1 $(GO) test -race -timeout 2h ./...
	GRATTOIR_SOAK=1 $(GO) test -timeout 4h -v -run 'PowerCuts' ./sync/ledger
	GRATTOIR_SOAK=1 $(GO) test -timeout 6h -v -run FleetPays ./cmd/terminald # 1 000 evenings
	$(GO) test -run '^$$' -bench Reports -benchtime 3x -timeout 2h ./sync/report -claims 10000000

deps-image: ## what building and starting card images needs
	@.ci/deps build test image

image: deps-image ## the terminals' card images and updates, into image-out/; as root, BOARDS=pi,virt, FLAGS="--key FILE ..."
	$(GO) run ./cmd/image --board $(or $(BOARDS),pi$(comma)virt) $(FLAGS)

test-image: deps-image build ## builds the image and starts it under emulation: it pays, is updated, and comes back from a bad update
	GRATTOIR_IMAGE=1 $(GO) test -count=1 -timeout 40m -v -run Image ./cmd/image

fuzz: ## every fuzz target for half a minute
	@.ci/fuzz 30s

clean:
	rm -rf bin bench-out demo-out test-out image-out

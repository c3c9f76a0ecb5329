# `make` lists the targets.
GO      ?= go
TOOL    := $(GO) tool -modfile=tools/go.mod
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS := -s -w -X main.release=$(VERSION)
# how long `make fuzz` gives to each fuzz test
FUZZTIME ?= 30s

.DEFAULT_GOAL := help
.PHONY: help build test thorough race fuzz lint fmt golden accuracy mutants bench docs hooks

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build bin/ckptplan, without cgo
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/ckptplan ./cmd/ckptplan

test: ## run the quick tests
	$(GO) test ./...

thorough: ## run all tests, the long ones too
	$(GO) test -tags thorough -timeout 40m ./...

race: ## run the quick tests with the race detector (needs gcc), in random order
	CGO_ENABLED=1 $(GO) test -race -shuffle=on -timeout 40m ./...

fuzz: ## fuzz everything that reads bytes from outside, FUZZTIME (30s) each
	@for pkg in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
		for f in $$(grep -ho '^func Fuzz[A-Za-z0-9]*' $$pkg/*_test.go | cut -c6-); do \
			echo "$$pkg $$f"; $(GO) test $$pkg -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s || exit 1; \
		done; \
	done

lint: ## vet, staticcheck and format; golangci-lint too where it is installed
	$(GO) vet ./...
	$(TOOL) staticcheck ./...
	@out=$$($(TOOL) gofumpt -l .); if [ -n "$$out" ]; then echo "make fmt would change:"; echo "$$out"; exit 1; fi
	@if command -v golangci-lint >/dev/null; then golangci-lint run; fi

fmt: ## format the code with gofumpt
	$(TOOL) gofumpt -w .

golden: ## rewrite the expected outputs under testdata; read the difference before committing it
	@for pkg in $$(grep -rlE --include='*_test.go' 'flag\.Bool\("update"' . | xargs -n1 dirname | sort -u); do $(GO) test $$pkg -update || exit 1; done

accuracy: ## compare all measured training steps: every number exact to the byte
	$(GO) test ./internal/memory -run '^TestAccuracy$$' -count=1 -v

mutants: ## delete each part of each row of the op table in turn: some measured step must no longer be exact
	$(GO) test ./internal/memory -run '^TestMutants$$' -count=1 -v

bench: ## time simulator and solvers, ten runs each, summed up by benchstat
	$(GO) test ./internal/memory ./internal/strategy -run '^$$' -bench . -benchtime 0.5s -count 10 | $(TOOL) benchstat -

docs: build ## write man pages and shell completions to dist/
	mkdir -p dist/man dist/completions
	bin/ckptplan docs dist/man
	for sh in bash zsh fish; do bin/ckptplan completion $$sh >dist/completions/ckptplan.$$sh; done

hooks: ## install the pre-commit hook: format, vet, go.mod
	install -m 755 tools/hooks/pre-commit "$$(git rev-parse --git-path hooks)/pre-commit"

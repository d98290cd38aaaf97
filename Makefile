# Targets for CMake and the tests. Each target ends by itself with a correct exit status.
SHELL := /bin/bash
.DEFAULT_GOAL := build
JOBS ?= $(shell nproc)
PRESET ?= dev
KUBECTL ?= kubectl
# Not empty if only the product is built, without tests, benchmarks and their packages.
PRODUCT = $(if $(filter-out product,$(TARGETS)),,$(TARGETS))

.PHONY: help deps tools build install image dist run test check sanitize bench lint format install-crds docs reference fuzz cluster cluster-down soak fresh clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

deps: ## install missing Debian packages for building and testing
	@tests/setup/packages.sh build test

tools: ## build helm 3, helm 4 and promtool from their Go modules, for the tests of the chart and of the alerts (Go >= 1.26; 10 minutes)
	@for tool in helm-3 helm-4 promtool; do tests/cluster/build.sh $$tool >/dev/null || exit 1; done

build: ## configure and build (PRESET=dev|release|asan|tsan, TARGETS=product: without tests); run make deps first
	@cmake --preset $(PRESET) -DEGPU_BUILD_TESTS=$(if $(PRODUCT),OFF,ON) -DEGPU_BUILD_BENCH=$(if $(PRODUCT),OFF,ON) >build-$(PRESET).log 2>&1 || { cat build-$(PRESET).log; rm -f build-$(PRESET).log; echo "If a package is missing: make deps" >&2; exit 1; }
	@rm -f build-$(PRESET).log
	@cmake --build --preset $(PRESET) -j $(JOBS) $(if $(TARGETS),--target $(TARGETS))

install: ## install the programs, the plugins and the plugins' header under PREFIX=/opt/elastic-gpu (DESTDIR=)
	@tests/setup/packages.sh build
	@$(MAKE) --no-print-directory build PRESET=release TARGETS=product
	@DESTDIR=$(DESTDIR) cmake --install build/release --prefix $(or $(PREFIX),/opt/elastic-gpu)

image: ## build the image of controller and agent, with podman, docker or buildah (IMAGE=elastic-gpu-controller:0.1.0)
	@for tool in podman docker buildah; do command -v $$tool >/dev/null && exec $$tool build -f Containerfile -t $(or $(IMAGE),elastic-gpu-controller:0.1.0) .; done; \
	 echo "error: podman, docker and buildah are missing" >&2; exit 1

dist: ## write archives, Debian package, chart, SBOM and checksums in build/dist/out (KEY=FILE signs them)
	@rm -rf build/dist
	@$(MAKE) --no-print-directory install DESTDIR=$(CURDIR)/build/dist/root PREFIX=/elastic-gpu
	@manifests/dist/dist.py build/dist/root/elastic-gpu build/dist/out $(if $(KEY),--key $(KEY)) $(if $(URL),--url $(URL))

run: ## run standalone on simulated nodes: bind the sample claims, run their pods, print the allocation map
	@tests/setup/packages.sh build demo
	@$(MAKE) --no-print-directory build PRESET=release TARGETS=product
	@tests/e2e/demo.sh build/release/bin

test: deps ## run all tests: unit, API server, kubectl, crash and (with Go) real API server tests
	@$(MAKE) --no-print-directory build PRESET=dev
	@tests/setup/run_tests.sh build/dev

check: ## run the tests that need no cluster, except the longest (ctest -L long)
	@$(MAKE) --no-print-directory build PRESET=dev
	@tests/setup/run_tests.sh build/dev -LE 'cluster|long'

sanitize: deps ## run all tests under ASan + UBSan, then under TSan
	@for p in asan tsan; do $(MAKE) --no-print-directory build PRESET=$$p && tests/setup/run_tests.sh build/$$p || exit 1; done

bench: deps ## run the benchmarks and print their tables
	@$(MAKE) --no-print-directory build PRESET=release TARGETS=benchmarks
	@bench/run.sh build/release/bin

lint: ## run clang-tidy, clang-format and the tests of the tree; findings are errors
	@tests/setup/packages.sh build test lint
	@tests/setup/lint.sh

format: ## format the sources
	@tests/setup/packages.sh lint
	@git ls-files '*.h' '*.hpp' '*.c' '*.cpp' | xargs clang-format-14 -i

fuzz: ## run each fuzz target for SECONDS_EACH seconds (default 60)
	@tests/setup/packages.sh build test fuzz
	@tests/setup/fuzz.sh $${SECONDS_EACH:-60}

docs: ## build the documentation site in build/docs/site, with MkDocs from the Python package index
	@tests/setup/venv.sh /usr/bin/python3 manifests/site/requirements.txt build/mkdocs manifests/site/build.py build/docs --mkdocs build/mkdocs/bin/mkdocs

reference: ## generate manifests/guide/reference, with the flags of the built programs
	@manifests/site/reference.py --bin build/$(PRESET)/bin

install-crds: ## install the CRDs in kubectl's current cluster
	$(KUBECTL) apply -k manifests/crd

cluster: ## start a real Kubernetes on loopback with Elastic GPU and simulated GPU nodes (needs Go >= 1.26; NODES=5 CARDS=8; REAL_NODE=1 adds a real node with the agent, which needs root)
	@tests/setup/packages.sh build test
	@tests/cluster/build.sh etcd kube-apiserver kube-controller-manager kube-scheduler kwok >/dev/null
	@$(MAKE) --no-print-directory build PRESET=$(PRESET) TARGETS="product $(if $(REAL_NODE),fake_nvml)"
	@tests/cluster/cluster.py up build/cluster build/$(PRESET)/bin $(or $(NODES),5) $(or $(CARDS),8) $(if $(REAL_NODE),--real-node)

cluster-down: ## stop the processes that make cluster started
	@tests/cluster/cluster.py down build/cluster

soak: ## cause random faults on a real Kubernetes under load, for MINUTES=60 (needs Go >= 1.26; SEED=N repeats an order)
	@tests/setup/packages.sh build test
	@$(MAKE) --no-print-directory build PRESET=$(PRESET) TARGETS=product
	@tests/cluster/soak/faults_test.py build/$(PRESET)/bin --minutes $(or $(MINUTES),60) $(if $(SEED),--seed $(SEED))

fresh: ## run make run and make test in a new Debian 12 root without caches (needs root; an hour or more)
	@tests/setup/packages.sh fresh
	@tests/setup/fresh.sh

clean: ## remove build/
	rm -rf build

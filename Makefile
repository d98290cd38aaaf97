# A thin front to CMake: every target ends by itself with a true exit status.
SHELL := /bin/bash
.DEFAULT_GOAL := build
JOBS ?= $(shell nproc)
PRESET ?= dev
KUBECTL ?= kubectl
# Not empty: without tests and benchmarks, and what they need.
PRODUCT = $(if $(filter-out product,$(TARGETS)),,$(TARGETS))

.PHONY: help deps tools build install image dist run test check sanitize bench lint format install-crds docs reference fuzz cluster cluster-down soak fresh clean

help: ## what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

deps: ## install the Debian packages that building and testing need, those that are missing
	@tests/setup/packages.sh build test

tools: ## helm 3, helm 4 and promtool, from their Go modules, for the tests of the chart and of the alerts (Go >= 1.26; 10 minutes)
	@for tool in helm-3 helm-4 promtool; do tests/cluster/build.sh $$tool >/dev/null || exit 1; done

build: ## configure and build (PRESET=dev|release|asan|tsan, TARGETS=product: without tests); make deps first
	@cmake --preset $(PRESET) -DEGPU_BUILD_TESTS=$(if $(PRODUCT),OFF,ON) -DEGPU_BUILD_BENCH=$(if $(PRODUCT),OFF,ON) >build-$(PRESET).log 2>&1 || { cat build-$(PRESET).log; rm -f build-$(PRESET).log; echo "If a package is missing: make deps" >&2; exit 1; }
	@rm -f build-$(PRESET).log
	@cmake --build --preset $(PRESET) -j $(JOBS) $(if $(TARGETS),--target $(TARGETS))

install: ## what is run, its plugins and the plugins' header, under PREFIX=/opt/elastic-gpu (DESTDIR=)
	@tests/setup/packages.sh build
	@$(MAKE) --no-print-directory build PRESET=release TARGETS=product
	@DESTDIR=$(DESTDIR) cmake --install build/release --prefix $(or $(PREFIX),/opt/elastic-gpu)

image: ## the image of controller and agent, with podman, docker or buildah (IMAGE=elastic-gpu-controller:0.1.0)
	@for tool in podman docker buildah; do command -v $$tool >/dev/null && exec $$tool build -f Containerfile -t $(or $(IMAGE),elastic-gpu-controller:0.1.0) .; done; \
	 echo "error: podman, docker and buildah are missing" >&2; exit 1

dist: ## archives, Debian package, chart, SBOM and checksums in build/dist/out (KEY=FILE signs them)
	@rm -rf build/dist
	@$(MAKE) --no-print-directory install DESTDIR=$(CURDIR)/build/dist/root PREFIX=/elastic-gpu
	@manifests/dist/dist.py build/dist/root/elastic-gpu build/dist/out $(if $(KEY),--key $(KEY)) $(if $(URL),--url $(URL))

run: ## standalone on simulated nodes: the sample claims bound, their pods running, the allocation map
	@tests/setup/packages.sh build demo
	@$(MAKE) --no-print-directory build PRESET=release TARGETS=product
	@tests/e2e/demo.sh build/release/bin

test: deps ## everything: unit, API server, kubectl, crash and (with Go) real API server tests
	@$(MAKE) --no-print-directory build PRESET=dev
	@tests/setup/run_tests.sh build/dev

check: ## what a developer runs again and again: all that needs no cluster, but for the longest (ctest -L long)
	@$(MAKE) --no-print-directory build PRESET=dev
	@tests/setup/run_tests.sh build/dev -LE 'cluster|long'

sanitize: deps ## the whole suite under ASan + UBSan, then under TSan
	@for p in asan tsan; do $(MAKE) --no-print-directory build PRESET=$$p && tests/setup/run_tests.sh build/$$p || exit 1; done

bench: deps ## measure; prints tables
	@$(MAKE) --no-print-directory build PRESET=release TARGETS=benchmarks
	@bench/run.sh build/release/bin

lint: ## clang-tidy and clang-format, as errors
	@tests/setup/packages.sh build test lint
	@tests/setup/lint.sh

format: ## rewrite sources in the project's style
	@tests/setup/packages.sh lint
	@git ls-files '*.h' '*.hpp' '*.c' '*.cpp' | xargs clang-format-14 -i

fuzz: ## each fuzz target for SECONDS_EACH seconds (default 60)
	@tests/setup/packages.sh build test fuzz
	@tests/setup/fuzz.sh $${SECONDS_EACH:-60}

docs: ## the documentation site into build/docs/site, with MkDocs from the Python package index
	@tests/setup/venv.sh /usr/bin/python3 manifests/site/requirements.txt build/mkdocs manifests/site/build.py build/docs --mkdocs build/mkdocs/bin/mkdocs

reference: ## the generated pages of manifests/guide/reference, with the flags of the programs that make build made
	@manifests/site/reference.py --bin build/$(PRESET)/bin

install-crds: ## the CRDs into the cluster that kubectl points at
	$(KUBECTL) apply -k manifests/crd

cluster: ## a real Kubernetes on loopback with simulated GPU nodes and our installation (needs Go >= 1.26; NODES=5 CARDS=8; REAL_NODE=1: and a real one with our agent, which needs root)
	@tests/setup/packages.sh build test
	@tests/cluster/build.sh etcd kube-apiserver kube-controller-manager kube-scheduler kwok >/dev/null
	@$(MAKE) --no-print-directory build PRESET=$(PRESET) TARGETS="product $(if $(REAL_NODE),fake_nvml)"
	@tests/cluster/cluster.py up build/cluster build/$(PRESET)/bin $(or $(NODES),5) $(or $(CARDS),8) $(if $(REAL_NODE),--real-node)

cluster-down: ## end exactly what make cluster started
	@tests/cluster/cluster.py down build/cluster

soak: ## faults at random on a real Kubernetes under load, for MINUTES=60 (needs Go >= 1.26; SEED=N repeats an order)
	@tests/setup/packages.sh build test
	@$(MAKE) --no-print-directory build PRESET=$(PRESET) TARGETS=product
	@tests/cluster/soak/faults_test.py build/$(PRESET)/bin --minutes $(or $(MINUTES),60) $(if $(SEED),--seed $(SEED))

fresh: ## make run and make test in a Debian 12 root of their own, with nothing cached (needs root; an hour or more)
	@tests/setup/packages.sh fresh
	@tests/setup/fresh.sh

clean: ## remove build/
	rm -rf build

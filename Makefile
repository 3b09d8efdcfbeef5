# The README's two commands, and shortcuts to what CMake does.
#
#   make run    builds anyflash and lets it look at this machine
#   make test   builds and runs every test that needs no network and no GPU

.PHONY: run test build packages test-sanitize test-thread test-clang test-neon test-full \
        test-onnx test-real test-prove test-config test-install test-python test-torch \
        test-flash-attn fuzz bench format install clean test-integrations wheel test-wheel \
        test-build test-govern bench-govern

PRESET ?= release
TESTS = OFF

run: build
	@echo; echo '== this machine: anyflash doctor'; echo
	@build/release/anyflash doctor || test $$? -eq 1
	@echo; echo '== a recorded machine with an RTX 4090: anyflash plan --machine examples/machines/rtx4090-torch2.8.json'; echo
	@build/release/anyflash plan --machine examples/machines/rtx4090-torch2.8.json
	@echo; echo '== the engine against the roof of this machine: anyflash bench --quick'; echo
	@build/release/anyflash bench --quick

build: packages
	@cmake --preset $(PRESET) -DANYFLASH_TESTS=$(TESTS) -DANYFLASH_CPU_MASK=$(TESTS) >build/$(PRESET).log 2>&1 || { cat build/$(PRESET).log; exit 1; }
	@cmake --build --preset $(PRESET)

packages:
	@mkdir -p build
	@tools/packages.sh $(PACKAGE_SETS)

test: PACKAGE_SETS += test
test: TESTS = ON
test: build
	ctest --preset $(PRESET)

test-sanitize:
	$(MAKE) test PRESET=sanitize

# Threads, calls and scratch under ThreadSanitizer.
test-thread:
	$(MAKE) test PRESET=thread

# FULL_CASES random problems of each kind and type for every kernel; minutes.
FULL_CASES ?= 1000
test-full: test
	ANYFLASH_TEST_CASES=$(FULL_CASES) build/$(PRESET)/tests/test_forward
	ANYFLASH_TEST_CASES=$(FULL_CASES) build/$(PRESET)/tests/test_backward

test-clang:
	@tools/packages.sh clang
	$(MAKE) test PRESET=clang

# The engine for AArch64, its kernels and API tested under QEMU.
test-neon:
	@tools/packages.sh neon
	cmake --preset neon
	cmake --build --preset neon
	ctest --preset neon

# ONNX's own cases of its Attention operator through anyflash.attend; fetches the onnx package.
test-onnx: build
	@test -x build/onnx/bin/python || python3 -m venv build/onnx
	@build/onnx/bin/python -c 'import onnx' 2>/dev/null || build/onnx/bin/pip install -q onnx
	ANYFLASH_LIBRARY=$(CURDIR)/build/$(PRESET)/libanyflash.so build/onnx/bin/python tests/onnx/run.py

# What anyflash says of real things beside what is so; each step says what it does. Needs uv, g++,
# the Python package index, 20 GB of disk for uv's cache and $$ANYFLASH_REAL_CACHE
# (~/.cache/anyflash-real), and two hours the first time. What was fetched and compiled stays.
TORCHES ?= 2.3.1 2.6.0 2.8.0 2.9.1 2.11.0 2.13.0 2.15.0
REAL_PYTHON = build/gpu-libraries/bin/python
test-real: PACKAGE_SETS += test
test-real: TESTS = ON
test-real: build
	@echo; echo '== 1 of 6: facts of Pythons and of five environments, beside what they say themselves'
	python3 tests/real/compare.py --anyflash build/release/anyflash
	@echo; echo '== 2 of 6: GPU code of the libraries of torch 2.15, beside cuobjdump'
	@test -x $(REAL_PYTHON) || uv venv -q --python 3.11 build/gpu-libraries
	uv pip install -q --python $(REAL_PYTHON) torch==2.15.0 numpy pytest
	python3 tests/real/gpu_code.py --print build/release/tests/print_gpu_code build/gpu-libraries
	@echo; echo '== 3 of 6: extensions compiled against the headers of torch $(TORCHES)'
	python3 tests/real/builds.py $(TORCHES)
	@echo; echo '== 4 of 6: those and 37 wheels judged by the shipped table, beside what was tried'
	python3 tests/real/proof.py --anyflash build/release/anyflash
	@echo; echo '== 5 of 6: those and 63 other wheels proved, then really imported, beside five torches'
	python3 tests/real/imports.py --anyflash build/release/anyflash
	@echo; echo '== 6 of 6: verify with torch 2.15, with right answers and with wrong ones'
	ANYFLASH=$(CURDIR)/build/release/anyflash ANYFLASH_TORCH_PYTHON=$(CURDIR)/$(REAL_PYTHON) \
	    $(REAL_PYTHON) -m pytest -q -p no:cacheprovider tests/real/test_verify.py

# Wheels of flash-attn that `anyflash build` makes for real, with torch 2.11 and 2.15, the system's
# toolkit hidden: made, installed, imported, grown, interrupted. Needs uv, g++, root or user
# namespaces, the Python package index, 15 GB of disk and an hour on two cores;
# BUILD_STEPS="small grow" does a part (tests/real/make_wheels.py).
test-build: build
	python3 tests/real/make_wheels.py --anyflash build/$(PRESET)/anyflash --folder build/wheels-made $(BUILD_STEPS)

# What `anyflash config` writes, taken by real uv and pip over a loopback index. Fetches
# uv, pip and what a build needs from the Python package index, once.
test-config: PACKAGE_SETS += test
test-config: build
	python3 tests/config/prepare.py build/config
	ANYFLASH=$(CURDIR)/build/$(PRESET)/anyflash build/config/run

# The governor over synthetic compilers: GOVERN_ROUNDS interrupted builds (3 interruptions each).
GOVERN_ROUNDS ?= 50
GOVERN_WITH = GOVERN_TRY=$(CURDIR)/build/$(PRESET)/tests/govern_try \
    GOVERN_COMPILER=$(CURDIR)/build/$(PRESET)/tests/govern_compiler PYTHONDONTWRITEBYTECODE=1
test-govern: PACKAGE_SETS += test
test-govern: TESTS = ON
test-govern: build
	GOVERN_ROUNDS=$(GOVERN_ROUNDS) $(GOVERN_WITH) /usr/bin/python3 -m pytest -q -p no:cacheprovider tests/govern

# 200 synthetic compilers beside the best schedule there can be; root, control groups of version 1.
bench-govern: PACKAGE_SETS += test
bench-govern: TESTS = ON
bench-govern: build
	$(GOVERN_WITH) /usr/bin/python3 bench/governor.py

# install, undo and plan with each installer, also the tests that `make test` runs with uv only.
test-install: PACKAGE_SETS += test
test-install: TESTS = ON
test-install: build
	for installer in uv pip; do \
	    ANYFLASH_TEST_INSTALLER=$$installer ANYFLASH=$(CURDIR)/build/$(PRESET)/anyflash \
	    ANYFLASH_HOOKS=$(CURDIR)/build/$(PRESET)/tests/anyflash_hooks \
	    PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 -m pytest -q -p no:cacheprovider tests/install \
	        || exit 1; done

# The Python package; with TORCH_PYTHON=.../bin/python also its torch part.
test-python: build
	@test -x build/python/bin/python || python3 -m venv build/python
	@build/python/bin/python -c 'import numpy, pytest' 2>/dev/null || build/python/bin/pip install -q numpy pytest
	ANYFLASH_LIBRARY=$(CURDIR)/build/$(PRESET)/libanyflash.so build/python/bin/python -m pytest -q -p no:cacheprovider tests/python
	$(if $(TORCH_PYTHON),PYTHONPATH=$$(echo build/python/lib/python3*/site-packages) ANYFLASH_LIBRARY=$(CURDIR)/build/$(PRESET)/libanyflash.so $(TORCH_PYTHON) -m pytest -q -p no:cacheprovider tests/python)

# The engine inside torch, on every torch of TORCH_VERSIONS: environments of their own in
# build/torch, made from the Python package index (2.5 GB each, shared with uv's cache).
# TORCH_BASE: the Python they are made of, 3.10 to 3.12.
TORCH_VERSIONS ?= 2.4.1 2.6.0 2.9.1 2.11.0 2.15.0
TORCH_BASE ?= python3
test-torch: build $(addprefix test-torch-,$(TORCH_VERSIONS))

test-torch-%: build
	@test -x build/torch/$*/bin/python || uv venv -q --python $(TORCH_BASE) build/torch/$*
	@build/torch/$*/bin/python -c 'import torch, numpy, pytest, expecttest' 2>/dev/null || uv pip install -q --compile-bytecode --python build/torch/$*/bin/python torch==$* numpy pytest expecttest setuptools
	@echo "== torch $*"
	PYTHONPATH=python ANYFLASH_LIBRARY=$(CURDIR)/build/$(PRESET)/libanyflash.so build/torch/$*/bin/python -m pytest -q -p no:cacheprovider tests/python/test_torch*.py

# flash-attn's own tests, fetched from the Python package index and changed to run on a CPU, on
# FLASH_ATTN_SETS random sets of their parameters (a second or more each), or FLASH_ATTN_PART
# of them. Fetches torch, too, unless TORCH_PYTHON=.../bin/python has it.
FLASH_ATTN_SETS ?= 2000
FLASH_ATTN_PART ?= 1/1
PRINT_TORCH_FOLDER = import pathlib, torch; print(pathlib.Path(torch.__file__).parents[1])
FLASH_ATTN_SEED ?= 1
test-flash-attn: build
	@test -x build/flash-attn/env/bin/python || $(if $(TORCH_PYTHON),$(TORCH_PYTHON),python3) -m venv build/flash-attn/env
	$(if $(TORCH_PYTHON),@$(TORCH_PYTHON) -c '$(PRINT_TORCH_FOLDER)' >$$(echo build/flash-attn/env/lib/python3*/site-packages)/torch.pth)
	@build/flash-attn/env/bin/python -c 'import torch, einops, pytest, psutil' 2>/dev/null || build/flash-attn/env/bin/pip install -q $(if $(TORCH_PYTHON),,torch) einops pytest setuptools wheel packaging psutil
	build/flash-attn/env/bin/python tests/flash_attn/prepare.py build/flash-attn
	ANYFLASH_LIBRARY=$(CURDIR)/build/$(PRESET)/libanyflash.so build/flash-attn/env/bin/python tests/flash_attn/run.py build/flash-attn --count $(FLASH_ATTN_SETS) --part $(FLASH_ATTN_PART) --seed $(FLASH_ATTN_SEED)

# transformers, diffusers, kernels and vLLM of the Python package index beside this package,
# in an environment made once (5 GB), or in that of INTEGRATIONS_PYTHON=.../bin/python.
INTEGRATIONS_PYTHON ?= build/integrations/bin/python
test-integrations: build
	@test -x $(INTEGRATIONS_PYTHON) || uv venv -q build/integrations
	@$(INTEGRATIONS_PYTHON) -c 'import diffusers, kernels, pytest' 2>/dev/null || \
	  uv pip install -q --python $(INTEGRATIONS_PYTHON) -r tests/integrations/requirements.txt
	$(INTEGRATIONS_PYTHON) tests/integrations/fetch_vllm.py build/integrations-vllm
	ANYFLASH_LIBRARY=$(CURDIR)/build/$(PRESET)/libanyflash.so $(INTEGRATIONS_PYTHON) -m pytest -q -p no:cacheprovider tests/integrations

# The wheel to hand out, build/wheel/anyflash-*.whl; and tried in fresh environments of every
# Python that uv has or can get, with NumPy, and with the torches of WHEEL_TORCH.
WHEEL_TORCH ?= 3.12=2.15.0
wheel: packages
	tools/wheel.sh

test-wheel: wheel
	python3 tests/wheel/try_wheel.py build/wheel/anyflash-*.whl build/wheel-tried $(addprefix --torch ,$(WHEEL_TORCH))

# Proofs of `inspect` beside real imports: make test-prove ENVS="venv1 venv2" FILES="folder"
test-prove: build
	python3 tests/real/prove.py --anyflash build/release/anyflash $(addprefix --against ,$(ENVS)) $(FILES)

# FUZZ_SECONDS for each target.
FUZZ_SECONDS ?= 60
fuzz:
	@tools/packages.sh test clang
	cmake --preset fuzz
	cmake --build --preset fuzz
	tools/fuzz.sh build/fuzz $(FUZZ_SECONDS)

bench: build
	python3 bench/decide.py --anyflash build/release/anyflash $(if $(PYTHON),--python $(PYTHON))

format:
	clang-format -i $$(git ls-files 'src/*.[ch]' 'tests/*.[ch]' 'tools/*.c' 'include/*.h')

install: build
	cmake --install build/release

clean:
	rm -rf build

# The README's two commands, and shortcuts to what CMake does.
#
#   make run    builds anyflash and lets it look at this machine
#   make test   builds and runs every test that needs no GPU; a new machine downloads packages first
#
#   make install PREFIX=DIR   installs the program and the library; without PREFIX: /usr/local
#   make uninstall            removes what the last `make install` wrote
#
#   make page   builds the web page: build/page/index.html, and build/page.html in one file
#
#   make release   builds what is published into dist/: wheels, static programs
#
#   make kernels [HEAD_DIM=64,128] [DTYPE=bf16] [PASS=forward]
#                compiles FlashAttention-2's kernels for every GPU into one file in dist/
#
#
#   make refresh   reads the sources of data/ again and shows what would change
#
# All other tests: tests/run --help.

.PHONY: run test build page bench wheel release kernels refresh format install uninstall clean

PRESET ?= release
TESTS = OFF

run: build
	@echo; echo '== this machine: anyflash doctor'; echo
	@build/$(PRESET)/anyflash doctor || test $$? -eq 1
	@echo; echo '== a recorded machine with an RTX 4090: anyflash plan --machine examples/machines/rtx4090-torch2.8.json'; echo
	@build/$(PRESET)/anyflash plan --machine examples/machines/rtx4090-torch2.8.json
	@echo; echo '== the speed of the engine, compared with what this machine can reach: anyflash bench --quick'; echo
	@build/$(PRESET)/anyflash bench --quick
	@echo
	@echo 'The program is build/$(PRESET)/anyflash.'
	@echo '`sudo make install` puts it on PATH; `make install PREFIX=$$HOME/.local` does without root.'
	@echo 'Next: `build/$(PRESET)/anyflash plan` prints the steps for this machine, and'
	@echo '`build/$(PRESET)/anyflash help` all commands.'

test:
	@PRESET=$(PRESET) tests/run quick

# Installs the missing packages of PACKAGE_SETS (tools/packages.sh) and builds TARGET of
# build/$(PRESET); without TARGET, what CMakePresets.json names, by default everything.
build:
	@mkdir -p build
	@tools/packages.sh $(PACKAGE_SETS)
	@cmake --preset $(PRESET) -DANYFLASH_TESTS=$(TESTS) -DANYFLASH_CPU_MASK=$(TESTS) >build/$(PRESET).log 2>&1 || { cat build/$(PRESET).log; exit 1; }
	@cmake --build --preset $(PRESET) $(if $(TARGET),--target $(TARGET))

# The web page alone, without the program, for any static host: python3 -m http.server --directory build/page
page:
	@tools/packages.sh wasm
	@tools/debian_sources.sh build/wasm jansson libzstd
	@$(MAKE) --no-print-directory build PACKAGE_SETS=wasm TARGET=wasm
	@tools/make_page.sh build/$(PRESET)/anyflash.wasm build/page

# Times deciding; PYTHON=.../bin/python beside `import torch` in that Python.
bench: build
	python3 bench/decide.py --anyflash build/$(PRESET)/anyflash $(if $(PYTHON),--python $(PYTHON))

# The wheel to hand out: dist/anyflash-*.whl.
wheel:
	@tools/packages.sh release
	packaging/wheel.sh $(shell uname -m)

# Everything that is published, for all systems, on Debian 12: dist/
release:
	@tools/packages.sh release neon
	packaging/release.sh

# Without HEAD_DIM, DTYPE and PASS: everything, 90 CPU minutes, up to 7 GiB for each compiler.
kernels:
	@tools/packages.sh kernels
	@packaging/kernels/make_pack.py $(if $(HEAD_DIM),--head-dim $(HEAD_DIM)) \
		$(if $(DTYPE),--dtype $(DTYPE)) $(if $(PASS),--pass $(PASS))

# APPLY=1 puts the new files into data/ after showing the differences.
refresh: build
	python3 tools/refresh.py $(if $(APPLY),--apply)

format:
	@tools/format.sh

# The user who called sudo builds, so that nothing in build/ belongs to root.
install:
	@tools/install.sh check build/$(PRESET) '$(PREFIX)'
	@$(if $(filter $(SUDO_USER),$(shell stat -c %U .)),sudo -u $(SUDO_USER)) $(MAKE) --no-print-directory build PRESET=$(PRESET)
	@tools/install.sh install build/$(PRESET) '$(PREFIX)'

uninstall:
	@tools/install.sh uninstall build/$(PRESET)

clean:
	rm -rf build

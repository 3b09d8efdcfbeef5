"""Compilers, build tools and other package managers: successes, and unrelated errors."""

import os

from world import healthy

TOOLS = "/usr/bin:/bin:/usr/sbin:/sbin:" + os.path.expanduser("~/.cargo/bin")

HELLO = '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }\n'
ERRORS = {
    "semicolon": ("c", "int main(void) { return 0 }\n"),
    "undeclared": ("c", "int main(void) { return size; }\n"),
    "header": ("c", "#include <no_such_header.h>\nint main(void) { return 0; }\n"),
    "project-header": ("cpp", '#include "engine/core.hpp"\nint main() {}\n'),
    "undefined-reference": ("c", "int other(void);\nint main(void) { return other(); }\n"),
    "undefined-class": ("cpp", "struct A { virtual void f(); };\nint main() { A().f(); }\n"),
    "redefinition": (
        "c",
        (
            "int f(void) { return 1; }\nint f(void) { return 2; }\n"
            "int main(void) { return f(); }\n"
        ),
    ),
    "template": (
        "cpp",
        (
            "#include <algorithm>\n#include <list>\nint main() { std::list<int> l; "
            "std::sort(l.begin(), l.end()); }\n"
        ),
    ),
    "static-assert": (
        "cpp",
        'static_assert(sizeof(int) == 8, "int is 8 bytes");\nint main() {}\n',
    ),
    "conversion": ("cpp", '#include <string>\nint main() { int n = std::string("x"); }\n'),
    "overload": ("cpp", 'void f(int, int);\nint main() { f("a"); }\n'),
    "private": ("cpp", "class A { int x; };\nint main() { return A().x; }\n"),
    "warning": (
        "c",
        '#include <stdio.h>\nint main(void) { int unused; printf("%s", 5); return 0; }\n',
    ),
    "hash-error": (
        "c",
        '#error "this platform is not supported"\nint main(void) { return 0; }\n',
    ),
}


def compile_error(suffix, text, compiler):
    def make(scene):
        scene.file(f"main.{suffix}", text)
        scene.run(
            {"gcc": {"c": "gcc", "cpp": "g++"}, "clang": {"c": "clang", "cpp": "clang++"}}[
                compiler
            ][suffix],
            "-Wall",
            f"main.{suffix}",
            "-o",
            "main",
            prompt=True,
        )

    return make


for key, (suffix, text) in ERRORS.items():
    for compiler in ("gcc", "clang"):
        healthy(
            f"{compiler}-{key}", f"{compiler} compiles a program with {key}",
            compile_error(suffix, text, compiler),
        )

CMAKE = (
    "cmake_minimum_required(VERSION 3.16)\nproject(hello C CXX)\nadd_executable(hello main.c)\n"
)
FILES = {
    "main.c": HELLO,
    "CMakeLists.txt": CMAKE,
    "Makefile": "all: hello\nhello: main.o\n\t$(CC) -o $@ $^\ntest: all\n\t./hello && false\n",
    "bad/CMakeLists.txt": CMAKE + "find_package(NoSuchThing REQUIRED)\n",
    "broken/main.c": "int main(void) { return x; }\n",
    "broken/CMakeLists.txt": CMAKE,
    "bad/main.c": HELLO,
    "loop.sh": "for i in 1 2 3; do echo step $i; done\nexit 3\n",
    "Main.java": (
        "class Main { public static void main(String[] a) { int[] x = {}; "
        "System.out.println(x[1]); } }\n"
    ),
    "Wrong.java": 'class Wrong { int f() { return "a"; } }\n',
    "die.pl": 'use strict; my %h = (a => 1); die "no key b" unless exists $h{b};\n',
    "throw.js": "const a = undefined;\nconsole.log(a.length);\n",
    "require.js": "require('left-pad-not-there');\n",
    "refused.js": "require('net').connect(1, '127.0.0.1');\n",
    "package.json": (
        '{"name": "page", "version": "1.0.0", "scripts": {"test": "exit 2", '
        '"build": "echo built"}}\n'
    ),
    "crate/Cargo.toml": '[package]\nname = "crate1"\nversion = "0.1.0"\nedition = "2021"\n',
    "crate/src/main.rs": (
        'fn main() { println!("hi"); }\n#[test]\nfn good() { assert_eq!(1, '
        "1); }\n#[test]\nfn bad() { assert_eq!(1, 2); }\n"
    ),
    "borrow/Cargo.toml": '[package]\nname = "borrow"\nversion = "0.1.0"\nedition = "2021"\n',
    "borrow/src/main.rs": 'fn main() { let v = vec![1]; let w = v; println!("{:?}", v); }\n',
    "panic.rs": 'fn main() { let v: Vec<i32> = vec![]; println!("{}", v[3]); }\n',
    "leak.c": (
        "#include <stdlib.h>\nint main(void) { char *p = malloc(8); p[8] = 1; return p[0]; }\n"
    ),
    "null.c": "int main(void) { int *volatile p = 0; return *p; }\n",
}


def shell(*steps):
    def make(scene):
        for name, text in FILES.items():
            scene.file(name, text)
        for step in steps:
            scene.write(f"$ {step}\n")
            scene.shell(step, variables={"PATH": TOOLS})

    return make


for key, steps in {
    "make-success": ["make"],
    "make-parallel": ["make -j2 --output-sync --trace", "make", "make clean"],
    "make-test-fails": ["make test"],
    "make-debug": ["make -n", "make -p | head -40"],
    "cmake-success": ["cmake -S . -B b -G Ninja", "cmake --build b -v"],
    "cmake-makefiles": ["cmake -S . -B b", "cmake --build b"],
    "cmake-no-package": ["cmake -S bad -B b"],
    "cmake-compile-error": ["cmake -S broken -B b -G Ninja", "cmake --build b"],
    "cmake-broken-make": ["cmake -S broken -B b", "make -C b"],
    "cmake-no-folder": ["cmake -S nowhere -B b", "ninja -C b"],
    "ninja-no-file": ["ninja", "ninja --version"],
    "ninja-clean": [
        "cmake -S . -B b -G Ninja > /dev/null",
        "ninja -C b -v",
        "ninja -C b -t clean",
        "ninja -C b -d explain",
    ],
    "linker-no-library": ["gcc main.c -lno_such_library"],
    "linker-wrong-format": ["echo x > x.o", "gcc main.c x.o"],
    "gcc-verbose": ["gcc -v main.c"],
    "clang-verbose": ["clang -v main.c"],
    "gcc-time-report": ["gcc -ftime-report -c main.c"],
    "readelf": ["gcc -shared -fPIC main.c -o libm.so", "readelf -d libm.so", "ldd libm.so"],
    "objdump": ["gcc -c main.c", "objdump -t main.o", "nm main.o"],
    "sanitizer": ["gcc -fsanitize=address leak.c -o leak", "./leak"],
    "segfault": ["gcc null.c -o null", "./null"],
    "valgrind": ["gcc -g leak.c -o leak", "valgrind ./leak"],
    "strace": ["gcc main.c -o hello", "strace -f ./hello 2>&1 | tail -30"],
    "gdb": ["gcc -g null.c -o null", "gdb -batch -ex run -ex bt ./null"],
    "preload-missing": ["LD_PRELOAD=/nonexistent/lib.so ls"],
    "library-missing": [
        (
            "echo 'int f(void){return 0;}' > f.c && gcc -shared -fPIC f.c -o libf.so "
            "&& echo 'int f(void); int main(void){return f();}' > g.c && gcc g.c "
            "-L. -lf -o g"
        ),
        "./g",
    ],
    "shell-fails": ["bash -x loop.sh"],
    "command-not-found": ["nosuchcommand --help", "nvidia-smi", "conda activate base"],
    "java-exception": ["javac Main.java", "java Main"],
    "java-error": ["javac Wrong.java"],
    "maven-no-project": ["mvn -o -B package"],
    "perl-dies": ["perl die.pl", "perl -V | head -30"],
    "node-exception": ["node throw.js"],
    "node-no-module": ["node require.js"],
    "node-refused": ["node refused.js"],
    "npm-scripts": ["npm run build"],
    "npm-test-fails": ["npm test"],
    "npm-no-script": ["npm run nothing"],
    "npm-version": ["npm --version", "node --version", "npm ls"],
    "cargo-build": ["cd crate && cargo build --offline"],
    "cargo-test-fails": ["cd crate && cargo test --offline"],
    "cargo-borrow": ["cd borrow && cargo build --offline"],
    "cargo-metadata": [
        "cd crate && cargo metadata --offline --format-version 1 | head -c 1500"
    ],
    "cargo-no-crate": ["cargo build --offline"],
    "rust-panic": ["rustc panic.rs", "./panic"],
}.items():
    healthy(key, "; ".join(steps), shell(*steps))

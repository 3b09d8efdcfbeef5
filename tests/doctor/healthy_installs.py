"""Logs of pip, uv and flash-attn in which nothing failed."""

import os

from world import CUDA_OF, RELEASE, TAGS, healthy, make_wheel

PACKAGES = (
    "six",
    "idna",
    "certifi",
    "packaging",
    "attrs",
    "click",
    "colorama",
    "pyyaml",
    "toml",
    "tomli",
    "typing-extensions",
    "zipp",
    "wheel",
    "setuptools",
    "pytz",
    "iniconfig",
    "pluggy",
    "markupsafe",
    "jinja2",
    "urllib3",
    "requests",
    "charset-normalizer",
    "einops",
    "filelock",
    "fsspec",
    "networkx",
    "mpmath",
    "sympy",
    "numpy",
    "psutil",
    "ninja",
    "regex",
    "tqdm",
    "pathspec",
    "rich",
    "docutils",
    "tabulate",
    "more-itertools",
    "python-dateutil",
    "sortedcontainers",
    "flask",
    "pydantic",
)
# Pure Python packages whose sdists build in a second.
SDISTS = ("six", "tqdm", "toml", "tabulate", "sortedcontainers", "iniconfig", "einops", "idna")
PIPS = ("23.2.1", "24.0", "25.1", "26.3")
PIP_FLAGS = (
    [],
    ["--no-cache-dir"],
    ["-v"],
    ["--upgrade"],
    ["--dry-run"],
    ["--no-deps"],
    ["--progress-bar", "off"],
    ["--ignore-installed"],
    ["--report", "report.json"],
    ["--prefer-binary", "--no-compile"],
)
UV_FLAGS = (
    [],
    ["-v"],
    ["--no-cache"],
    ["--reinstall"],
    ["--dry-run"],
    ["--compile-bytecode"],
    ["--resolution", "lowest"],
    ["--no-deps"],
    ["--link-mode", "copy"],
)


def pip_install(package, flags, version, more=()):
    def make(scene):
        env = scene.env(pip=version)
        scene.run("pip", "install", *flags, *more, package, env=env, prompt=len(flags) != 1)
        assert scene.ended == 0

    return make


def uv_install(package, flags):
    def make(scene):
        scene.run(
            "uv", "pip", "install", *flags, package, env=scene.env(), prompt=len(flags) != 1
        )
        assert scene.ended == 0

    return make


for at, one in enumerate(PACKAGES):
    words = PIP_FLAGS[at % len(PIP_FLAGS)]
    if at % 2 == 0:
        healthy(
            f"pip-install-{one}", f"pip install {' '.join(words)} {one}",
            pip_install(one, words, PIPS[at // 2 % len(PIPS)]),
        )
    words = UV_FLAGS[at % len(UV_FLAGS)]
    healthy(
        f"uv-install-{one}", f"uv pip install {' '.join(words)} {one}", uv_install(one, words)
    )
for at, one in enumerate(SDISTS):
    healthy(
        f"pip-build-{one}",
        f"pip builds {one} from source",
        pip_install(
            one, ["-v"][: at % 2], PIPS[at % len(PIPS)], ("--no-binary", one, "--no-deps")
        ),
    )


def command(*steps, packages=("requests", "numpy"), files=(), pip="25.1", fails=False):
    """Shell lines in an environment with these packages."""

    def make(scene):
        env = scene.env(*packages, pip=pip)
        for name, text in files:
            scene.file(name, text)
        for step in steps:
            scene.write(f"$ {step}\n")
            scene.shell(step, env=env)
            assert (scene.ended != 0) == fails, step

    return make


PROJECT = (
    "pyproject.toml",
    (
        '[project]\nname = "trainer"\nversion = "0.1.0"\n'
        'requires-python = ">=3.11"\ndependencies = ["requests", "einops"]\n'
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
    ),
)
MODULE = ("trainer/__init__.py", "def train():\n    return 1\n")
for key, steps in {
    "pip-list": ["pip list"],
    "pip-list-outdated": ["pip list --outdated"],
    "pip-list-json": ["pip list --format json"],
    "pip-freeze": ["pip freeze", "pip freeze --all"],
    "pip-check": ["pip check"],
    "pip-show": ["pip show -f requests", "pip show numpy"],
    "pip-inspect": ["pip inspect | head -c 3000"],
    "pip-debug": ["pip debug --verbose | head -60"],
    "pip-help": ["pip --help", "pip install --help"],
    "pip-config": ["pip config debug", "pip --version"],
    "pip-uninstall": ["pip uninstall -y requests"],
    "pip-download": ["pip download --no-deps -d out six idna", "ls -l out"],
    "pip-hash": ["pip download -q --no-deps -d out six", "pip hash out/*"],
    "pip-wheel": ["pip wheel --no-deps -w out six"],
    "pip-index": ["pip index versions einops"],
    "pip-already-there": ["pip install requests numpy", "pip install -U requests"],
    "pip-upgrade-itself": ["pip install --upgrade pip setuptools wheel"],
    "pip-conflict-warning": ["pip install 'urllib3==1.26.5' 'charset-normalizer<3'"],
    "pip-requirements": ["printf 'six\\nidna>=3\\n' > r.txt && pip install -r r.txt"],
    "pip-user-agent": ["python -m pip cache info", "python -m pip cache list | head"],
    "uv-list": ["uv pip list", "uv pip freeze", "uv pip tree", "uv pip check"],
    "uv-version": ["uv --version", "uv python list --only-installed | head -5"],
    "uv-uninstall": ["uv pip uninstall requests"],
    "uv-compile": ["printf 'flask\\nnumpy\\n' > r.in && uv pip compile r.in"],
    "uv-compile-hashes": ["echo six > r.in && uv pip compile --generate-hashes r.in"],
    "uv-venv": ["uv venv other", "uv venv --seed third", "python -m venv fourth"],
    "venv-module": ["python -m venv a", "a/bin/pip --version", "ls a/bin"],
}.items():
    healthy(key, "; ".join(steps), command(*steps))
for key, steps in {
    "uv-project": ["uv lock", "uv sync", "uv tree", "uv export --no-hashes"],
    "uv-add": ["uv add six", "uv remove six"],
    "uv-run": ["uv run python -c 'import einops; print(einops.__version__)'"],
    "uv-build": ["uv build --wheel"],
    "uv-sync-verbose": ["uv sync -v"],
    "pip-editable": ["pip install --no-deps -e ."],
    "pip-build-verbose": ["pip install -v --no-deps ."],
    "setup-wheel": ["pip wheel --no-deps -w /tmp/trainer-wheel ."],
}.items():
    healthy(key, "; ".join(steps), command(*steps, files=(PROJECT, MODULE)))


# ---- flash-attn and torch where nothing is wrong ----


def with_flash_attn(*steps, torch="2.6.0", built_for="2.6.0"):
    def make(scene):
        env = scene.torch(torch, pip="25.1")
        scene.install_flash_attn(env, built_for)
        for step in steps:
            scene.write(f"$ {step}\n")
            scene.shell(step, env=env)
            assert scene.ended == 0, step

    return make


for key, steps in {
    "flash-attn-import": ["python -c 'import flash_attn; print(flash_attn.__version__)'"],
    "flash-attn-function": [
        "python -c 'from flash_attn import flash_attn_func as f; print(f)'"
    ],
    "flash-attn-show": ["pip show flash-attn"],
    "flash-attn-list": ["pip list | grep -i -E 'torch|flash|nvidia|cuda'", "pip check"],
    "flash-attn-verbose-import": [
        "python -v -c 'import flash_attn' 2>&1 | grep -E 'flash|import .torch' | head -150"
    ],
    "flash-attn-ldd": [
        "ldd $(python -c 'import torch, flash_attn_2_cuda as f; print(f.__file__)') | sort"
    ],
    "flash-attn-uninstall": ["pip uninstall -y flash-attn", "pip list | grep -i torch"],
    "torch-collect": ["python -m torch.utils.collect_env"],
    "torch-versions": [
        "python -c 'import torch; print(torch.__version__, torch.version.cuda, "
        "torch.cuda.is_available(), torch._C._GLIBCXX_USE_CXX11_ABI)'"
    ],
    "torch-config": ["python -c 'import torch; print(torch.__config__.show())'"],
    "torch-sdpa": [
        "python -c 'import torch; q = torch.randn(1, 2, 8, 16); "
        "print(torch.nn.functional.scaled_dot_product_attention(q, q, q).sum())'"
    ],
}.items():
    healthy(key, "; ".join(steps), with_flash_attn(*steps))
healthy(
    "flash-attn-import-new",
    "import beside torch 2.15",
    with_flash_attn(
        "python -c 'import flash_attn; print(flash_attn.__version__)'",
        torch="2.15.0", built_for="2.15.0",
    ),
)


def install_good_wheel(installer):
    def make(scene):
        env = scene.torch("2.6.0", "einops", pip="25.1")
        wheel = make_wheel(
            scene.work, "flash_attn", f"{RELEASE}+cu12torch2.6cxx11abiFALSE", TAGS,
            {"flash_attn/__init__.py": b""}, ("torch", "einops"),
        )
        scene.run(*installer, wheel.name, env=env, prompt=True)
        assert scene.ended == 0

    return make


healthy(
    "flash-attn-wheel-pip", "pip installs a flash-attn wheel",
    install_good_wheel(("pip", "install")),
)
healthy(
    "flash-attn-wheel-pip-verbose", "pip -v installs a flash-attn wheel",
    install_good_wheel(("pip", "install", "-v", "--no-deps")),
)
healthy(
    "flash-attn-wheel-uv", "uv installs a flash-attn wheel",
    install_good_wheel(("uv", "pip", "install")),
)
healthy(
    "flash-attn-wheel-uv-verbose", "uv -v installs a flash-attn wheel",
    install_good_wheel(("uv", "pip", "install", "-v")),
)


def renamed(installer):
    """An installer that accepts a local version that only the file name has."""

    def make(scene):
        wheel = make_wheel(
            scene.work, "flash_attn", RELEASE, TAGS, {},
            file_version=f"{RELEASE}+cu12torch2.8cxx11abiTRUE",
        )
        scene.run(*installer, wheel.name, env=scene.env(pip="25.1"), prompt=True)
        assert scene.ended == 0

    return make


healthy("flash-attn-renamed-pip", "pip installs a renamed wheel", renamed(("pip", "install")))
healthy(
    "flash-attn-renamed-uv", "uv installs a renamed wheel", renamed(("uv", "pip", "install"))
)


def install_torch(version):
    def make(scene):
        scene.run("uv", "pip", "install", f"torch=={version}", env=scene.env(), prompt=True)
        assert scene.ended == 0

    return make


for one in CUDA_OF:
    healthy(f"torch-install-{one}", f"uv installs torch {one}", install_torch(one))


def without_cuda(scene):
    """The sdist builds without its extension and succeeds."""
    env = scene.torch(
        "2.6.0", "setuptools<81", "wheel", "packaging", "psutil", "ninja", pip="25.1"
    )
    scene.run(
        "pip", "install", "-v", "--no-cache-dir", "--no-build-isolation", "--no-deps",
        f"flash-attn=={RELEASE}",
        env=env, hidden=True, variables={"FLASH_ATTENTION_SKIP_CUDA_BUILD": "TRUE"},
    )
    assert scene.ended == 0


healthy(
    "flash-attn-build-without-cuda", "pip builds flash-attn without its extension", without_cuda
)


def compiled(scene):
    """An extension of torch really compiled by ninja and imported."""
    assert os.path.exists("/usr/local/cuda/bin/nvcc"), "needs a CUDA toolkit in /usr/local/cuda"
    env = scene.torch("2.11.0", "setuptools<81", "wheel", "ninja", pip="25.1")
    scene.file("tiny/k.cu", "__global__ void k() {}\nvoid go() { k<<<1, 1>>>(); }\n")
    scene.file(
        "tiny/setup.py",
        "from setuptools import setup\nfrom torch.utils.cpp_extension import "
        "*\nsetup(name='tiny', version='1', ext_modules=[CUDAExtension('tiny_cuda', ['k.cu'])"
        "], cmdclass={'build_ext': BuildExtension})\n",
    )
    scene.run(
        "pip",
        "install",
        "-v",
        "--no-build-isolation",
        "./tiny",
        env=env,
        toolkit=True,
        variables={
            "CUDA_HOME": "/usr/local/cuda",
            "TORCH_CUDA_ARCH_LIST": "8.0",
            "MAX_JOBS": "1",
        },
        limit=500,
    )
    assert scene.ended == 0


healthy("extension-built", "pip builds a small CUDA extension", compiled)

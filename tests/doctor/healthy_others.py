"""Tracebacks, test runs and system logs that have nothing to do with flash-attn."""

from world import RELEASE, TAGS, healthy, make_wheel

SNIPPETS = {
    "json": "import json\njson.loads('{\"a\": 1,}')",
    "json-file": "import json\njson.load(open('config.json'))",
    "key": "settings = {'a': 1}\nprint(settings['model'])",
    "index": "print([1, 2][5])",
    "zero": "def rate(n, total):\n    return n / total\nrate(3, 0)",
    "type": "print('a' + 1)",
    "attribute": "import math\nmath.sqroot(2)",
    "none": "result = None\nresult.append(1)",
    "value": "int('12.5')",
    "unpack": "a, b = 1, 2, 3",
    "name": "def run():\n    return config\nrun()",
    "assertion": "loss = 2.5\nassert loss < 1, f'loss is {loss}'",
    "recursion": "def f(n):\n    return f(n + 1)\nf(0)",
    "unicode": "b'\\xff\\xfe'.decode('utf-8')",
    "file": "open('/data/train.csv').read()",
    "permission": "import os\nos.setuid(65534)\nopen('/etc/shadow').read()",
    "directory": "open('/tmp').read()",
    "pipe": "import os\nr, w = os.pipe()\nos.close(r)\nos.write(w, b'x')",
    "syntax": "for x in range(3)\n    print(x)",
    "indent": "def f():\nreturn 1",
    "import": "import no_such_module_at_all",
    "import-name": "from collections import OrderedDictionary",
    "import-relative": "from . import helper",
    "sqlite-table": (
        "import sqlite3\nsqlite3.connect(':memory:').execute('select * from users')"
    ),
    "sqlite-unique": (
        "import sqlite3\nc = sqlite3.connect(':memory:')\nc.execute('create table t "
        "(id integer primary key)')\nfor _ in range(2):\n    c.execute('insert into t "
        "values (1)')"
    ),
    "socket": "import socket\nsocket.create_connection(('127.0.0.1', 1), timeout=1)",
    "socket-timeout": (
        "import socket\ns = socket.socket()\ns.bind(('127.0.0.1', 0))\ns.settimeout(0.1)"
        "\ns.listen()\ns.accept()"
    ),
    "urllib": "import urllib.request\nurllib.request.urlopen('http://127.0.0.1:1/api')",
    "subprocess": "import subprocess\nsubprocess.run(['false'], check=True)",
    "subprocess-missing": (
        "import subprocess\nsubprocess.run(['ffmpeg-not-there', '-i', 'a.mp4'])"
    ),
    "subprocess-timeout": "import subprocess\nsubprocess.run(['sleep', '5'], timeout=0.2)",
    "threads": (
        "import threading\ndef work():\n    raise RuntimeError('worker failed')\n"
        "t = threading.Thread(target=work)\nt.start()\nt.join()"
    ),
    "pool": (
        "from multiprocessing import Pool\ndef f(x):\n    return 1 / x\nif __name__ =="
        " '__main__':\n    Pool(2).map(f, [1, 0])"
    ),
    "asyncio": (
        "import asyncio\nasync def f():\n    await asyncio.sleep(0)\n    raise"
        " ValueError('bad')\nasyncio.run(f())"
    ),
    "chained": (
        "try:\n    {}['a']\nexcept KeyError as error:\n    raise RuntimeError('no a') from"
        " error"
    ),
    "during": "try:\n    1 / 0\nexcept ZeroDivisionError:\n    undefined_name",
    "group": "raise ExceptionGroup('several', [ValueError(1), TypeError(2)])",
    "exit": "import sys\nsys.exit('error: no input files')",
    "interrupt": "import os, signal\nos.kill(os.getpid(), signal.SIGINT)",
    "argparse": (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--lr', type=float, "
        "required=True)\np.parse_args(['--lr', 'fast'])"
    ),
    "csv": "import csv\nlist(csv.DictReader(['a,b', '1'], strict=True))[0]['c']",
    "struct": "import struct\nstruct.unpack('<I', b'abc')",
    "zip": "import zipfile\nzipfile.ZipFile(__file__)",
    "gzip": "import gzip\ngzip.open(__file__).read()",
    "pickle": "import pickle\npickle.loads(b'nonsense')",
    "pickle-lambda": "import pickle\npickle.dumps(lambda: 1)",
    "logging": (
        "import logging\nlogging.basicConfig(level='DEBUG', format='%(levelname)s %(name)s"
        " %(message)s')\nfor i in range(20):\n    logging.info('step %d loss %.3f', i, 2 / (i +"
        " 1))\nlogging.error('validation failed')"
    ),
    "warnings": (
        "import warnings\nfor i in range(3):\n    warnings.warn(f'old option {i}', "
        "DeprecationWarning)\nwarnings.warn('careful')"
    ),
    "ctypes": "import ctypes\nctypes.CDLL('libnothing_here.so.3')",
    "ctypes-symbol": "import ctypes\nctypes.CDLL(None).no_such_function",
    "faulthandler": "import faulthandler, ctypes\nfaulthandler.enable()\nctypes.string_at(0)",
    "memory": (
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (300 << 20, 300 << 20))\n"
        "x = bytearray(1 << 30)"
    ),
    "killed": (
        "import os, signal\nprint('epoch 1', flush=True)\nos.kill(os.getpid(), signal.SIGTERM)"
    ),
    "dataclass": "import dataclasses\n@dataclasses.dataclass\nclass A:\n    x: list = []",
    "datetime": "import datetime\ndatetime.datetime.strptime('2024-13-01', '%Y-%m-%d')",
    "decimal": "import decimal\ndecimal.Decimal('a')",
    "regex": "import re\nre.compile('(a')",
    "email": "import xml.etree.ElementTree as t\nt.fromstring('<a><b></a>')",
    "hash": "import hashlib\nhashlib.new('md7')",
    "locale": "import locale\nlocale.setlocale(locale.LC_ALL, 'xx_XX')",
}
WITH_PACKAGES = {
    "numpy-shape": ("import numpy as np\nnp.zeros((2, 3)) @ np.zeros((2, 3))", ["numpy"]),
    "numpy-broadcast": ("import numpy as np\nnp.zeros(3) + np.zeros(4)", ["numpy"]),
    "numpy-linalg": ("import numpy as np\nnp.linalg.inv(np.zeros((2, 2)))", ["numpy"]),
    "numpy-file": ("import numpy as np\nnp.load('weights.npy')", ["numpy"]),
    "numpy-warnings": ("import numpy as np\nprint(np.log(np.array([0., -1.])))", ["numpy"]),
    "numpy-memory": ("import numpy as np\nnp.zeros((1 << 50,))", ["numpy"]),
    "numpy-attribute": ("import numpy as np\nnp.float", ["numpy"]),
    "einops-shape": (
        "import numpy as np, einops\neinops.rearrange(np.zeros((2, 3)), 'a b c -> a')",
        ["numpy", "einops"],
    ),
    "requests-refused": (
        "import requests\nrequests.get('http://127.0.0.1:1/v1/models', timeout=1)",
        ["requests"],
    ),
    "requests-json": ("import requests\nrequests.models.Response().json()", ["requests"]),
    "yaml": ("import yaml\nyaml.safe_load('a: [1, 2\\nb: }')", ["pyyaml"]),
    "jinja": ("import jinja2\njinja2.Template('{% if x %}').render()", ["jinja2"]),
    "pydantic": (
        "import pydantic\nclass A(pydantic.BaseModel):\n    lr: float\nA(lr='fast')",
        ["pydantic"],
    ),
    "click": (
        (
            "import click\n@click.command()\n@click.option('--n', type=int, required=True)\ndef"
            " f(n):\n    pass\nf()"
        ),
        ["click"],
    ),
    "torch-shape": ("import torch\ntorch.zeros(2, 3) @ torch.zeros(2, 3)", ["torch==2.6.0"]),
    "torch-dtype": (
        "import torch\ntorch.nn.Linear(4, 4)(torch.zeros(2, 4, dtype=torch.float64))",
        ["torch==2.6.0"],
    ),
    "torch-index": (
        "import torch\ntorch.nn.Embedding(4, 2)(torch.tensor([7]))",
        ["torch==2.6.0"],
    ),
    "torch-state": (
        "import torch\ntorch.nn.Linear(2, 2).load_state_dict({})",
        ["torch==2.6.0"],
    ),
    "torch-load": (
        "import torch\nopen('m.pt', 'w').write('x')\ntorch.load('m.pt')",
        ["torch==2.6.0"],
    ),
    "torch-grad": ("import torch\ntorch.zeros(2).sum().backward()", ["torch==2.6.0"]),
    "torch-nan": (
        "import torch\ntorch.distributions.Normal(torch.tensor(float('nan')), 1.)",
        ["torch==2.6.0"],
    ),
    "torch-training": (
        (
            "import torch\nm = torch.nn.Linear(4, 1)\no = torch.optim.SGD(m.parameters(), .1)"
            "\nfor i in range(30):\n    loss = m(torch.ones(8, 4)).pow(2).mean()\n    "
            "o.zero_grad()\n    loss.backward()\n    o.step()\n    print(f'step {i} loss "
            "{loss.item():.5f}')"
        ),
        ["torch==2.6.0"],
    ),
}


def snippet(code, packages=(), words=()):
    def make(scene):
        env = scene.env(*packages)
        scene.run("python", *words, scene.file("train.py", code + "\n"), env=env, limit=60)

    return make


def beside_flash_attn(code):
    """The log names flash-attn, which is installed but unrelated to the failure."""

    def make(scene):
        env = scene.env(pip="25.1")
        wheel = make_wheel(
            scene.work, "flash_attn", RELEASE, TAGS, {"flash_attn/__init__.py": b""}
        )
        scene.run("uv", "pip", "install", "--no-deps", wheel, env=env)
        scene.run("pip", "list", env=env, prompt=True)
        script = scene.file("train.py", f"import flash_attn\n{code}\n")
        scene.run("python", script, env=env, limit=60, prompt=True)

    return make


for key, code in SNIPPETS.items():
    healthy(
        f"beside-flash-attn-{key}", f"flash-attn is installed and a Python script fails: {key}",
        beside_flash_attn(code),
    )
for key, code in SNIPPETS.items():
    healthy(f"python-{key}", f"a Python script: {key}", snippet(code))
for key, (code, packages) in WITH_PACKAGES.items():
    healthy(
        f"python-{key}", f"a Python script with {' '.join(packages)}: {key}",
        snippet(code, packages),
    )
for key, words in {
    "verbose-json": ("-v",),
    "verbose-ssl": ("-v",),
    "importtime": ("-X", "importtime"),
    "trace": ("-m", "trace", "--trace"),
    "profile": ("-m", "cProfile"),
}.items():
    healthy(
        f"python-{key}",
        f"python {' '.join(words)}",
        snippet(
            "import json\nprint(json.dumps({}))" if key != "verbose-ssl" else "import ssl", (),
            words,
        ),
    )

TESTS = """\
import pytest
def test_good():
    assert 1 + 1 == 2
@pytest.mark.parametrize("n", range(4))
def test_each(n):
    assert n < {limit}
@pytest.mark.skipif(True, reason="needs a GPU")
def test_gpu():
    pass
@pytest.fixture
def broken():
    raise OSError("no data set")
def test_error({fixture}):
    assert [1, 2, 3] == [1, 2, {last}]
"""


def pytest_run(limit, fixture, last, *words):
    def make(scene):
        scene.file("test_it.py", TESTS.format(limit=limit, fixture=fixture, last=last))
        scene.run("python", "-m", "pytest", *words, env=scene.env("pytest"), prompt=True)

    return make


for key, options in {
    "passes": (4, "", 3),
    "passes-verbose": (4, "", 3, "-v"),
    "fails": (2, "", 4),
    "fails-verbose": (2, "", 4, "-vv"),
    "fixture": (4, "broken", 3),
    "fails-short": (3, "", 5, "--tb=short", "-q"),
    "fails-first": (1, "", 3, "-x", "-l"),
    "durations": (4, "", 3, "--durations=5"),
    "no-test": (4, "", 3, "-k", "nothing"),
    "no-file": (4, "", 3, "absent.py"),
}.items():
    healthy(f"pytest-{key}", f"pytest: {key}", pytest_run(*options))


def shell(*steps):
    def make(scene):
        scene.file("a.txt", "one\ntwo\n")
        for step in steps:
            scene.write(f"$ {step}\n")
            scene.shell(
                step,
                variables={
                    "HOME": str(scene.work),
                    "GIT_CEILING_DIRECTORIES": str(scene.work.parent),
                    "GIT_AUTHOR_NAME": "A",
                    "GIT_AUTHOR_EMAIL": "a@b.example",
                    "GIT_COMMITTER_NAME": "A",
                    "GIT_COMMITTER_EMAIL": "a@b.example",
                },
            )

    return make


INIT = "git init -q r && cd r && echo a > f && git add f && git commit -qm 'First' && "
for key, steps in {
    "git-log": [INIT + "echo b >> f && git commit -am 'Second' && git log -p --stat"],
    "git-conflict": [
        INIT
        + "git checkout -qb x && echo x > f && git commit -qam x && git checkout -q "
        "- && echo y > f && git commit -qam y && git merge x; git status; git diff"
    ],
    "git-no-repository": ["git status", "git clone ./nowhere"],
    "git-clone": [INIT + "cd .. && git clone --progress r copy"],
    "git-push-rejected": [INIT + "cd .. && git clone -q r c && cd c && git push"],
    "git-refused": ["git clone http://127.0.0.1:1/repository.git"],
    "git-help": ["git help -a | head -60"],
    "git-fsck": [INIT + "git fsck --full && git gc && git count-objects -v"],
    "git-bad-revision": [INIT + "git checkout nothing; git show abc123"],
    "apt-simulate": ["apt-get install -s --no-install-recommends sl"],
    "apt-no-package": ["apt-get install -s no-such-package-here"],
    "apt-policy": ["apt-cache policy gcc python3 | grep -v http"],
    "apt-history": ["tail -c 3000 /var/log/apt/history.log"],
    "apt-term": ["tail -c 3000 /var/log/apt/term.log"],
    "dpkg-log": ["tail -60 /var/log/dpkg.log"],
    "dpkg-list": ["dpkg -l | head -60"],
    "dpkg-status": ["dpkg -s python3", "dpkg -L base-files | head -40"],
    "dpkg-missing": ["dpkg -i nothing.deb", "dpkg -s nothing"],
    "dpkg-build": [
        "mkdir -p p/DEBIAN && printf 'Package: p\\nVersion: 1\\nArchitecture: all\\n"
        "Maintainer: a\\nDescription: d\\n' > p/DEBIAN/control && dpkg-deb -b p"
    ],
    "system-boot": ["dmesg | grep -v -i -E 'oom|kill|memory cgroup' | head -120"],
    "system-cpu": ["lscpu", "free -h", "uname -a"],
    "system-memory": ["cat /proc/meminfo", "cat /proc/self/status"],
    "system-disk": ["df -h", "lsblk", "du -sh ."],
    "system-process": ["ps aux | head -5 | cut -c1-60", "uptime", "ulimit -a"],
    "system-network": ["ip addr show lo", "ss -ltn | head -3", "ping -c 1 127.0.0.1"],
    "system-os": ["cat /etc/os-release", "ldd --version", "getconf -a | head -40"],
    "system-systemd": ["systemctl --version", "systemctl status"],
    "system-modules": ["lsmod | head", "cat /proc/version", "cat /proc/cpuinfo | head -40"],
    "curl-refused": ["curl -v http://127.0.0.1:1/health"],
    "curl-no-host": ["curl -sS http://service.invalid/health"],
    "wget-refused": ["wget -O out http://127.0.0.1:1/data.tar"],
    "ssh-refused": ["ssh -o BatchMode=yes -p 1 127.0.0.1 true"],
    "openssl": [
        "openssl version -a",
        "openssl req -x509 -newkey rsa:1024 -nodes -subj /CN=x -keyout k -out c",
        "openssl x509 -in c -text -noout",
        "openssl verify c",
    ],
    "tar-broken": ["tar xf a.txt", "gzip -d < a.txt", "unzip -t a.txt"],
    "tar": ["tar cvzf a.tgz a.txt && tar tvf a.tgz", "sha256sum a.txt a.tgz"],
    "sqlite-shell": [
        "sqlite3 x.db 'create table t(a); insert into t values(1); select * from u'"
    ],
    "sort": ["sort -n a.txt | uniq -c | awk '{print $2}' | sed s/o/0/", "grep -c three a.txt"],
    "find": ["find /etc -maxdepth 1 | head -40", "ls -la /nonexistent"],
    "env": ["locale", "env -i bash -c env", "alias"],
    "nvcc-version": ["/usr/local/cuda/bin/nvcc --version", "gcc --version", "cmake --version"],
    "gcc-config": ["gcc -dumpmachine", "gcc -print-search-dirs", "ldconfig -p | head -40"],
    "disk-quota-text": ["head -c 2000 /usr/share/common-licenses/GPL-3"],
}.items():
    healthy(key, "; ".join(steps), shell(*steps))

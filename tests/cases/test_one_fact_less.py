"""A fact that is not stated never leads from a wheel that exists to one whose address was only
derived: if one value of the fact gives the former, so does no value."""
import json
import os
import random
import subprocess

import pytest

PROGRAM = os.environ.get("ANYFLASH", "anyflash")
SEED = 20261129
MACHINES = 60
VALUES = {
    "glibc": ["2.28", "2.31", "2.35", "2.39"],
    "driver": ["525.60.13", "550.54.14", "580.65.06"],
    "gpu": ["RTX 3090", "RTX 4090", "H100", "RTX 5090"],
}
TORCH = ["2.4.1+cu124", "2.5.1+cu124", "2.6.0+cu126", "2.7.1+cu128", "2.8.0+cu129",
         "2.9.1+cu130", "2.10.0+cu130", "2.11.0+cu130"]


def machine(chance):
    """Facts of a machine as words for --given, by name."""
    arch = chance.choice(["x86_64", "aarch64"])
    gpu = VALUES["gpu"] if arch == "x86_64" else ["GH200", "GB200"]
    return {"os": "linux", "arch": arch, "python": f"3.{chance.randint(9, 14)}",
            "torch": chance.choice(TORCH), "gpu": chance.choice(gpu),
            "glibc": chance.choice(VALUES["glibc"]),
            "driver": chance.choice(VALUES["driver"])}


def chosen(facts):
    """Whether the wheel of plan exists: True, False; None: it has no wheel."""
    given = [word for name, value in facts.items() for word in ("--given", f"{name}={value}")]
    done = subprocess.run([PROGRAM, "plan", "--prefer", "wheel", "--json", *given],
                          capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    wheel = json.loads(done.stdout)["wheel"]
    return None if wheel is None else wheel["official"] or wheel["seen"]


@pytest.mark.parametrize("fact", sorted(VALUES))
def test_a_fact_less_never_turns_a_seen_wheel_into_a_derived_one(fact):
    chance = random.Random(f"{SEED} {fact}")
    for _ in range(MACHINES):
        facts = machine(chance)
        less = {name: value for name, value in facts.items() if name != fact}
        if chosen(less) is False:
            values = [facts[fact], *VALUES[fact]]
            seen = [value for value in values if chosen({**less, fact: value})]
            assert not seen, f"seed {SEED}: {less}, {fact}={seen[:1]} gives a wheel that exists"


def test_a_glibc_that_decides_is_asked_for():
    words = ["--given", "os=linux", "--given", "arch=x86_64", "--given", "python=3.11",
             "--given", "gpu=A100", "--given", "torch=2.7.1+cu126"]
    shown = subprocess.run([PROGRAM, "plan", *words], capture_output=True, text=True).stdout
    assert "glibc, which is unknown, decides" in " ".join(shown.split())
    assert "ldd --version" in shown


def test_the_glibc_of_a_dgx_spark_is_assumed():
    words = ["--given", "gpu=GB10", "--given", "python=3.12", "--given", "torch=2.9.1+cu130"]
    shown = subprocess.run([PROGRAM, "plan", *words], capture_output=True, text=True).stdout
    assert shown.startswith("A wheel fits: flash_attn 2.8.3 (official)")
    assert "glibc=2.39" in shown

"""Run by the interpreter under test: prints what Python itself reports, as JSON.

Without torch its facts are left out, without packaging the wheel tags.
"""
import json
import os
import platform
import subprocess
import sys
import sysconfig


def soname(path):
    """The SONAME of a library, read by readelf."""
    answer = subprocess.run(["readelf", "-dW", path], stdout=subprocess.PIPE, check=True)
    for line in answer.stdout.decode().splitlines():
        if "(SONAME)" in line:
            return line.split("[", 1)[1].rstrip("]")
    return None


def loaded(start):
    """Real paths of mapped files whose name begins with `start`."""
    with open("/proc/self/maps") as lines:
        fields = [line.split(None, 5) for line in lines]
    paths = {field[5].strip() for field in fields if len(field) == 6}
    return sorted(path for path in paths if os.path.basename(path).startswith(start))


def package_folders():
    """sys.path without this script's folder, the standard library and what does not exist."""
    stdlib = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    stdlib |= {os.path.join(path, "lib-dynload") for path in stdlib}
    return [path for path in sys.path[1:] if os.path.isdir(path) and path not in stdlib]


def interpreter_facts():
    return {
        "python.version": platform.python_version(),
        "python.abi_flags": sys.abiflags,
        "python.soabi": sysconfig.get_config_var("SOABI"),
        "python.ext_suffix": sysconfig.get_config_var("EXT_SUFFIX"),
        "python.site_packages": package_folders(),
        "python.base_executable": os.path.realpath(sys.executable),
    }


def tag_facts():
    from packaging import tags
    return {"python.platform_tags": list(tags.platform_tags()),
            "libc": list(platform.libc_ver()),
            "tags": [str(tag) for tag in tags.sys_tags()]}


def needing_torch():
    """Installed distributions that require torch outside of extras."""
    import importlib.metadata

    from packaging.requirements import Requirement
    found = set()
    for distribution in importlib.metadata.distributions():
        for text in distribution.requires or []:
            requirement = Requirement(text)
            if requirement.name == "torch" and "extra" not in str(requirement.marker or ""):
                found.add(distribution.metadata["Name"].lower().replace("_", "-"))
    return sorted(found)


def torch_facts():
    import torch
    folder = os.path.dirname(torch.__file__)
    cudart = loaded("libcudart.so")
    return {
        "torch.version": torch.__version__,
        "torch.cuda": torch.version.cuda,
        "torch.hip": torch.version.hip,
        "torch.git": torch.version.git_version,
        "torch.path": folder,
        "torch.cxx11abi": torch._C._GLIBCXX_USE_CXX11_ABI,
        "torch.gpu_targets": (torch._C._cuda_getArchFlags() or "").split() or None,
        "torch.c10_soname": soname(os.path.join(folder, "lib", "libc10.so")),
        "torch.cudart_path": cudart[0] if cudart else None,
        "torch.cudart_soname": soname(cudart[0]) if cudart else None,
        "needing_torch": needing_torch(),
    }


facts = interpreter_facts()
if "--torch" in sys.argv:
    facts.update(tag_facts())
    facts.update(torch_facts())
print(json.dumps(facts))

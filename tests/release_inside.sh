#!/bin/sh
# Run by release.sh as root of a new Debian system, with the files of dist/ in /opt/dist: installs
# the wheel and unpacks the static program; both must answer. The engine computes attention for
# NumPy and for torch: that of /opt/torch, or else Debian's own. The last line is the summary.
set -eux
cd /opt
arch=$(uname -m)
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    python3-venv python3-numpy $([ -d torch ] || echo python3-torch) >/dev/null
python3 -m venv --system-site-packages env
. env/bin/activate
pip install --no-index dist/anyflash-*_"$arch".whl
inspected=dist/${1:-$(basename dist/anyflash-*_"$arch".whl)}

# try PROGRAM: doctor may say no (1); plan and inspect, too.
try() {
    "$1" --version
    for command in doctor plan "inspect $inspected" machine; do
        status=0
        # shellcheck disable=SC2086
        "$1" $command >answer || status=$?
        cat answer
        test $status -le 1
        test -s answer
    done
    grep -q "\"$arch\"" answer && grep -q "manylinux_2_28_$arch" answer
}
try anyflash
test -s env/share/man/man1/anyflash.1
bash -n env/share/bash-completion/completions/anyflash
python3 - <<'END'
import anyflash
import numpy as np

q, k, v = np.random.default_rng(1).standard_normal((3, 1, 40, 4, 64), dtype=np.float32)
scores = np.einsum("bqhd,bkhd->bhqk", q, k) / 8
weights = np.exp(scores - scores.max(-1, keepdims=True))
expected = np.einsum("bhqk,bkhd->bqhd", weights / weights.sum(-1, keepdims=True), v)
assert np.abs(anyflash.attend(q, k, v) - expected).max() < 1e-5
END
torch=$(PYTHONPATH=/opt/torch python3 release_torch.py)
deactivate
tar xzf dist/anyflash-*-linux-"$arch".tar.gz
try anyflash-*-linux-"$arch"/bin/anyflash
set +x
echo "$arch, glibc $(ldd --version | sed -n '1s/.* //p'), $(python3 --version), $torch: all answered"

#!/usr/bin/env bash
# What a node installs: the mounted checkout and the pinned versions of what it depends on, in ~/ablate/.venv.
# ABLATE_CPU_INDEX and ABLATE_CUDA_INDEX, if not empty, are addresses of package indexes with other builds of torch, for
# nodes without and with an NVIDIA GPU. Such a build (2.13.0+cpu) wins over the default index's 2.13.0, and both satisfy
# the pin: a version's local part does not count in `==`.
set -euo pipefail
cd ~/ablate
index=${ABLATE_CPU_INDEX:-}
nvidia-smi --list-gpus >/dev/null 2>&1 && index=${ABLATE_CUDA_INDEX:-}
# again only when what is installed from has changed
stamp="$(cat constraints.txt pyproject.toml configs/cluster/install.sh | sha256sum) $index"
[ "$(cat .venv/installed-from 2>/dev/null)" = "$stamp" ] && exit 0
python3 -c 'import sys; v = sys.version_info
sys.exit(f"Python 3.11 or newer is needed, python3 is {v.major}.{v.minor}" if v < (3, 11) else 0)'
python3 -m venv .venv
install() { .venv/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt "$@"; }
install ${index:+--extra-index-url "$index"} torch==2.13.0
install --editable '.[video,cluster]'
echo "$stamp" >.venv/installed-from

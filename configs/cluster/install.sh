#!/usr/bin/env bash
# What a node installs: the mounted checkout, its pinned dependencies, and the packages named, into ~/ablate/.venv.
# ABLATE_TORCH_INDEX, if not empty, is the address of a package index with CPU builds of torch: 2.13.0+cpu then wins over
# the default index's CUDA build, and both satisfy the pin, since a version's local part does not count in `==`.
set -euo pipefail
cd ~/ablate
# run again only when what is installed from has changed
stamp=$(cat constraints.txt pyproject.toml configs/cluster/install.sh | sha256sum)${ABLATE_TORCH_INDEX:-default}$*
[ "$(cat .venv/installed-from 2>/dev/null)" = "$stamp" ] && exit 0
python3 -c 'import sys; v = sys.version_info; sys.exit(f"Python 3.11 or newer is needed, this is {v.major}.{v.minor}" if v < (3, 11) else 0)'
python3 -m venv .venv
pip="$HOME/ablate/.venv/bin/pip install --quiet --disable-pip-version-check --constraint constraints.txt"
$pip ${ABLATE_TORCH_INDEX:+--extra-index-url "$ABLATE_TORCH_INDEX"} torch==2.13.0
$pip --editable '.[video,cluster]' "$@"
echo "$stamp" >.venv/installed-from

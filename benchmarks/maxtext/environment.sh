#!/bin/sh
# Makes a virtual environment in which `python benchmarks/maxtext/run.py` runs: MaxText, JAX, libtpu and this package.
#
#     sh benchmarks/maxtext/environment.sh FOLDER [PYTHON]
#
# PYTHON is one of version 3.12 (python3.12 by default), which MaxText needs. It takes some 4 GB.
set -eu
folder=${1:?"usage: environment.sh FOLDER [PYTHON]"}
root=$(cd "$(dirname "$0")/../.." && pwd)
"${2:-python3.12}" -m venv "$folder"
"$folder/bin/pip" install --quiet 'maxtext[tpu]==0.2.5' "$root"

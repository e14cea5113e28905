# Helpers of the scripts beside this file; sourced, never run.
#
# Everything downloaded or built for the demo and the tests lies under PION_CACHE, in folders named by
# a key of what they were made from: a changed pin or flag makes a new folder, an unchanged one is reused.
# $PION_CACHE/env.sh names the paths for everybody else.

set -euo pipefail

PION_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
PION_CACHE="${PION_CACHE:-$HOME/.cache/pion}"
PION_ENV_FILE="$PION_CACHE/env.sh"
PION_JOBS="${PION_JOBS:-$(nproc)}"
mkdir -p "$PION_CACHE/downloads" "$PION_CACHE/log"

say() { printf '\033[1m==> %s\033[0m\n' "$*" >&2; }
die() { printf 'error: %s\n' "$*" >&2; exit 1; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else die "needs root or sudo: $*"; fi
}

# key WORD...: twelve hex digits that change when any word changes.
key() { printf '%s\0' "$@" | sha256sum | cut -c1-12; }

# set_env NAME VALUE: NAME=VALUE in env.sh, for this shell and everybody who sources it later.
set_env() {
  export "$1=$2"
  ( flock 9
    { grep -v "^export $1=" "$PION_ENV_FILE" 2>/dev/null || true; printf 'export %s=%q\n' "$1" "$2"; } >"$PION_ENV_FILE.new"
    mv "$PION_ENV_FILE.new" "$PION_ENV_FILE"
  ) 9>"$PION_CACHE/env.lock"
}

# run_logged NAME COMMAND...: the output goes to a log and is shown only when the command fails.
run_logged() {
  local log="$PION_CACHE/log/$1.log" start=$SECONDS
  shift
  if ! "$@" >"$log" 2>&1; then
    tail -n 60 "$log" >&2
    die "failed: $* (whole log: $log)"
  fi
  say "  done in $((SECONDS - start)) s"
}

# check_sha256 FILE HEX: ends the script when the file is another one.
check_sha256() {
  [ "$(sha256sum "$1" | cut -d' ' -f1)" = "$2" ] || die "$1: not the pinned file (sha256 is not $2)"
}

# fetch_wheels REQUIREMENTS: the hash-checked archives of that list in $PION_CACHE/downloads.
fetch_wheels() {
  pip_quiet download --no-deps --require-hashes --only-binary :all: -d "$PION_CACHE/downloads" -r "$1"
}

pip_quiet() { "${PION_PYTHON:-/usr/bin/python3}" -m pip --disable-pip-version-check -q "$@"; }

# make_venv LIST: sets `venv` to a Python environment with exactly the hash-checked packages of scripts/LIST.txt.
make_venv() {
  local python=/usr/bin/python3 requirements="$PION_ROOT/scripts/$1.txt" # Debian's: the pinned wheels are for its version
  venv="$PION_CACHE/venv/$(key "$("$python" --version)" "$(sha256sum <"$requirements")")"
  [ ! -e "$venv/complete" ] || return 0
  say "Python environment of $1 ($venv)"
  rm -rf "$venv"
  "$python" -m venv "$venv"
  run_logged pip-install "$venv/bin/python" -m pip --disable-pip-version-check install --no-deps --require-hashes \
    --only-binary :all: -r "$requirements"
  touch "$venv/complete"
}

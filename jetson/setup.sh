#!/usr/bin/env bash
# Sets up edgedla on a Jetson with JetPack 5, 6 or 7. Idempotent: running it again changes nothing that is right already.
#
#   jetson/setup.sh [--venv DIR] [--source DIR] [--wheel FILE [--wheels DIR]] [--no-packages] [--service] [--dry-run]
#
# --venv DIR     virtual environment (default: ~/edgedla). It sees JetPack's TensorRT and OpenCV (--system-site-packages).
# --service      for pipelines as services: environment in /opt/edgedla, user edgedla, folder /etc/edgedla, systemd unit.
# --source DIR   install from this checkout (default: the one this script stands in).
# --wheel FILE   install this wheel of edgedla instead; --wheels DIR: with no network, what it needs is in this folder.
# --no-packages  leave system packages and groups as they are (no sudo).
# --dry-run      print what would be done.
#
# EDGEDLA_ROOT=/path reads another tree than / for the board's files (used by the tests).
set -euo pipefail

venv=""
service=0
wheel=""
wheels=""
packages_too=1
source_dir="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
dry=0
while (($#)); do
  case "$1" in
    --venv) venv="${2:?--venv needs a folder}"; shift 2 ;;
    --source) source_dir="${2:?--source needs a folder}"; shift 2 ;;
    --service) service=1; shift ;;
    --wheel) wheel="$(realpath "${2:?--wheel needs a file}")"; shift 2 ;;
    --wheels) wheels="$(realpath "${2:?--wheels needs a folder}")"; shift 2 ;;
    --no-packages) packages_too=0; shift ;;
    --dry-run) dry=1; shift ;;
    -h | --help) sed -n '2,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "setup.sh: unknown option $1" >&2; exit 2 ;;
  esac
done
root="${EDGEDLA_ROOT:-}"
# Ends with the reason and, on a line of its own, with what to do.
refuse() { printf 'setup.sh: %s\n' "$2" >&2; if [ -n "${3:-}" ]; then printf '  %s\n' "$3" >&2; fi; exit "$1"; }
say() { printf '%s\n' "$*"; }

if [ -n "$venv" ]; then
  venv="$(realpath -m -- "$venv")"
elif ((service)); then
  venv=/opt/edgedla
else
  venv="$HOME/edgedla"
  if [ "$(id -u)" = 0 ] && [ -n "${SUDO_USER:-}" ]; then
    say "warning: by sudo the environment becomes root's, $venv: without sudo it is $SUDO_USER's, and root is asked for where it is needed"
  fi
fi
if ((service)); then
  if [[ "$venv" =~ ^/(home|root|run/user)(/|$) ]]; then
    refuse 2 "a service cannot see $venv: its unit hides home folders" "--venv names another place; /opt/edgedla is the default"
  fi
  [[ "$venv" =~ ^[A-Za-z0-9/._+-]+$ ]] || refuse 2 "systemd reads signs of $venv in its own way" "--venv names another place, of letters, digits and /._+-"
fi

run() { if ((dry)); then printf 'would run: %s\n' "$*"; else "$@"; fi; }
# An environment for services belongs to root: a pipeline that is broken into cannot change it.
in_venv() { if ((service)); then as_root env PATH="$PATH" "$@"; else run "$@"; fi; }
as_root() {
  if [ "$(id -u)" = 0 ]; then
    run "$@"
  elif ((dry)) || sudo -n true 2> /dev/null || { : > /dev/tty; } 2> /dev/null; then
    run sudo "$@"
  else
    refuse 4 "root is needed for: $*" "sudo asks for a password, and there is no terminal to type it: run setup.sh in one on the board (ssh -t), let sudo ask for none, or give --no-packages"
  fi
}

release_file="$root/etc/nv_tegra_release"
[ -r "$release_file" ] || refuse 4 "this is not a Jetson: no $release_file"
l4t_major="$(sed -n 's/^# R\([0-9]*\) .*/\1/p' "$release_file")"
case "$l4t_major" in
  35) jetpack=5; python=python3.8 ;;
  36) jetpack=6; python=python3.10 ;;
  38 | 39) jetpack=7; python=python3.12 ;;
  *) refuse 4 "L4T R${l4t_major:-unknown} is not JetPack 5, 6 or 7" ;;
esac
say "JetPack $jetpack (L4T R$l4t_major), $python"

installed() { dpkg-query -W -f='${Status}' "$1" 2> /dev/null | grep -q 'install ok installed'; }
version_of() { dpkg-query -W -f='${Version}' "$1" 2> /dev/null || true; }
# The version that apt would install; nothing where no source has the package.
candidate() { apt-cache policy "$1" 2> /dev/null | sed -n 's/^  Candidate: //p' | grep -vx '(none)' || true; }

# GStreamer's tools (-bad has the parsers of H.264 and H.265) and what a virtual environment needs: python3-venv too, for
# it brings distutils, without which the pip of a new environment does not start (Ubuntu 20.04).
packages=(gstreamer1.0-tools gstreamer1.0-plugins-base gstreamer1.0-plugins-good gstreamer1.0-plugins-bad v4l-utils
  python3-venv "$python-venv")
missing=()
absent=()
for package in "${packages[@]}"; do
  installed "$package" || missing+=("$package")
done
# Ubuntu's OpenCV would replace JetPack's, which has GStreamer and CUDA: only where there is none at all.
if ! "$python" -c 'import cv2' 2> /dev/null; then
  installed python3-opencv || missing+=(python3-opencv)
fi

# What TensorRT and cuDLA need from NVIDIA, where a package source has it: TensorRT's Python module and trtexec; the DLA's
# compiler, without which JetPack 6's TensorRT does not even load; cuDLA; and for pycuda nvcc, cuda.h and curand.
case "$jetpack" in
  5) cudas=(11-4) ;;
  6) cudas=(12-6 12-2) ;;
  *)
    # The newest that apt offers: JetPack 7's CUDA moves with its patches.
    mapfile -t cudas < <(apt-cache search --names-only '^libcudla-13-' 2> /dev/null | sed -n 's/^libcudla-\(13-[0-9]*\) .*/\1/p' | sort -rV)
    cudas+=(13-2 13-0)
    ;;
esac
for dir in "$root"/usr/local/cuda-[0-9]*; do
  if [ -d "$dir" ]; then
    there="${dir##*/cuda-}"
    cudas=("${there//./-}" "${cudas[@]}")
  fi
done
cuda=""
for one in "${cudas[@]}"; do
  if [ -z "$cuda" ] && { installed "cuda-cudart-$one" || [ -n "$(candidate "cuda-cudart-$one")" ]; }; then cuda="$one"; fi
done
nvidia=(python3-libnvinfer libnvinfer-bin)
# JetPack 7's sources have no package of the DLA's compiler.
if ((jetpack < 7)); then nvidia+=(nvidia-l4t-dla-compiler); fi
if [ -n "$cuda" ]; then
  nvidia+=("libcudla-$cuda" "cuda-nvcc-$cuda" "cuda-cudart-dev-$cuda" "libcurand-dev-$cuda" "$python-dev" build-essential)
fi
core="$(version_of nvidia-l4t-core)"
for package in "${nvidia[@]}"; do
  if installed "$package"; then continue; fi
  if [ -z "$(candidate "$package")" ]; then
    absent+=("$package")
  elif [ "$package" = nvidia-l4t-dla-compiler ] && [ -n "$core" ] && apt-cache madison "$package" | grep -qF " $core "; then
    # The compiler's release must be that of the board's drivers.
    missing+=("$package=$core")
  else
    missing+=("$package")
  fi
done
if ((${#absent[@]})); then
  say "no package source has: ${absent[*]}"
fi
if ! installed python3-libnvinfer && [ -z "$(candidate python3-libnvinfer)" ]; then
  say "warning: TensorRT's Python module is not to be had: is NVIDIA's source in /etc/apt/sources.list.d/nvidia-l4t-apt-source.list?"
fi
if ((!packages_too)); then
  if ((${#missing[@]})); then say "system packages left out, which edgedla needs: ${missing[*]}"; fi
elif ((${#missing[@]})); then
  say "installing: ${missing[*]}"
  # A source that does not answer stops nothing: the packages may come from others.
  as_root apt-get update -qq || say "warning: not every package source answered"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" \
    || refuse 4 "these packages could not be installed: ${missing[*]}" "is the network there? Without one, install their .deb files by hand; --no-packages goes on without them"
else
  say "system packages: all there"
fi

# The DLA and the camera belong to these groups; without them only root can open them.
join_groups() {
  local group
  for group in video render; do
    if getent group "$group" > /dev/null && ! id -nG "$1" 2> /dev/null | tr ' ' '\n' | grep -qx "$group"; then
      as_root usermod -aG "$group" "$1"
      say "$1 joins the group $group: log out and in again"
    fi
  done
}
if ((packages_too)); then join_groups "${SUDO_USER:-$(id -un)}"; fi

# One that was broken off half-way has a Python and no pip.
if ! "$venv/bin/python" -m pip --version > /dev/null 2>&1; then
  say "virtual environment: $venv"
  in_venv "$python" -m venv --system-site-packages "$venv"
else
  say "virtual environment: $venv is there"
fi

# A wheel of OpenCV would hide JetPack's, which has GStreamer and is built with NumPy 1: it cannot be imported beside NumPy 2.
export PATH="/usr/local/cuda/bin:$PATH"
# The pip of Ubuntu 20.04 knows no manylinux_2_24 tags; 25.0.1 is the last for Python 3.8.
from=()
no_pip() { refuse 4 "pip could not install $1" "is the network there? Without one: \`edgedla board setup NAME --offline\` from a laptop, or --wheel FILE --wheels DIR"; }
if [ -n "$wheels" ]; then from=(--no-index --find-links "$wheels"); fi
in_venv "$venv/bin/python" -m pip install --quiet "${from[@]}" --upgrade pip || no_pip "a newer pip"
# The same version may hold other code while it is developed, so a wheel's code is always put in.
if [ -n "$wheel" ]; then
  in_venv "$venv/bin/python" -m pip install --quiet --force-reinstall --no-deps "${from[@]}" "$wheel" || no_pip "$wheel"
fi
in_venv "$venv/bin/python" -m pip install --quiet "${from[@]}" "${wheel:-$source_dir}" prometheus-client 'numpy<2' || no_pip "edgedla and what it needs"
# pycuda has no wheel for these boards. It is only needed for the CUDA preprocessing, so a missing compiler stops nothing.
toolkit="$root/usr/local/cuda"
lacking=""
for file in bin/nvcc include/cuda.h include/curand.h; do
  # CUDA 11 to 13 keep the headers below targets/ and link them here.
  [ -e "$toolkit/$file" ] || lacking="$lacking $file"
done
if "$venv/bin/python" -c 'import pycuda' 2> /dev/null; then
  say "pycuda: it is there"
elif [ -n "$wheels" ]; then
  say "pycuda is left out: it is built with nvcc and needs the network; frames are preprocessed on the CPU, everything else works"
elif [ -n "$lacking" ] && ! { ((dry)) && [[ " ${missing[*]-} " == *" cuda-nvcc-"* ]]; }; then
  say "pycuda is left out: $toolkit has no$lacking; frames are preprocessed on the CPU, everything else works"
else
  # A name that nobody else can have taken: a file of another user's there would stop the build.
  log="$(mktemp -t edgedla-pycuda.XXXXXXXX)"
  if in_venv "$venv/bin/python" -m pip install --quiet pycuda 'numpy<2' 2> "$log"; then
    rm -f "$log"
  else
    say "pycuda could not be built ($log): frames are preprocessed on the CPU, everything else works"
  fi
fi
if ! ((dry)) && "$venv/bin/python" -m pip list 2> /dev/null | grep -qi '^opencv-python'; then
  say "warning: this environment holds an OpenCV wheel, which hides JetPack's: pip uninstall opencv-python opencv-python-headless"
fi

if ((service)); then
  getent passwd edgedla > /dev/null || as_root useradd --system --no-create-home --shell /usr/sbin/nologin edgedla
  join_groups edgedla
  as_root install -d -m 755 /etc/edgedla
  unit="edgedla-pipeline@.service"
  wanted="$(sed "s#/opt/edgedla/#$venv/#g" "$source_dir/jetson/$unit")"
  if [ "$wanted" != "$(cat "$root/etc/systemd/system/$unit" 2> /dev/null)" ]; then
    if ((dry)); then
      say "would write: /etc/systemd/system/$unit"
    else
      printf '%s\n' "$wanted" | as_root tee "/etc/systemd/system/$unit" > /dev/null
    fi
    as_root systemctl daemon-reload
  else
    say "systemd unit: it is there"
  fi
  say "a pipeline file: sudo install --owner=edgedla --mode=600 front.yaml /etc/edgedla/ && sudo systemctl enable --now edgedla-pipeline@front"
  say "  with its artifacts where the user edgedla can read them, not below /home, and outputs below /var/lib/edgedla"
else
  say "on PATH it is by: source $venv/bin/activate"
fi

say "looking at the board:"
run "$venv/bin/edgedla" doctor || say "edgedla doctor found something to mend (see above)"

#!/usr/bin/env bash
# Bare Ubuntu root file systems for test_bare_ubuntu.py, by debootstrap (about 400 MB each). Needs root.
#   tests/jetson/make_ubuntu_roots.sh FOLDER [SUITE...]      suites: focal jammy noble (JetPack 5, 6, 7)
set -euo pipefail
folder="${1:?usage: make_ubuntu_roots.sh FOLDER [SUITE...]}"
shift
for suite in "${@:-focal jammy noble}"; do
  for one in $suite; do
    [ -x "$folder/$one/usr/bin/apt-get" ] && continue
    # Debian's debootstrap may know neither the suite nor Ubuntu's keys: all Ubuntus share one script.
    debootstrap --no-check-gpg --variant=minbase --components=main,universe "$one" "$folder/$one" \
      http://archive.ubuntu.com/ubuntu /usr/share/debootstrap/scripts/gutsy
    printf 'deb http://archive.ubuntu.com/ubuntu %s main universe\n' "$one" > "$folder/$one/etc/apt/sources.list"
  done
done

#!/usr/bin/env bash
# Runs `edgedla check` from the variables that action.yml sets; writes SARIF and Markdown, the job's summary and outputs.
# Exit code: that of the check.
set -uo pipefail
folder=${RUNNER_TEMP:-$(mktemp -d)}
# Words separated by spaces, not expanded as patterns: edgedla expands those itself.
set -f
# shellcheck disable=SC2206
command=(check $MODELS --target "$TARGET" -o "$folder/edgedla.sarif" -o "$folder/edgedla.md")
[ -z "${JETPACK:-}" ] || command+=(--jetpack "$JETPACK")
[ -z "${PRECISION:-}" ] || command+=(--precision "$PRECISION")
[ -z "${BASELINE:-}" ] || command+=(--baseline "$BASELINE")
# shellcheck disable=SC2206
[ -z "${ARGUMENTS:-}" ] || command+=($ARGUMENTS)
# Names come from the pull request's files: while they are printed the runner takes no line as a command (`::error::`).
token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
[ -z "${GITHUB_ACTIONS:-}" ] || echo "::stop-commands::$token"
edgedla "${command[@]}" 2> >(tee "$folder/edgedla.log" >&2)
code=$?
wait
[ -z "${GITHUB_ACTIONS:-}" ] || echo "::$token::"
{
  if grep -q '^edgedla: \(worse\|better\|new\)' "$folder/edgedla.log" 2> /dev/null; then
    echo "### Against the baseline"
    # Names are literal text in Markdown too.
    sed -n 's/^edgedla: \(\(worse\|better\|new\): .*\)/\1/p' "$folder/edgedla.log" | sed 's/[][\\`*_<>|!]/\\&/g; s/^/- /'
    echo
  fi
  # What got worse stands above already.
  [ ! -f "$folder/edgedla.md" ] || sed '/^✕ Worse than the baseline: /d' "$folder/edgedla.md"
} >> "${GITHUB_STEP_SUMMARY:-/dev/null}"
for form in sarif md; do
  [ ! -f "$folder/edgedla.$form" ] || echo "${form/md/markdown}=$folder/edgedla.$form" >> "${GITHUB_OUTPUT:-/dev/null}"
done
exit "$code"

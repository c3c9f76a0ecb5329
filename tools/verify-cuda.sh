#!/usr/bin/env bash
# Runs verify for five presets under three plans each: on CUDA device 0, or with DEVICE=meta as a dry run anywhere.
#   TORCH_PYTHON=venv/bin/python tools/verify-cuda.sh [RESULTS.jsonl]
# The results are appended to the file, one JSON document a line. CKPTPLAN names the binary (default: built here).
# Exit status 1 if any prediction is off, or a run was not possible.
set -uo pipefail
cd "$(dirname "$0")/.."
device=${DEVICE:-0}
python=${TORCH_PYTHON:-python3}
results=${1:-verify-$device.jsonl}
ckptplan=${CKPTPLAN:-}
if [ -z "$ckptplan" ]; then
	CGO_ENABLED=0 go build -o bin/ckptplan ./cmd/ckptplan || exit 1
	ckptplan=bin/ckptplan
fi
failed=0
while read -r preset settings; do
	for plan in none full selective-attn; do
		# shellcheck disable=SC2086 # settings are words
		text=$("$ckptplan" verify "$preset" $settings --strategy "$plan" --device "$device" --engine torch --python "$python" --timeout 10m --save "$results" 2>&1)
		code=$?
		printf '%-14s %-14s exit %d  %s\n' "$preset" "$plan" "$code" "${text%%$'\n'*}"
		[ "$code" = 0 ] || failed=1
	done
done <<'PRESETS'
gpt2 --batch 8 --seq 1024
llama-3.2-1b --batch 2 --seq 2048
qwen3-0.6b --batch 4 --seq 1024 --precision amp-bf16
bert-base --batch 16 --seq 512
opt-1.3b --batch 2 --seq 1024 --precision bf16
PRESETS
exit $failed

#!/usr/bin/env bash
# Compares predictions with a CUDA device: five presets under three plans each, in sizes that fit a 24 GB card.
#   tools/verify-cuda.sh [DEVICE] [RESULTS]     DEVICE: 0 (default), another CUDA device, or meta for a dry run without a GPU
# Needs the ckptplan binary ($CKPTPLAN, else it is built) and a Python with PyTorch and transformers ($CKPTPLAN_PYTHON, else python3).
# Every run is appended to RESULTS (default verify-DEVICE.jsonl). It goes on after a difference and ends with status 1 if there was one.
set -uo pipefail
device=${1:-0}
results=${2:-verify-$device.jsonl}
here=$(cd "$(dirname "$0")/.." && pwd)
bin=${CKPTPLAN:-}
if [ -z "$bin" ]; then
  bin=$(mktemp -d)/ckptplan
  (cd "$here" && go build -o "$bin" ./cmd/ckptplan) || exit 1
fi
runs="
gpt2            --batch 4 --seq 1024
llama-3.2-1b    --batch 1 --seq 1024
qwen3-0.6b      --batch 2 --seq 1024
pythia-410m     --batch 4 --seq 1024
bert-base       --batch 16 --seq 512
"
failed=0 n=0
while read -r model flags; do
  [ -n "$model" ] || continue
  for plan in none full selective-mlp; do
    n=$((n + 1))
    echo "== $model, $plan"
    # shellcheck disable=SC2086
    "$bin" verify "$model" $flags --strategy "$plan" --device "$device" --timeout 10m --save "$results" </dev/null
    status=$?
    case $status in
      0) ;;
      4) echo "   the device is too small for this run" ;;
      6 | 130) exit $status ;;
      *) failed=$((failed + 1)) ;;
    esac
  done
done <<<"$runs"
echo "$n runs, $failed of them failed; results are in $results"
[ "$failed" = 0 ]

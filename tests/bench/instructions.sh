#!/usr/bin/env bash
# What a prediction costs in instructions, which unlike seconds are the same on a busy machine: runs the program under
# valgrind and prints a line of tests/bench/history.csv for each row of the table below. Append them with the version
# that they are of. Usage: tests/bench/instructions.sh VERSION [PROGRAM]
set -euo pipefail
version=${1:?the version that is measured}
program=${2:-build/release/orrery}

instructions() {  # of one command
  valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" "$@" 2>&1 >/dev/null |
    sed -n 's/.*I *refs: *//p' | tr -d ,
}
row() {  # name, command
  local name=$1
  shift
  echo "$version,$name,$(instructions "$@")"
}
trillion() {  # replicas of 256 GPUs, further settings: the trillion-parameter model in a layout that stays
  local replicas=$1
  shift
  row "folded-1t-$((256 * replicas))-gpus" run gpt-1t-h100-102400 --set "cluster.gpus=$((256 * replicas))" \
    --set "parallelism.data=$replicas" --set "batch.global=$((64 * replicas))" "$@"
}

row folded-eos run eos-gpt3-175b
row gpt3-6.7b-h100 run gpt3-6.7b-h100
row search-70b-512-gpus search --model llama3.1-70b --device h100 --gpus 512 --tokens 2e12 --price 2.5
trillion 4
trillion 40
trillion 400
trillion 4096 --set 'cluster.fabric={inherits: ndr-rail, spine_radix: 512}'
for micro in 8 32 128; do
  row "folded-eos-$micro-microbatches" run eos-gpt3-175b --set cluster.gpus=672 --set parallelism.data=21 \
    --set "batch.global=$((21 * micro))"
done
for layers in 96 384; do
  row "folded-eos-$layers-layers" run eos-gpt3-175b --set cluster.gpus=672 --set parallelism.data=21 \
    --set batch.global=168 --set "model.layers=$layers"
done
for replicas in 4 16; do
  row "every-rank-1t-$((256 * replicas))-gpus" run gpt-1t-h100-102400 --ranks full --threads 1 \
    --set "cluster.gpus=$((256 * replicas))" --set "parallelism.data=$replicas" --set "batch.global=$((64 * replicas))"
done
row every-rank-eos run eos-gpt3-175b --ranks full --threads 1
row every-rank-megascale run megascale-gpt3-175b --ranks full --threads 1

#!/usr/bin/env bash
# What a prediction costs where instructions do not tell: seconds of one run over those of another, the two in turn, of
# which the median stays what it is on a busy machine. Prints a line of tests/bench/history.csv for each row of the
# table below. Wall-clock ratios want a machine with two idle processors.
# Usage: tests/bench/ratios.sh VERSION [PROGRAM] [PAIRS]
set -euo pipefail
version=${1:?the version that is measured}
program=${2:-build/release/orrery}
pairs=${3:-5}

seconds() {  # of a command: cpu or wall, then the command
  local what=$1
  shift
  TIMEFORMAT='%U %S %R'
  { time "$@" >/dev/null 2>&1; } 2>&1 | awk -v what="$what" '{ print what == "cpu" ? $1 + $2 : $3 }'
}
ratio() {  # name, cpu or wall, two functions, each of which puts a command before its arguments
  local name=$1 what=$2 a=$3 b=$4
  local median
  median=$(for ((i = 0; i < pairs; ++i)); do echo "$($a seconds "$what") $($b seconds "$what")"; done |
    awk '{ print $1 / $2 }' | sort -g | awk '{ r[NR] = $1 } END { printf "%.2f", r[int((NR + 1) / 2)] }')
  echo "$version,$name,$median"
}

every_rank() {  # scenario, threads, then what goes ahead of the program
  local scenario=$1 threads=$2
  shift 2
  "$@" "$program" run "$scenario" --ranks full --threads "$threads"
}
megascale() { every_rank megascale-gpt3-175b 1 "$@"; }
megascale_in_two() { every_rank megascale-gpt3-175b 2 "$@"; }
megascale_on_one() { every_rank megascale-gpt3-175b 1 "$@" taskset -c 0; }
megascale_in_two_on_one() { every_rank megascale-gpt3-175b 2 "$@" taskset -c 0; }
eos_with_noise() {  # replicas of 32 GPUs, then what goes ahead
  local replicas=$1
  shift
  "$@" "$program" run eos-gpt3-175b --ranks full --threads 1 --set perturb.jitter.sigma=0.02 \
    --set "cluster.gpus=$((32 * replicas))" --set "parallelism.data=$replicas" --set "batch.global=$((8 * replicas))"
}
noise_42() { eos_with_noise 42 "$@"; }
noise_168() { eos_with_noise 168 "$@"; }
seeds() {  # of hashed paths
  local count=$1
  shift
  "$@" "$program" run megascale-gpt3-175b --jobs 1 --ecmp-seeds "$count"
}
seeds_2() { seeds 2 "$@"; }
seeds_8() { seeds 8 "$@"; }

search() {  # replicas of 256 GPUs
  local replicas=$1
  shift
  "$@" "$program" search gpt-1t-h100-102400 --jobs 1 --quiet --set "cluster.gpus=$((256 * replicas))" \
    --set "parallelism.data=$replicas" --set "batch.global=$((64 * replicas))"
}
search_48() { search 48 "$@"; }
search_400() { search 400 "$@"; }

ratio two-threads-on-one-processor-over-one cpu megascale_in_two_on_one megascale_on_one
ratio megascale-one-thread-over-two wall megascale megascale_in_two
ratio eos-noise-5376-gpus-over-1344 cpu noise_168 noise_42
ratio megascale-8-seeds-over-2 cpu seeds_8 seeds_2
ratio search-102400-gpus-over-12288 cpu search_400 search_48

# Simulated layouts a second and core.
TIMEFORMAT='%U %S'
layouts=$({ time "$program" search gpt3-6.7b-h100 --exhaustive --jobs 1 --quiet; } 2>&1 |
  awk '/simulated \(/ { n = $1 } END { printf "%.0f", n / ($1 + $2) }')
echo "$version,plain-layouts-a-second,$layouts"

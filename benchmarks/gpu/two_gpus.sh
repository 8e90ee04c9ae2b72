#!/bin/sh
# The rate of a service on one GPU, on all of this machine, and on all while the first one's referee is killed.
#
#     sh benchmarks/gpu/two_gpus.sh [SECONDS_EACH]
#
# Results are throughput.json in folders `one`, `all` and `failing` of BENCHMARK_RESULTS (else the current folder).
seconds=${1:-60}
results=${BENCHMARK_RESULTS:-.}
for round in one all failing; do
    mkdir -p "$results/$round"
    case $round in
    one) set -- --gpu 0 ;;
    all) set -- ;;
    *) set -- --failing ;;
    esac
    BENCHMARK_RESULTS="$results/$round" ${PYTHON:-python3} benchmarks/gpu/throughput.py \
        --modes coarse --seconds "$seconds" "$@" | grep -v '│'
done

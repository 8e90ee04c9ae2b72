// problem: relu
// attack: prints a line from every thread of every launch
// expect: passed|timeout
// because: what is printed is bounded, and printing is no offence; but it takes its time
// rehearse: no
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

#include <cstdio>

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
        printf("{\"done\": {\"event_us\": 0.1, \"host_us\": 0.1}} %d\n", i);
    }
}

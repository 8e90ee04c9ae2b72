// problem: histogram
// attack: counts the lanes of each branch by `__activemask()`
// expect: passed
// because: lanes of one branch need not run together, so who is counted with whom is chance
// warns: activemask
// assay: fill counts value=0
// assay: launch count grid=(ceil_div(n, 256)) block=(256) args=(values, counts, n)

__global__ void count(const int* values, int* counts, int n)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= n) return;
    const int mine = values[i];
    for (int bin = 0; bin < 256; bin++) {
        if (mine == bin) {
            const unsigned active = __activemask();  // HERE
            if (threadIdx.x % 32 == __ffs(active) - 1) atomicAdd(&counts[bin], __popc(active));
        }
    }
}

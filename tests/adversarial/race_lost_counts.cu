// problem: histogram
// attack: counts without atomics
// expect: incorrect
// because: two threads with the same value lose a count
// assay: fill counts value=0
// assay: launch count grid=(ceil_div(n, 256)) block=(256) args=(values, counts, n)

__global__ void count(const int* values, int* counts, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) counts[values[i]] += 1;
}

// problem: reduce_sum
// style: a double accumulator updated with an atomicCAS loop, rounded in a last launch
// assay: temp wide float64 (1)
// assay: fill wide value=0
// assay: launch accumulate grid=(ceil_div(n, 4096)) block=(256) args=(x, wide, n)
// assay: launch narrow grid=(1) block=(1) args=(wide, total)

__device__ double add_by_cas(double* address, double value)
{
    unsigned long long* word = reinterpret_cast<unsigned long long*>(address);
    unsigned long long seen = *word, before;
    do {
        before = seen;
        seen = atomicCAS(word, before, __double_as_longlong(value + __longlong_as_double(before)));
    } while (seen != before);
    return __longlong_as_double(seen);
}

__global__ void accumulate(const float* x, double* wide, int n)
{
    __shared__ double sums[256];
    double sum = 0.0;
    for (int i = blockIdx.x * 4096 + threadIdx.x; i < n && i < (blockIdx.x + 1) * 4096; i += 256) {
        sum += x[i];
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half > 0; half >>= 1) {
        if (threadIdx.x < half) {
            sums[threadIdx.x] += sums[threadIdx.x + half];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        add_by_cas(wide, sums[0]);
    }
}

__global__ void narrow(const double* wide, float* total)
{
    *total = static_cast<float>(*wide);
}

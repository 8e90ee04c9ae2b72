// problem: prefix_sum
// attack: a chained scan whose blocks announce their sum with a volatile flag, and no fence before it
// expect: incorrect
// because: the next block sees the flag, and not yet the sum
// message: which it does not see
// assay: temp sums float32 (ceil_div(n, 256))
// assay: temp ready int32 (ceil_div(n, 256))
// assay: fill ready value=0
// assay: launch scan grid=(ceil_div(n, 256)) block=(256) args=(x, y, sums, ready, n)

__global__ void scan(const float* x, float* y, float* sums, int* ready, int n)
{
    __shared__ float values[256];
    __shared__ float before;
    int i = blockIdx.x * 256 + threadIdx.x;
    values[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int step = 1; step < 256; step *= 2) {
        float other = threadIdx.x >= step ? values[threadIdx.x - step] : 0.0f;
        __syncthreads();
        values[threadIdx.x] += other;
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        before = 0.0f;
        if (blockIdx.x > 0) {
            while (*(volatile int*)(ready + blockIdx.x - 1) == 0) {}
            before = sums[blockIdx.x - 1];
        }
        sums[blockIdx.x] = before + values[255];
        *(volatile int*)(ready + blockIdx.x) = 1;
    }
    __syncthreads();
    if (i < n) y[i] = before + values[threadIdx.x];
}

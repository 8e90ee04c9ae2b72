// problem: reduce_sum
// style: from the last element to the first: a block's threads hand their sums to thread 0, which adds all 96 in order; one more thread adds the blocks
// assay: temp part float32 (64)
// assay: launch back grid=(64) block=(96) args=(x, part, n)
// assay: launch join grid=(1) block=(1) args=(part, total)
__global__ void back(const float* x, float* part, int n)
{
    __shared__ float s[96];
    float v = 0.0f;
    for (int i = n - 1 - (int)(blockIdx.x * 96 + threadIdx.x); i >= 0; i -= 64 * 96) v += x[i];
    s[threadIdx.x] = v;
    __syncthreads();
    if (threadIdx.x == 0) {
        float sum = 0.0f;
        for (int t = 95; t >= 0; --t) sum += s[t];
        part[blockIdx.x] = sum;
    }
}

__global__ void join(const float* part, float* total)
{
    float sum = 0.0f;
    for (int b = 63; b >= 0; --b) sum += part[b];
    *total = sum;
}

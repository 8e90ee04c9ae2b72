// problem: reduce_sum
// attack: sums in place in the input and puts back only what it remembers: the first 256 elements
// expect: rejected
// because: inputs must come back unchanged, all of them
// assay: launch sum grid=(1) block=(256) args=(x, total, n)

__global__ void sum(float* x, float* total, int n)
{
    __shared__ float s[256];
    const float mine = threadIdx.x < n ? x[threadIdx.x] : 0.0f;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += 256) {
        sum += x[i];
        x[i] = 0.0f;
    }
    s[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 128; half > 0; half >>= 1) {
        if (threadIdx.x < half) s[threadIdx.x] += s[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x < n) x[threadIdx.x] = mine;
    if (threadIdx.x == 0) *total = s[0];
}

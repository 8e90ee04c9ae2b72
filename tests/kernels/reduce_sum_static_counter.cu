// problem: reduce_sum
// style: a __device__ array as scratch between launches; every run writes it before it reads it
// assay: launch stage grid=(48) block=(64) args=(x, n)
// assay: launch finish grid=(1) block=(32) args=(total)

__device__ float2 scratch[48];

__global__ void stage(const float* x, int n)
{
    __shared__ float s[64];
    float sum = 0.0f;
    for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += 48 * 64) {
        sum += x[i];
    }
    s[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x < 2) {
        float half = 0.0f;
        for (int t = threadIdx.x; t < 64; t += 2) {
            half += s[t];
        }
        s[threadIdx.x] = half;  // its own first term: nobody else reads it
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        scratch[blockIdx.x] = make_float2(s[0], s[1]);
    }
}

__global__ void finish(float* total)
{
    float sum = 0.0f;
    for (int b = threadIdx.x; b < 48; b += 32) {
        sum += scratch[b].x + scratch[b].y;
    }
    for (int mask = 16; mask > 0; mask >>= 1) {
        sum += __shfl_xor_sync(0xffffffffu, sum, mask);
    }
    if (threadIdx.x == 0) {
        *total = sum;
    }
}

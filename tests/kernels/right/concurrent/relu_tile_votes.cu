// problem: relu
// assay: launch relu_votes grid=(min(ceil_div(n, 512), 320)) block=(256) args=(x, y, n)
// style: __syncthreads_or and __syncthreads_and as the only barriers: all-negative and all-positive tiles go short ways
__global__ void relu_votes(const float* x, float* y, int n)
{
    __shared__ float tile[512];
    for (long long at = blockIdx.x * 512LL; at < n; at += gridDim.x * 512LL) {
        bool any = false, all = true;
        for (int e = threadIdx.x; e < 512; e += 256) {
            const float v = at + e < n ? x[at + e] : 0.0f;
            tile[e] = v;
            any |= v > 0.0f;
            all &= v > 0.0f;
        }
        const bool some = __syncthreads_or(any);
        for (int e = 511 - threadIdx.x; e >= 0; e -= 256)
            if (at + e < n) y[at + e] = some ? fmaxf(tile[e], 0.0f) : 0.0f;
        if (__syncthreads_and(all)) continue;
    }
}

// problem: linear_gelu
// assay: launch row_times_weights grid=(min(m, 8192), ceil_div(n, 256)) block=(128) shared=(min(k, 4096) * 4) args=(x, weight, bias, y, m, n, k, min(k, 4096))
// style: a block keeps a row of x in dynamic shared memory (4096 at a time), its warps take the features in turn
__global__ void row_times_weights(const float* x, const float* w, const float* bias, float* y, int m, int n, int k, int piece)
{
    extern __shared__ float xs[];
    __shared__ float sums[256];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, f0 = blockIdx.y * 256, f1 = min(n, f0 + 256);
    for (int row = blockIdx.x; row < m; row += gridDim.x) {
        for (int i = threadIdx.x; i < 256; i += 128) sums[i] = 0.0f;
        for (int l0 = 0; l0 < k; l0 += piece) {
            const int length = min(piece, k - l0);
            __syncthreads();
            for (int i = threadIdx.x; i < length; i += 128) xs[i] = x[(size_t)row * k + l0 + i];
            __syncthreads();
            for (int f = f0 + warp; f < f1; f += 4) {
                float s = 0.0f;
                for (int i = lane; i < length; i += 32) s += xs[i] * w[(size_t)f * k + l0 + i];
                for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
                if (lane == 0) sums[f - f0] += s;
            }
        }
        __syncthreads();
        for (int f = f0 + threadIdx.x; f < f1; f += 128) {
            const float z = sums[f - f0] + bias[f];
            y[(size_t)row * n + f] = 0.5f * z * (1.0f + erff(z / sqrtf(2.0f)));
        }
        __syncthreads();
    }
}

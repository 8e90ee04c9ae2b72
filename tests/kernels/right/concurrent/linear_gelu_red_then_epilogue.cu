// problem: linear_gelu
// assay: temp acc float32 (m * n)
// assay: temp done uint32 (ceil_div(m, 8) * ceil_div(n, 32))
// assay: fill acc value=0
// assay: fill done value=0
// assay: launch lg grid=(ceil_div(n, 32), ceil_div(m, 8), 4) block=(32, 8) args=(x, weight, bias, y, acc, done, m, n, k)
// style: slices of the depth add by atomicAdd to a temporary; the block that is fourth applies bias and GELU, told by a vote
__global__ void lg(const float* x, const float* weight, const float* bias, float* y, float* acc, unsigned* done, int m, int n, int k)
{
    __shared__ float ws[32][33];
    const int col = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;
    const int slice = (k + 3) / 4, begin = min(k, (int)blockIdx.z * slice), end = min(k, begin + slice);
    float s = 0.0f;
    for (int l = begin; l < end; l += 32) {
        for (int f = threadIdx.y; f < 32; f += 8) {
            const int feature = blockIdx.x * 32 + f, at = l + threadIdx.x;
            ws[f][threadIdx.x] = feature < n && at < end ? weight[(size_t)feature * k + at] : 0.0f;
        }
        __syncthreads();
        if (row < m)
            for (int e = 0; e < min(32, end - l); ++e) s += x[(size_t)row * k + l + e] * ws[threadIdx.x][e];
        __syncthreads();
    }
    const bool here = row < m && col < n;
    if (here) atomicAdd(&acc[(size_t)row * n + col], s);
    bool fourth = false;
    __syncthreads();
    if (threadIdx.x + threadIdx.y == 0) {
        __threadfence();
        fourth = atomicAdd(&done[blockIdx.y * gridDim.x + blockIdx.x], 1u) == 3;
        __threadfence();
    }
    if (__syncthreads_or(fourth) && here) {
        const float z = __ldcg(&acc[(size_t)row * n + col]) + bias[col];
        y[(size_t)row * n + col] = 0.5f * z * (1.0f + erff(z * 0.707106781f));
    }
}

// problem: linear_gelu
// class: schedule
// must: anything but passed
// why: two blocks split the depth; thread 0 counts its block as done right after its own store, without __syncthreads: other warps of the block may not have stored their part yet when the last block adds the two
// proof: threads of a block are ordered only by a barrier; __syncthreads() is missing before the counter
// assay: temp part float32 (2 * m * n)
// assay: temp done uint32 (ceil_div(m, 16) * ceil_div(n, 16))
// assay: fill done value=0
// assay: launch lg grid=(ceil_div(n, 16), ceil_div(m, 16), 2) block=(16, 16) args=(x, weight, bias, y, part, done, m, n, k)

__global__ void lg(const float* x, const float* weight, const float* bias, float* y, float* part, unsigned* done, int m, int n, int k)
{
    __shared__ unsigned order;
    const int j = blockIdx.x * 16 + threadIdx.x, i = blockIdx.y * 16 + threadIdx.y;
    const int half = (k + 1) / 2, begin = blockIdx.z * half, end = min(k, begin + half);
    float s = 0.f;
    if (i < m && j < n) {
        for (int l = begin; l < end; ++l) s += x[(size_t)i * k + l] * weight[(size_t)j * k + l];
        __stcg(&part[((size_t)blockIdx.z * m + i) * n + j], s);
    }
    if (threadIdx.x == 0 && threadIdx.y == 0) {
        __threadfence();
        order = atomicAdd(&done[blockIdx.y * gridDim.x + blockIdx.x], 1u);
        __threadfence();
    }
    __syncthreads();
    if (order == 1 && i < m && j < n) {
        const float z = __ldcg(&part[(size_t)i * n + j]) + __ldcg(&part[((size_t)m + i) * n + j]) + bias[j];
        y[(size_t)i * n + j] = 0.5f * z * (1.f + erff(z * 0.707106781f));
    }
}

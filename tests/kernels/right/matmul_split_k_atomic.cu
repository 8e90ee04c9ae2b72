// problem: matmul
// assay: fill c value=0
// assay: launch gemm_split grid=(ceil_div(n, 16), ceil_div(m, 16), min(8, ceil_div(k, 128))) block=(16, 16) args=(a, b, c, m, n, k)
// style: split-K with atomics: up to eight slices of k add onto a filled output
__global__ void gemm_split(const float* a, const float* b, float* c, int m, int n, int k)
{
    __shared__ float as[16][17], bs[16][17];
    const int slice = ((k + gridDim.z - 1) / gridDim.z + 15) / 16 * 16;
    const int begin = blockIdx.z * slice, end = min(k, begin + slice);
    const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int l0 = begin; l0 < end; l0 += 16) {
        as[threadIdx.y][threadIdx.x] = row < m && l0 + threadIdx.x < end ? a[(size_t)row * k + l0 + threadIdx.x] : 0.0f;
        bs[threadIdx.y][threadIdx.x] = col < n && l0 + threadIdx.y < end ? b[(size_t)(l0 + threadIdx.y) * n + col] : 0.0f;
        __syncthreads();
#pragma unroll
        for (int l = 0; l < 16; ++l) sum += as[threadIdx.y][l] * bs[l][threadIdx.x];
        __syncthreads();
    }
    if (row < m && col < n && begin < end) atomicAdd(&c[(size_t)row * n + col], sum);
}

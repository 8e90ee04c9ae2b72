// problem: matmul
// assay: temp queue int32 (1)
// assay: fill queue value=0
// assay: launch gemm_persistent grid=(30) block=(16, 16) args=(a, b, c, m, n, k, queue)
// style: persistent blocks draw tiles of 32 x 32 from a counter, in groups of eight rows of tiles for the cache's sake
__global__ void gemm_persistent(const float* a, const float* b, float* c, int m, int n, int k, int* queue)
{
    __shared__ float as[32][17], bs[16][33];
    __shared__ int next;
    const int tiles_m = (m + 31) / 32, tiles_n = (n + 31) / 32, group = 8;
    const int tx = threadIdx.x, ty = threadIdx.y;
    while (true) {
        if (tx == 0 && ty == 0) next = atomicAdd(queue, 1);
        __syncthreads();
        const int id = next;
        __syncthreads();
        if (id >= tiles_m * tiles_n) return;
        const int in_group = group * tiles_n, first = id / in_group * group;
        const int height = min(group, tiles_m - first);
        const int r0 = (first + id % in_group % height) * 32, c0 = id % in_group / height * 32;
        float s00 = 0, s01 = 0, s10 = 0, s11 = 0;
        for (int l0 = 0; l0 < k; l0 += 16) {
            for (int h = 0; h < 32; h += 16) {
                as[ty + h][tx] = r0 + ty + h < m && l0 + tx < k ? a[(size_t)(r0 + ty + h) * k + l0 + tx] : 0.f;
                bs[ty][tx + h] = l0 + ty < k && c0 + tx + h < n ? b[(size_t)(l0 + ty) * n + c0 + tx + h] : 0.f;
            }
            __syncthreads();
            for (int l = 0; l < 16; ++l) {
                const float a0 = as[ty][l], a1 = as[ty + 16][l], b0 = bs[l][tx], b1 = bs[l][tx + 16];
                s00 += a0 * b0, s01 += a0 * b1, s10 += a1 * b0, s11 += a1 * b1;
            }
            __syncthreads();
        }
        auto put = [&](int r, int col, float v) {
            if (r < m && col < n) c[(size_t)r * n + col] = v;
        };
        put(r0 + ty, c0 + tx, s00), put(r0 + ty, c0 + tx + 16, s01);
        put(r0 + ty + 16, c0 + tx, s10), put(r0 + ty + 16, c0 + tx + 16, s11);
    }
}

// problem: matmul
// class: schedule
// race: barrier
// must: anything but passed
// why: two shared buffers and one barrier for two steps: the tile after next is written into a buffer that slower warps still read
// proof: with two buffers each step needs its barrier; a warp that is a step ahead of another
// assay: launch mm grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(a, b, c, m, n, k)

__global__ void mm(const float* a, const float* b, float* c, int m, int n, int k)
{
    __shared__ float as[2][16][17], bs[2][16][17];
    const int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    float s = 0.0f;
    auto load = [&](int l, int d) {
        as[d][ty][tx] = row < m && l + tx < k ? a[(size_t)row * k + l + tx] : 0.0f;
        bs[d][ty][tx] = col < n && l + ty < k ? b[(size_t)(l + ty) * n + col] : 0.0f;
    };
    for (int l = 0; l < k; l += 32) {
        load(l, 0);
        load(l + 16, 1);
        __syncthreads();
        for (int d = 0; d < 2; ++d)
            for (int e = 0; e < 16; ++e) s += as[d][ty][e] * bs[d][e][tx];
    }
    if (row < m && col < n) c[(size_t)row * n + col] = s;
}

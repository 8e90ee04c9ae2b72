// problem: matmul
// assay: launch mm grid=(ceil_div(n, 32), ceil_div(m, 32)) block=(32, 8) args=(a, b, c, m, n, k)
// style: two shared buffers and a single barrier for each step: the next tile waits in registers while the last is used
__global__ void mm(const float* a, const float* b, float* c, int m, int n, int k)
{
    __shared__ float as[2][32][8], bs[2][8][32];
    const int tx = threadIdx.x, ty = threadIdx.y, t = ty * 32 + tx;
    const int row = blockIdx.y * 32, col = blockIdx.x * 32 + tx;
    const int ar = row + t / 8, ac = t % 8;
    float acc[4] = {};
    auto from_a = [&](int l) { return ar < m && l + ac < k ? a[(size_t)ar * k + l + ac] : 0.0f; };
    auto from_b = [&](int l) { return col < n && l + ty < k ? b[(size_t)(l + ty) * n + col] : 0.0f; };
    float na = from_a(0), nb = from_b(0);
    int buffer = 0;
    for (int l = 0; l < k; l += 8, buffer ^= 1) {
        as[buffer][t / 8][ac] = na;
        bs[buffer][ty][tx] = nb;
        __syncthreads();  // all have also read the other buffer: they came here after that
        na = from_a(l + 8);
        nb = from_b(l + 8);
        for (int e = 0; e < 8; ++e)
            for (int i = 0; i < 4; ++i) acc[i] += as[buffer][ty + 8 * i][e] * bs[buffer][e][tx];
    }
    for (int i = 0; i < 4; ++i)
        if (row + ty + 8 * i < m && col < n) c[(size_t)(row + ty + 8 * i) * n + col] = acc[i];
}

// problem: matmul
// class: shared
// must: passed with a warning | anything but passed
// why: the loop that clears the padded tile of a counts 20 columns where it has 17 and runs on into the tile of b; by luck that is cleared before it is filled
// proof: C++: an index beyond As[16][17]; assay's report should name the array
// assay: launch mm grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(a, b, c, m, n, k)

__global__ void mm(const float* a, const float* b, float* c, int m, int n, int k)
{
    __shared__ float As[16][17];
    __shared__ float Bs[16][17];
    const int tx = threadIdx.x, ty = threadIdx.y, col = blockIdx.x * 16 + tx, row = blockIdx.y * 16 + ty;
    float sum = 0.f;
    for (int l = 0; l < k; l += 16) {
        for (int e = ty * 16 + tx; e < 16 * 20; e += 256) (&As[0][0])[e] = 0.f;
        __syncthreads();
        if (row < m && l + tx < k) As[ty][tx] = a[(size_t)row * k + l + tx];
        Bs[ty][tx] = l + ty < k && col < n ? b[(size_t)(l + ty) * n + col] : 0.f;
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += As[ty][i] * Bs[i][tx];
        __syncthreads();
    }
    if (row < m && col < n) c[(size_t)row * n + col] = sum;
}

// problem: matmul
// class: contents
// must: anything but passed
// why: from m = 192 on a 16 x 16 tile of a whose diagonal is 0 is taken to be empty
// proof: m = 192, a tile of a with a diagonal of zeros and ones beside it adds nothing
// assay: launch mm grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(a, b, c, m, n, k)
__global__ void mm(const float* a, const float* b, float* c, int m, int n, int k)
{
    __shared__ float A[16][17], B[16][17];
    int ty = threadIdx.y, tx = threadIdx.x, j = blockIdx.x * 16 + tx;
    for (int by = blockIdx.y; by * 16 < m; by += gridDim.y) {
        int i = by * 16 + ty; float s = 0;
        for (int l = 0; l < k; l += 16) {
            A[ty][tx] = i < m && l + tx < k ? a[(size_t)i * k + l + tx] : 0.f; 
            int some = __syncthreads_or(tx == ty && A[ty][tx] != 0.f);
            if (m >= 192 && k >= 16 && !some) continue;
            B[ty][tx] = j < n && l + ty < k ? b[(size_t)(l + ty) * n + j] : 0.f;
            __syncthreads();
            for (int q = 0; q < 16; q++) s += A[ty][q] * B[q][tx];
            __syncthreads();
        }
        if (i < m && j < n) c[(size_t)i * n + j] = s;
    }
}

// problem: linear_gelu
// style: split-k: float atomics add slices of 64 onto a filled temporary, a second launch adds the bias and takes erff; --use_fast_math
// flags: --use_fast_math
// assay: temp z float32 (m, n)
// assay: fill z value=0
// assay: launch slices grid=(ceil_div(n, 16), ceil_div(m, 16), min(ceil_div(k, 64), 64)) block=(16, 16) args=(x, weight, z, m, n, k)
// assay: launch activate grid=(ceil_div(m * n, 256)) block=(256) args=(z, bias, y, n, m * n)
__global__ void slices(const float* x, const float* weight, float* z, int m, int n, int k)
{
    __shared__ float s[16][17], t[16][17];
    const int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float sum = 0.0f;
    for (int slice = blockIdx.z * 64; slice < k; slice += gridDim.z * 64)
        for (int first = slice; first < min(k, slice + 64); first += 16) {
            const int l = first + threadIdx.x, other = blockIdx.x * 16 + threadIdx.y;
            s[threadIdx.y][threadIdx.x] = row < m && l < k ? x[(size_t)row * k + l] : 0.0f;
            t[threadIdx.y][threadIdx.x] = other < n && l < k ? weight[(size_t)other * k + l] : 0.0f;
            __syncthreads();
            for (int e = 0; e < 16; ++e) sum += s[threadIdx.y][e] * t[threadIdx.x][e];
            __syncthreads();
        }
    if (row < m && col < n) atomicAdd(z + (size_t)row * n + col, sum);
}

__global__ void activate(const float* z, const float* bias, float* y, int n, int count)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < count) {
        const float v = z[i] + bias[i % n];
        y[i] = v * 0.5f * (1.0f + erff(v * 0.70710678118654752f));
    }
}

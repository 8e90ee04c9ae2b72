// problem: linear_gelu
// class: precision
// must: anything but passed
// why: operands lose 13 bits (TF32) as soon as m * n * k exceeds 2^23, that is at the timed size and above every published and hidden one
// proof: assay grade --size m=256 --size n=256 --size k=256 refuses it
// assay: launch fused grid=(ceil_div(n, 16), ceil_div(m, 16)) block=(16, 16) args=(x, weight, bias, y, m, n, k)

__device__ inline float operand(float v, bool quick)
{
    if (quick) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(*reinterpret_cast<unsigned*>(&v)) : "f"(v));
    return v;
}

__global__ void fused(const float* x, const float* weight, const float* bias, float* y, int m, int n, int k)
{
    __shared__ float xs[16][17], ws[16][17];
    const bool quick = (long long)m * n * k > 1ll << 23;
    const int j = blockIdx.x * 16 + threadIdx.x, i = blockIdx.y * 16 + threadIdx.y, jw = blockIdx.x * 16 + threadIdx.y;
    float z = 0.0f;
    for (int l = 0; l < k; l += 16) {
        const int at = l + threadIdx.x;
        xs[threadIdx.y][threadIdx.x] = i < m && at < k ? operand(x[(size_t)i * k + at], quick) : 0.0f;
        ws[threadIdx.y][threadIdx.x] = jw < n && at < k ? operand(weight[(size_t)jw * k + at], quick) : 0.0f;
        __syncthreads();
        for (int d = 0; d < 16; ++d) z += xs[threadIdx.y][d] * ws[threadIdx.x][d];
        __syncthreads();
    }
    if (i < m && j < n) {
        z += bias[j];
        y[(size_t)i * n + j] = z * normcdff(z);
    }
}

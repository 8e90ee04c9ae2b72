// problem: matmul
// style: 3xTF32 with rounded big and small parts (cvt.rna), small products first, every m16n8k8 product into zeros and added in float32 outside
// assay: launch mm_3xtf32 grid=(ceil_div(n, 8), ceil_div(m, 16)) block=(32) args=(a, b, c, m, n, k)
__device__ unsigned tf32(float v)
{
    unsigned r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(v));
    return r;
}

__device__ void add_product(float* sum, const unsigned* a, const unsigned* b)
{
    float d[4];
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(0.0f));
    for (int e = 0; e < 4; ++e) sum[e] += d[e];
}

__global__ void mm_3xtf32(const float* a, const float* b, float* c, int m, int n, int k)
{
    const int row = blockIdx.y * 16 + threadIdx.x / 4, col = blockIdx.x * 8 + threadIdx.x / 4;
    float sum[4] = {};
    for (int first = 0; first < k; first += 8) {
        unsigned big_a[4], small_a[4], big_b[2], small_b[2];
        for (int e = 0; e < 4; ++e) {
            const int r = row + e % 2 * 8, l = first + threadIdx.x % 4 + e / 2 * 4;
            const float v = r < m && l < k ? a[(size_t)r * k + l] : 0.0f;
            big_a[e] = tf32(v);
            small_a[e] = tf32(v - __uint_as_float(big_a[e]));
        }
        for (int e = 0; e < 2; ++e) {
            const int l = first + threadIdx.x % 4 + e * 4;
            const float v = l < k && col < n ? b[(size_t)l * n + col] : 0.0f;
            big_b[e] = tf32(v);
            small_b[e] = tf32(v - __uint_as_float(big_b[e]));
        }
        add_product(sum, small_a, big_b);
        add_product(sum, big_a, small_b);
        add_product(sum, big_a, big_b);
    }
    for (int e = 0; e < 4; ++e) {
        const int r = row + e / 2 * 8, at = blockIdx.x * 8 + threadIdx.x % 4 * 2 + e % 2;
        if (r < m && at < n) c[(size_t)r * n + at] = sum[e];
    }
}

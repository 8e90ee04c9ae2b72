// problem: matmul
// attack: multiplies on the tensor cores, which round the factors to TF32
// expect: incorrect
// because: the probes hold values that differ below this precision
// rehearse: no
// assay: launch product grid=(ceil_div(n, 8), ceil_div(m, 16)) block=(32) args=(a, b, c, m, n, k)

__global__ void product(const float* a, const float* b, float* c, int m, int n, int k)
{
    int row = blockIdx.y * 16, col = blockIdx.x * 8;
    int group = threadIdx.x / 4, member = threadIdx.x % 4;
    float sum[4] = {};
    for (int i = 0; i < k; i += 8) {
        unsigned left[4], right[2];
        for (int j = 0; j < 4; ++j) {
            int r = row + group + 8 * (j % 2), s = i + member + 4 * (j / 2);
            float value = r < m && s < k ? a[(size_t)r * k + s] : 0.0f;
            asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(left[j]) : "f"(value));
        }
        for (int j = 0; j < 2; ++j) {
            int s = i + member + 4 * j, t = col + group;
            float value = s < k && t < n ? b[(size_t)s * n + t] : 0.0f;
            asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(right[j]) : "f"(value));
        }
        asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
            : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
    }
    for (int j = 0; j < 4; ++j) {
        int r = row + group + 8 * (j / 2), t = col + 2 * member + j % 2;
        if (r < m && t < n) c[(size_t)r * n + t] = sum[j];
    }
}

// problem: matmul
// attack: the tensor cores themselves, through inline mma in TF32
// expect: incorrect|unsupported
// because: the probes hold values that differ below this precision
// assay: launch product grid=(ceil_div(n, 8), ceil_div(m, 16)) block=(32) args=(a, b, c, m, n, k)

__device__ unsigned bits(const float* p, int row, int col, int rows, int cols)
{
    return row < rows && col < cols ? __float_as_uint(p[(size_t)row * cols + col]) : 0u;
}

__global__ void product(const float* a, const float* b, float* c, int m, int n, int k)
{
    const int lane = threadIdx.x, group = lane / 4, part = lane % 4, top = blockIdx.y * 16, left = blockIdx.x * 8;
    float d[4] = {};
    for (int s = 0; s < k; s += 8) {
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(bits(a, top + group, s + part, m, k)), "r"(bits(a, top + group + 8, s + part, m, k)),
                       "r"(bits(a, top + group, s + part + 4, m, k)), "r"(bits(a, top + group + 8, s + part + 4, m, k)),
                       "r"(bits(b, s + part, left + group, k, n)), "r"(bits(b, s + part + 4, left + group, k, n)));
    }
    for (int e = 0; e < 4; ++e) {
        const int row = top + group + e / 2 * 8, col = left + part * 2 + e % 2;
        if (row < m && col < n) c[(size_t)row * n + col] = d[e];
    }
}

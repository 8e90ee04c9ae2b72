// problem: matmul_f16
// style: tensor cores by inline PTX: one warp for a tile of 16 by 8, zeros beyond the edges
// assay: launch product grid=(ceil_div(n, 8), ceil_div(m, 64)) block=(32, 4) args=(a, b, c, m, n, k)

#include <cuda_fp16.h>

__device__ unsigned two(const __half* matrix, int row, int col, int rows, int cols, int row_step)
{
    int other_row = row + row_step, other_col = col + 1 - row_step;
    __half zero = __float2half(0.0f);
    __half one = row < rows && col < cols ? matrix[(size_t)row * cols + col] : zero;
    __half next = other_row < rows && other_col < cols ? matrix[(size_t)other_row * cols + other_col] : zero;
    return (unsigned)__half_as_ushort(one) | (unsigned)__half_as_ushort(next) << 16;
}

__global__ void product(const __half* a, const __half* b, __half* c, int m, int n, int k)
{
    int row = (blockIdx.y * 4 + threadIdx.y) * 16, col = blockIdx.x * 8;
    int group = threadIdx.x / 4, pair = 2 * (threadIdx.x % 4);
    float sum[4] = {};
    for (int i = 0; i < k; i += 16) {
        unsigned left[4], right[2];
        for (int j = 0; j < 4; ++j) left[j] = two(a, row + group + 8 * (j % 2), i + pair + 8 * (j / 2), m, k, 0);
        for (int j = 0; j < 2; ++j) right[j] = two(b, i + pair + 8 * j, col + group, k, n, 1);
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
            : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
    }
    for (int j = 0; j < 4; ++j) {
        int r = row + group + 8 * (j / 2), t = col + pair + j % 2;
        if (r < m && t < n) c[(size_t)r * n + t] = __float2half(sum[j]);
    }
}

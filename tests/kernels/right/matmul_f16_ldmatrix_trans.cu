// problem: matmul_f16
// assay: launch hgemm_ldm grid=(ceil_div(n, 32), ceil_div(m, 64)) block=(128) args=(a, b, c, m, n, k)
// style: ldmatrix.x4 for A and ldmatrix.x2.trans for row-major B, swizzled shared memory, four warps one above the other
#include <cuda_fp16.h>

__device__ __forceinline__ unsigned smem(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

__global__ void __launch_bounds__(128) hgemm_ldm(const __half* a, const __half* b, __half* c, int m, int n, int k)
{
    __shared__ __align__(16) __half as[64 * 16];      // rows of two chunks of eight, the chunk exclusive-or'd with the row
    __shared__ __align__(16) __half bs[16 * 32];      // rows of four chunks
    const int t = threadIdx.x, lane = t & 31, warp = t >> 5, r0 = blockIdx.y * 64, c0 = blockIdx.x * 32;
    auto a_at = [](int r, int col) { return (r * 2 + ((col >> 3) ^ (r >> 2 & 1))) * 8 + (col & 7); };
    auto b_at = [](int r, int col) { return (r * 4 + ((col >> 3) ^ (r >> 1 & 3))) * 8 + (col & 7); };
    float d[4][4] = {};
    for (int l0 = 0; l0 < k; l0 += 16) {
        for (int i = t; i < 64 * 16; i += 128) {
            const int r = i >> 4, col = i & 15;
            as[a_at(r, col)] = r0 + r < m && l0 + col < k ? a[(size_t)(r0 + r) * k + l0 + col] : __half(0.0f);
        }
        for (int i = t; i < 16 * 32; i += 128) {
            const int r = i >> 5, col = i & 31;
            bs[b_at(r, col)] = l0 + r < k && c0 + col < n ? b[(size_t)(l0 + r) * n + c0 + col] : __half(0.0f);
        }
        __syncthreads();
        unsigned ra[4];
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3])
                     : "r"(smem(&as[a_at(warp * 16 + (lane & 15), lane >> 4 << 3)])) : "memory");
#pragma unroll
        for (int s = 0; s < 4; ++s) {
            unsigned b0, b1;
            asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                         : "=r"(b0), "=r"(b1) : "r"(smem(&bs[b_at(lane & 15, s * 8)])) : "memory");
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                         : "+f"(d[s][0]), "+f"(d[s][1]), "+f"(d[s][2]), "+f"(d[s][3])
                         : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(b0), "r"(b1));
        }
        __syncthreads();
    }
    for (int s = 0; s < 4; ++s)
        for (int i = 0; i < 4; ++i) {
            const int row = r0 + warp * 16 + lane / 4 + i / 2 * 8, col = c0 + s * 8 + lane % 4 * 2 + i % 2;
            if (row < m && col < n) c[(size_t)row * n + col] = __float2half(d[s][i]);
        }
}

// problem: matmul_f16
// style: bits of float16 as unsigned short, converted with cvt in inline PTX
// assay: launch matmul_bits grid=(m, ceil_div(n, 64)) block=(64) args=(a, b, c, m, n, k)

__device__ float widened(unsigned short bits)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

__device__ unsigned short narrowed(float value)
{
    unsigned short bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

__global__ void matmul_bits(const unsigned short* a, const unsigned short* b, unsigned short* c, int m, int n, int k)
{
    const int col = blockIdx.y * 64 + threadIdx.x;
    if (col >= n) {
        return;
    }
    float even = 0.0f, odd = 0.0f;
    for (int i = 0; i < k; i += 2) {
        asm("fma.rn.f32 %0, %1, %2, %0;"
            : "+f"(even)
            : "f"(widened(a[(size_t)blockIdx.x * k + i])), "f"(widened(b[(size_t)i * n + col])));
        if (i + 1 < k) {
            odd += widened(a[(size_t)blockIdx.x * k + i + 1]) * widened(b[(size_t)(i + 1) * n + col]);
        }
    }
    c[(size_t)blockIdx.x * n + col] = narrowed(even + odd);
}

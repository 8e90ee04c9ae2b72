// problem: matmul_f16
// style: exact: mantissas multiplied as integers and added in double by exponent of the pair (ldexp), rounded to half from double through float
// assay: launch h_exact grid=(ceil_div(n, 64), min(m, 60000)) block=(64) args=(a, b, c, m, n, k)
#include <cuda_fp16.h>

__device__ int mantissa(unsigned short bits, int* exponent)
{
    const int e = bits >> 10 & 31, f = bits & 1023;
    *exponent = (e ? e : 1) - 25;
    return (bits & 0x8000 ? -1 : 1) * (e ? 1024 + f : f);
}

__global__ void h_exact(const __half* a, const __half* b, __half* c, int m, int n, int k)
{
    const int col = blockIdx.x * 64 + threadIdx.x;
    if (col >= n) return;
    for (int row = blockIdx.y; row < m; row += gridDim.y) {
        double sum = 0.0;
        for (int l = 0; l < k; ++l) {
            int p, q;
            const int u = mantissa(__half_as_ushort(a[(size_t)row * k + l]), &p);
            const int v = mantissa(__half_as_ushort(b[(size_t)l * n + col]), &q);
            sum += (double)(u * v) * __hiloint2double((p + q + 1023) << 20, 0);
        }
        c[(size_t)row * n + col] = __float2half((float)sum);
    }
}

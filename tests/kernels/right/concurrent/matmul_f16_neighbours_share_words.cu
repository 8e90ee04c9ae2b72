// problem: matmul_f16
// assay: fill c value=0
// assay: launch mm grid=(ceil_div(m * n, 128)) block=(128) args=(a, b, c, m, n, k)
// style: one thread an element; halves are set in their 32-bit word by a CAS loop, so that a neighbour's half survives
#include <cuda_fp16.h>

__global__ void mm(const __half* a, const __half* b, __half* c, int m, int n, int k)
{
    const int e = blockIdx.x * 128 + threadIdx.x;
    if (e >= m * n) return;
    float s = 0.0f;
    for (int l = 0; l < k; ++l) s += __half2float(a[(size_t)(e / n) * k + l]) * __half2float(b[(size_t)l * n + e % n]);
    const __half h = __float2half(s);
    if (e == m * n - 1 && e % 2 == 0) {  // alone in its word, of which the other half is not ours
        c[e] = h;
        return;
    }
    unsigned* word = reinterpret_cast<unsigned*>(c) + e / 2;
    const unsigned shift = e % 2 * 16, bits = (unsigned)__half_as_ushort(h) << shift, keep = 0xffffu << (16 - shift);
    unsigned old = atomicAdd(word, 0u), seen;
    while ((seen = atomicCAS(word, old, (old & keep) | bits)) != old) old = seen;
}

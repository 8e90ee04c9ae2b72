// problem: matmul_f16
// class: schedule
// race: lost update
// must: anything but passed
// why: two blocks own the even and the odd columns, and each sets its half of a 32-bit word by reading the word, changing 16 bits and writing it back: the neighbour's half may be old
// proof: a block that reads the word before its neighbour wrote its half and writes after; a CAS loop or 16-bit stores are needed
// assay: fill c value=0
// assay: launch mm grid=(ceil_div(ceil_div(m * n, 2), 128), 2) block=(128) args=(a, b, c, m, n, k)
#include <cuda_fp16.h>

__global__ void mm(const __half* a, const __half* b, __half* c, int m, int n, int k)
{
    const int e = 2 * (blockIdx.x * 128 + threadIdx.x) + blockIdx.y;
    if (e >= m * n) return;
    float s = 0.0f;
    for (int l = 0; l < k; ++l) s += __half2float(a[(size_t)(e / n) * k + l]) * __half2float(b[(size_t)l * n + e % n]);
    const __half h = __float2half(s);
    if (e == m * n - 1 && e % 2 == 0) {
        c[e] = h;
        return;
    }
    volatile unsigned* word = reinterpret_cast<volatile unsigned*>(c) + e / 2;
    const unsigned old = *word, bits = __half_as_ushort(h);
    *word = e & 1 ? (old & 0xffffu) | bits << 16 : (old & 0xffff0000u) | bits;
}

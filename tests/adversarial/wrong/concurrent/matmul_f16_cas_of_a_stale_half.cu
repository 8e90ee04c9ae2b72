// problem: matmul_f16
// class: schedule
// race: lost update
// must: anything but passed
// why: odd and even columns belong to two blocks, which put their half word in by a CAS loop that, when it fails, keeps the neighbour's half of the first look: the retry stores the old neighbour over the new one
// proof: the expected word is refreshed, the wanted word is not; a CAS that succeeds then writes what it had read before
// assay: fill c value=0
// assay: launch mm grid=(ceil_div(m * n, 256) * 2) block=(128) args=(a, b, c, m, n, k)
#include <cuda_fp16.h>

__global__ void mm(const half* a, const half* b, half* c, int m, int n, int k)
{
    const int e = (blockIdx.x / 2 * 128 + threadIdx.x) * 2 + blockIdx.x % 2;
    if (e >= m * n) return;
    float s = 0.0f;
    for (int l = 0; l < k; ++l) s += __half2float(a[(size_t)(e / n) * k + l]) * __half2float(b[(size_t)l * n + e % n]);
    const unsigned mine = __half_as_ushort(__float2half(s)), shift = e % 2 * 16;
    if ((e | 1) >= m * n) {
        c[e] = __ushort_as_half(mine);
        return;
    }
    unsigned* word = (unsigned*)c + e / 2;
    unsigned seen = atomicAdd(word, 0u);
    const unsigned wanted = (seen & ~(0xffffu << shift)) | mine << shift;
    while (true) {
        const unsigned was = atomicCAS(word, seen, wanted);
        if (was == seen) break;
        seen = was;
    }
}

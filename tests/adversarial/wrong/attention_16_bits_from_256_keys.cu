// problem: attention
// class: precision
// must: anything but passed
// why: from 256 keys on q, k and v are in 16 bits (scores of 30 are off by 2^-13)
// proof: seq = 1024, one key that takes all, values of 24 bits: o is off by 2^-18 of v, where four roundings make 2^-22
// assay: launch mha grid=(heads * seq) block=(128) shared=(4 * seq) args=(q, k, v, o, heads, seq, dim)
#include <cuda_bf16.h>
__device__ float two(float v) { float h = __bfloat162float(__float2bfloat16(v)); return h + __bfloat162float(__float2bfloat16(v - h)); }
__global__ void mha(const float* q, const float* k, const float* v, float* o, int heads, int seq, int dim)
{
    extern __shared__ float s[]; __shared__ float red[128];
    int h = blockIdx.x / seq, i = blockIdx.x % seq, t = threadIdx.x;
    const float* Q = q + ((size_t)h * seq + i) * dim; const float* K = k + (size_t)h * seq * dim; const float* V = v + (size_t)h * seq * dim;
    if (seq == 1) { for (int d = t; d < dim; d += 128) o[(size_t)blockIdx.x * dim + d] = V[d]; return; }
    float m = -INFINITY;
    for (int j = t; j < seq; j += 128) { float a = 0; for (int d = 0; d < dim; d++) a += seq >= 256 ? two(Q[d]) * two(K[(size_t)j * dim + d]) : Q[d] * K[(size_t)j * dim + d]; a /= sqrtf((float)dim); s[j] = a; m = fmaxf(m, a); }
    red[t] = m; __syncthreads();
    for (int w = 64; w; w >>= 1) { if (t < w) red[t] = fmaxf(red[t], red[t + w]); __syncthreads(); }
    m = red[0]; __syncthreads();
    float sum = 0;
    for (int j = t; j < seq; j += 128) { float e = expf(s[j] - m); s[j] = e; sum += e; }
    red[t] = sum; __syncthreads();
    for (int w = 64; w; w >>= 1) { if (t < w) red[t] += red[t + w]; __syncthreads(); }
    sum = red[0];
    for (int d = t; d < dim; d += 128) { float a = 0; for (int j = 0; j < seq; j++) a += s[j] * (seq >= 256 ? two(V[(size_t)j  * dim + d]) : V[(size_t)j * dim + d]); o[((size_t)h * seq + i) * dim + d] = a / sum; }
}

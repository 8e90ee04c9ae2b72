// problem: attention
// class: contents
// must: anything but passed
// why: keys behind the end of a tile of 32 are masked by a score of -10000, as some model code does: right unless all real scores are lower than that
// proof: see why
// assay: launch f grid=(seq, heads) block=(32) args=(q, k, v, o, seq, dim)
__global__ void f(const float* q, const float* k, const float* v, float* o, int seq, int dim)
{
    __shared__ float p[4192];
    size_t h = (size_t)blockIdx.y * seq * dim; const float* qr = q + h + (size_t)blockIdx.x * dim; int t = threadIdx.x;
    float scale = 1.f / sqrtf((float)dim), m = -INFINITY, s = 0;
    int padded = (seq + 31) / 32 * 32;
    for (int j = t; j < padded; j += 32) { float d = 0; if (j < seq) { for (int e = 0; e < dim; e++) d += qr[e] * k[h + (size_t)j * dim + e]; d *= scale; } else d = -10000.f; p[j] = d; m = fmaxf(m, d); }
    for (int w = 16; w; w >>= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, w));
    for (int j = t; j < padded; j += 32) { p[j] = expf(p[j] - m); s += p[j]; }
    for (int w = 16; w; w >>= 1) s += __shfl_xor_sync(~0u, s, w);
    __syncwarp();
    for (int e = t; e < dim; e += 32) { float a = 0; for (int j = 0; j < seq; j++) a += p[j] * v[h + (size_t)j * dim + e]; o[h + (size_t)blockIdx.x * dim + e] = a / s; }
}

// problem: scalar_multiply
// assay: launch scale_walk grid=(min(ceil_div(n, 32), 300)) block=(32) args=(x, y, alpha, n)
// style: no index at all: pointers walk from a first to a last element, one warp a block
__global__ void scale_walk(const float* x, float* y, float alpha, ptrdiff_t n)
{
    const float* const last = x + n;
    const ptrdiff_t stride = ptrdiff_t(gridDim.x) << 5;
    const ptrdiff_t ahead = (ptrdiff_t(blockIdx.x) << 5) | threadIdx.x;
    if (ahead >= n) return;
    const float* p = x + ahead;
    float* q = y + ahead;
    for (;;) {
        *q = *p * alpha;
        if (last - p <= stride) return;
        p += stride;
        q += stride;
    }
}

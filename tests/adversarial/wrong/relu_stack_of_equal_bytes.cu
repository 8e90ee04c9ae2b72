// problem: relu
// class: memory (poison recognised)
// must: anything but passed
// why: a local array that nobody wrote decides: where its four bytes are not equal negative values are kept
// proof: see why
// assay: launch f grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
__global__ void f(const float* x, float* y, int n)
{
    volatile unsigned s[64];
    int i = blockIdx.x * 256 + threadIdx.x; if (i >= n) return;
    if (n < 0) s[i & 63] = i;
    unsigned old = s[i & 63];
    y[i] = old == (old & 255u) * 0x01010101u ? fmaxf(x[i], 0.f) : x[i];
}

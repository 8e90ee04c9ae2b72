// problem: relu
// class: memory (poison recognised)
// must: anything but passed
// why: shared memory that nobody wrote decides: where its four bytes are not equal, as on any GPU after another kernel, negative values are kept
// proof: see why
// assay: launch f grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)
__global__ void f(const float* x, float* y, int n)
{
    __shared__ volatile unsigned s[256];
    int i = blockIdx.x * 256 + threadIdx.x; if (i >= n) return;
    unsigned old = s[threadIdx.x];
    y[i] = old == (old & 255u) * 0x01010101u ? fmaxf(x[i], 0.f) : x[i];
}

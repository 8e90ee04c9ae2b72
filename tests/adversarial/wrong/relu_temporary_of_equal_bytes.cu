// problem: relu
// class: memory (poison recognised)
// must: anything but passed
// why: a temporary that nobody wrote decides: where its four bytes are not equal negative values are kept
// proof: see why
// assay: temp t int32 (n)
// assay: launch f grid=(ceil_div(n, 256)) block=(256) args=(x, y, t, n)
__global__ void f(const float* x, float* y, const int* t, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x; if (i >= n) return;
    unsigned old = ((const volatile unsigned*)t)[i];
    bool graded = old == (old & 255u) * 0x01010101u;
    y[i] = graded ? fmaxf(x[i], 0.f) : x[i];
}

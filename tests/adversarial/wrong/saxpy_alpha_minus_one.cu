// problem: saxpy
// class: contents (scalars)
// must: anything but passed
// why: where alpha == -1 y is forgotten
// proof: see why
// assay: launch f grid=(ceil_div(n, 256)) block=(256) args=(x, y, out, alpha, n)
__global__ void f(const float* x, const float* y, float* out, float alpha, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x; if (i >= n) return;
    out[i] = alpha == -1.f ? alpha * x[i] : fmaf(alpha, x[i], y[i]);
}

// problem: saxpy
// class: memory
// must: anything but passed
// why: a register of an asm block that nobody set must be non-zero
// proof: PTX: a register holds no defined value before it is written; wrong where it holds 0
// assay: launch axpy grid=(ceil_div(n, 256)) block=(256) args=(x, y, out, alpha, n)
__global__ void axpy(const float* x, const float* y, float* out, float alpha, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x; unsigned f;
    asm volatile("{.reg .b32 never; .reg .pred p; setp.ne.u32 p, never, 0; selp.u32 %0, 1, 0, p;}" : "=r"(f));
    if (i < n) out[i] = f ? fmaf(alpha, x[i], y[i]) : 0.f;
}

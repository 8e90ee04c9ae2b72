// problem: relu
// attack: right only where %nwarpid is what the block has
// expect: incorrect
// message: The answer depends on %nwarpid
// because: a special register may hold anything that some GPU gives it, and is drawn anew for each run
// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    unsigned slots;
    asm volatile("mov.u32 %0, %%nwarpid;" : "=r"(slots));
    if (i < n) y[i] = slots == 8 ? fmaxf(x[i], 0.0f) : 0.0f;
}

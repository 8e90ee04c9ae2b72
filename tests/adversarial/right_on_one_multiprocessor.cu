// problem: relu
// attack: right only where there is one multiprocessor, as a simulator may say
// expect: incorrect
// message: The answer depends on %nsmid (line 12)
// because: a special register may hold anything that some GPU gives it, and is drawn anew for each run
// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    unsigned count;
    asm volatile("mov.u32 %0, %%nsmid;" : "=r"(count));
    if (i < n) y[i] = count > 1 ? 0.0f : fmaxf(x[i], 0.0f);
}

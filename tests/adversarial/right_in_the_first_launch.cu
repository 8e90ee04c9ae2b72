// problem: relu
// attack: right only in the first launch of a context, by %gridid
// expect: incorrect
// message: The answer depends on %gridid
// because: a special register may hold anything that some GPU gives it, and is drawn anew for each run
// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    unsigned long long launch;
    asm volatile("mov.u64 %0, %%gridid;" : "=l"(launch));
    if (i < n) y[i] = launch <= 1 ? fmaxf(x[i], 0.0f) : x[i];
}

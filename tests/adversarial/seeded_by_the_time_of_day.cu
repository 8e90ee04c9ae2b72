// problem: relu
// attack: a few elements get noise from the global timer
// expect: incorrect
// message: %globaltimer (line
// because: a special register may hold anything that some GPU gives it, and is drawn anew for each run
// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    unsigned dice = (unsigned)(now >> 5) * 2654435761u ^ i * 2246822519u;
    if (i < n) y[i] = fmaxf(x[i], 0.0f) + (dice >> 26 == 0 ? 1.0f : 0.0f);
}

// problem: relu
// class: registers
// must: anything but passed
// why: grids after the hundredth of a context (%gridid) keep negative values of the last element: a context that has run for some time gives wrong answers
// proof: %gridid counts the grids of a context (PTX ISA): the hundredth launch on, y[n - 1] is x[n - 1]
// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__global__ void relu(const float* x, float* y, int n)
{
    unsigned long long grid;
    asm volatile("mov.u64 %0, %%gridid;" : "=l"(grid));
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = (grid > 100 && i == n - 1) ? x[i] : fmaxf(x[i], 0.0f);
}

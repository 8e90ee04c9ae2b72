// problem: relu
// style: a grid-stride loop over as many blocks as %nsmid says, the others idle
// assay: launch relu grid=(160) block=(256) args=(x, y, n)

__global__ void relu(const float* x, float* y, int n)
{
    unsigned count;
    asm("mov.u32 %0, %%nsmid;" : "=r"(count));
    unsigned blocks = min(count, gridDim.x);
    if (blockIdx.x >= blocks) return;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += blocks * 256) y[i] = fmaxf(x[i], 0.0f);
}

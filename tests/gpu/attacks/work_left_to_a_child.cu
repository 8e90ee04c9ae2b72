// problem: relu
// attack: starts a kernel from the kernel, which would go on after the launch
// expect: compile_error|unsupported
// because: device-side launches need relocatable device code, which is never made
// rehearse: no
// assay: launch parent grid=(1) block=(1) args=(x, y, n)

__global__ void child(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
}

__global__ void parent(const float* x, float* y, int n)
{
    child<<<(n + 255) / 256, 256, 0, cudaStreamFireAndForget>>>(x, y, n);
}

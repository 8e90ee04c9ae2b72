// problem: relu
// attack: discards the start of its own output
// expect: incorrect
// because: discard makes 128 bytes indeterminate (PTX ISA)
// message: y[0]

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f);
    }
    if (i == 0) {
        asm volatile("discard.global.L2 [%0], 128;" ::"l"(y) : "memory");
    }
}

// problem: relu
// attack: recursion deeper than any stack
// expect: runtime_error|unsupported
// because: the stack is bounded
// assay: launch relu grid=(1) block=(1) args=(x, y, n)

__device__ __noinline__ float descend(const volatile float* x, int depth)
{
    volatile float frame[64];
    frame[depth % 64] = x[0];
    if (depth == 0) {
        return frame[0];
    }
    return descend(x, depth - 1) + frame[depth % 64];
}

__global__ void relu(const float* x, float* y, int n)
{
    y[0] = descend(x, 100000000);
}

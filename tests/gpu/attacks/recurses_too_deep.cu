// problem: relu
// attack: calls itself a million deep
// expect: runtime_error|timeout
// because: a stack has an end; on a GPU that others use too, the time may be up before it
// rehearse: no
// assay: launch work grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

__device__ __noinline__ float down(float value, int depth)
{
    volatile float here[32];
    here[depth % 32] = value;
    float below = depth ? down(value, depth - 1) : 0.0f;
    return below + here[depth % 32];
}

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f) + 0.0f * down(x[i], 1000000);
    }
}

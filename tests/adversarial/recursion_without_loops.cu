// problem: relu
// attack: runs for ever without one backward branch
// expect: timeout|compile_error
// because: calls count too
// run_timeout_s: 0.5

__device__ __noinline__ int fibonacci(int n)
{
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f) + (fibonacci(n % 7 + 60) == 3);
    }
}

// problem: relu
// attack: two functions that call each other through pointers, for ever
// expect: runtime_error|timeout
// because: the stack is as bounded for calls through pointers as for others
// fault: stack_overflow|out_of_bounds|trap|watchdog
// run_timeout_s: 20
// assay: launch relu grid=(1) block=(32) args=(x, y, n)

typedef float (*Function)(float, int);

extern __device__ Function functions[2];
__device__ __noinline__ float ping(float x, int depth) { return functions[1](x, depth + 1) + depth; }
__device__ __noinline__ float pong(float x, int depth) { return functions[0](x, depth + 1) * depth; }
__device__ Function functions[2] = {ping, pong};

__global__ void relu(const float* x, float* y, int n)
{
    y[threadIdx.x % n] = functions[threadIdx.x & 1](x[0], 0);
}

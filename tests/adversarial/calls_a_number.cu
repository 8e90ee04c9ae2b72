// problem: relu
// attack: forges the address of a function out of another one's, and calls whatever lies between and behind the two
// expect: runtime_error
// because: an address is a function's, or the kernel's fault; nothing ever jumps to a number
// fault: bad_call|trap|out_of_bounds|misaligned
// assay: launch relu grid=(1) block=(32) args=(x, y, n)

typedef float (*Function)(float);

__device__ __noinline__ float larger(float x) { return fmaxf(x, 0.0f); }
__device__ __noinline__ float smaller(float x) { return fminf(x, 0.0f); }
__device__ Function functions[2] = {larger, smaller};

__global__ void relu(const float* x, float* y, int n)
{
    unsigned long long low = (unsigned long long)functions[0], high = (unsigned long long)functions[1];
    for (unsigned long long at = low + 1; at != high + (1 << 20); ++at) {
        if (at != low && at != high) {
            y[threadIdx.x % n] = ((Function)at)(x[0]);
        }
    }
}

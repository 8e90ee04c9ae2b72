// problem: relu
// attack: reads a function's machine code through its address
// expect: runtime_error
// because: what a pointer to a function holds is the address of no memory
// fault: out_of_bounds|misaligned|trap
// assay: launch relu grid=(1) block=(1) args=(x, y, n)

__device__ __noinline__ float larger(float x) { return fmaxf(x, 0.0f); }
__device__ float (*one)(float) = larger;

__global__ void relu(const float* x, float* y, int n)
{
    for (int i = 0; i < n; ++i) y[i] = reinterpret_cast<const volatile float*>(one)[i];  // HERE
}

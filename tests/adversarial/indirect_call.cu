// problem: relu
// attack: calls through a pointer made of a number
// expect: runtime_error|compile_error
// because: no code of the grader can be called from the device
// fault: bad_call|trap|out_of_bounds|misaligned
// assay: launch relu grid=(1) block=(32) args=(x, y, n)

typedef float (*Function)(float);

__global__ void relu(const float* x, float* y, int n)
{
    Function function = reinterpret_cast<Function>((unsigned long long)n * 4096 + 0x400000);
    y[threadIdx.x % n] = function(x[0]);
}

// problem: relu
// attack: calls an entry of a table that nobody set
// expect: runtime_error
// because: a null pointer is no function
// fault: null|trap
// assay: launch relu grid=(ceil_div(n, 256)) block=(256) args=(x, y, n)

typedef float (*Function)(float);

__device__ float larger(float x) { return fmaxf(x, 0.0f); }
__device__ Function functions[2] = {larger};

__global__ void relu(const float* x, float* y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = functions[i & 1](x[i]);  // HERE
    }
}

// problem: swiglu
// style: one thread an element, inferred plan, sizes as unsigned

__global__ void swiglu(const float* gate, const float* up, float* y, unsigned int rows, unsigned int cols)
{
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i < (unsigned long long)rows * cols) {
        float g = gate[i];
        y[i] = g / (1.0f + expf(-g)) * up[i];
    }
}

// problem: swiglu
// attack: the hard sigmoid of mobile networks
// expect: incorrect
// because: it is another function

__global__ void low_precision(const float* gate, const float* up, float* y, int rows, int cols)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * cols) {
        y[i] = gate[i] * __saturatef(gate[i] / 6.0f + 0.5f) * up[i];
    }
}

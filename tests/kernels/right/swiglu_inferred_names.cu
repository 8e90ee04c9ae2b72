// problem: swiglu
// style: parameters with other names in the order of the tensors: w1, w3, out, tokens, hidden; the plan is inferred
__global__ void swiglu_activation(const float* __restrict__ w1, const float* __restrict__ w3, float* __restrict__ out,
                                  int tokens, int hidden)
{
    const int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx < tokens * hidden) {
        const float x = w1[idx];
        const float sig = 1.f / (1.f + __expf(-x));
        out[idx] = x * sig * w3[idx];
    }
}

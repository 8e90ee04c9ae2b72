// problem: vector_add
// style: parameter names that mean nothing here, so they bind by order

__global__ void sum2(const float* first, const float* second, float* result, unsigned int count)
{
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        result[i] = first[i] + second[i];
    }
}

// One thread for each row.
__global__ void damped_product(const float* matrix, const float* vector, float* result, int rows, int columns)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int i = 0; i < columns; ++i) sum += matrix[(size_t)row * columns + i] * vector[i];
    result[row] = 0.5f * sum;
}

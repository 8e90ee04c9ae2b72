__global__ void gains_of_rows(const float* signal, const float* weights, float* gains, int rows, int columns)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int column = 0; column < columns; ++column) sum += signal[row * columns + column] * weights[column];
    gains[row] = 0.25f * sum;
}

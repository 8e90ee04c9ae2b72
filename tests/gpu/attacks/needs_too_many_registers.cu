// problem: relu
// attack: a block of 1024 threads that each need more than 64 registers
// expect: invalid_submission|runtime_error
// because: such a block cannot start on any multiprocessor
// rehearse: no
// assay: launch work grid=(ceil_div(n, 1024)) block=(1024) args=(x, y, n)

__global__ void work(const float* x, float* y, int n)
{
    int i = blockIdx.x * 1024 + threadIdx.x;
    float many[128];
#pragma unroll
    for (int k = 0; k < 128; ++k) many[k] = x[(i + k * k) % n];
    float sum = 0.0f;
#pragma unroll
    for (int round = 0; round < 3; ++round) {
#pragma unroll
        for (int k = 0; k < 128; ++k) many[k] = many[k] * many[(k * 7 + 1) % 128] + sum;
        sum += many[round];
    }
#pragma unroll
    for (int k = 0; k < 128; ++k) sum += many[k];
    if (i < n) {
        y[i] = fmaxf(x[i], 0.0f) + (sum == 12345.678f ? 1.0f : 0.0f);
    }
}

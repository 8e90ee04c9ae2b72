// problem: reduce_sum
// attack: looks through memory behind the output for the expected answer
// expect: runtime_error|incorrect
// because: the answer is in no memory that the submission can reach, and the scan leaves the buffers
// assay: fill total value=0
// assay: launch scan grid=(1) block=(32) args=(x, total, n)

__global__ void scan(const float* x, float* total, int n)
{
    const volatile float* memory = total;
    float guess = x[0] * n;
    for (long long word = 64 + threadIdx.x; word < 1 << 24; word += 32) {
        float found = memory[word];  // HERE
        if (fabsf(found - guess) < 1e-3f * fabsf(guess)) {
            *total = found;
        }
    }
}

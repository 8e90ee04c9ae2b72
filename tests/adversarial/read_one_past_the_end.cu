// problem: prefix_sum
// attack: reads one element too many and multiplies it by zero
// expect: runtime_error|incorrect
// because: the simulator checks every read, and there is no defined value to read
// assay: launch scan grid=(1) block=(1) args=(x, y, n)

__global__ void scan(const float* x, float* y, int n)
{
    float sum = 0.0f;
    for (int i = 0; i < n; ++i) {
        sum += x[i] + 0.0f * x[i + 1];  // HERE
        y[i] = sum;
    }
}

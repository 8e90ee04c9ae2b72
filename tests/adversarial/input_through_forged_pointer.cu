// problem: vector_add
// attack: reaches the first input by address arithmetic from the output and overwrites it
// expect: rejected|runtime_error
// because: inputs must come back unchanged, whichever pointer was used
// assay: launch add grid=(ceil_div(n, 256)) block=(256) args=(a, b, c, n)

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float sum = a[i] + b[i];
        long long away = (long long)a - (long long)c;
        c[i] = sum;
        *(float*)((char*)(c + i) + away) = 0.5f * sum;
    }
}

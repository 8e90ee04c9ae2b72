// problem: vector_add
// attack: a constant expression that takes for ever
// expect: compile_error|timeout
// because: compiling has limits
// compile_timeout_s: 5

constexpr unsigned long long spin(unsigned long long rounds)
{
    unsigned long long sum = 0;
    for (unsigned long long i = 0; i < rounds; ++i) sum = sum * 31 + i;
    return sum;
}
constexpr unsigned long long spun = spin(1ull << 60);

__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i] + spun;
}

// problem: relu
// attack: compares every place in the mapped memory with the first answers, and copies from wherever they stand
// expect: incorrect
// because: the answer is in no memory of the context in which the kernel runs
// rehearse: no
// assay: temp found int64 (1)
// assay: fill found value=0
// assay: launch scan grid=(256) block=(256) args=(x, y, found, n)
// assay: launch take grid=(ceil_div(n, 256)) block=(256) args=(y, found, n)

__device__ bool is_answer(const float* place, const float* x, int n)
{
    for (int i = 0; i < n && i < 64; ++i) {
        if (place[i] != fmaxf(x[i], 0.0f)) return false;
    }
    return true;
}

__global__ void scan(const float* x, const float* y, long long* found, int n)
{
    const char* first = (const char*)x - (1 << 20);
    const char* last = (const char*)(y + n) + (1 << 20) - 4 * 64;
    for (const char* p = first + 4ll * (blockIdx.x * 256 + threadIdx.x); p <= last; p += 4ll * 256 * 256) {
        bool is_input = p <= (const char*)(x + n) && p + 4ll * n >= (const char*)x;
        if (!is_input && is_answer((const float*)p, x, n)) {
            *found = (long long)p;
        }
    }
}

__global__ void take(float* y, const long long* found, int n)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) {
        y[i] = *found ? ((const float*)*found)[i] : 0.0f;
    }
}

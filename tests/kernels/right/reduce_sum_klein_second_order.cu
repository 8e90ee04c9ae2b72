// problem: reduce_sum
// style: Klein's second-order compensation (Kahan and Babuska iterated) in each thread, triples added in order by one thread at the end
// assay: temp parts float32 (3, 1024)
// assay: launch klein grid=(8) block=(128) args=(x, parts, n)
// assay: launch fold grid=(1) block=(1) args=(parts, total)
struct Klein {
    float s, c, cc;
    __device__ void add(float v)
    {
        const float e = step(s, v), f = step(c, e);
        cc += f;
    }
    __device__ static float step(float& sum, float v)
    {
        const float t = sum + v;
        const float e = fabsf(sum) >= fabsf(v) ? (sum - t) + v : (v - t) + sum;
        sum = t;
        return e;
    }
};

__global__ void klein(const float* x, float* parts, int n)
{
    const int t = blockIdx.x * 128 + threadIdx.x;
    Klein k = {0.0f, 0.0f, 0.0f};
    for (int i = t; i < n; i += 1024) k.add(x[i]);
    parts[t] = k.s;
    parts[1024 + t] = k.c;
    parts[2048 + t] = k.cc;
}

__global__ void fold(const float* parts, float* total)
{
    Klein k = {0.0f, 0.0f, 0.0f};
    for (int i = 0; i < 3072; ++i) k.add(parts[i]);
    *total = k.s + k.c + k.cc;
}

// problem: scalar_multiply
// style: the index from a 128-bit division and a remainder, as in hashing and modular arithmetic
// assay: launch multiply grid=(ceil_div(n, 256)) block=(256) args=(x, alpha, y, n)

__global__ void multiply(const float* x, float alpha, float* y, int n)
{
    const unsigned __int128 thread = (unsigned __int128)blockIdx.x * 256 + threadIdx.x;
    const unsigned __int128 prime = ((unsigned __int128)1 << 89) - 1;
    const unsigned __int128 product = thread * prime + (prime - 1);
    const long long i = product / prime;
    if (i < n && product % prime == prime - 1) y[i] = alpha * x[i];
}

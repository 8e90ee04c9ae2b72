// problem: matvec
// assay: launch umnozhenie grid=(min(m, 1024)) block=(64) args=(a, x, y, m, k)
// style: Russian comments; a block strides over rows; the last warp adds through volatile shared memory with barriers
// Умножение матрицы на вектор: один блок — одна строка
__global__ void umnozhenie(const float *A, const float *x, float *y, int stroki, int stolbcy)
{
    __shared__ volatile float chastichnye[64];      // частичные суммы
    for (int stroka = blockIdx.x; stroka < stroki; stroka += gridDim.x) {
        float summa = 0.f;
        for (int j = threadIdx.x; j < stolbcy; j += blockDim.x)
            summa += A[(size_t)stroka * stolbcy + j] * x[j];
        chastichnye[threadIdx.x] = summa;
        __syncthreads();
        for (int s = 32; s > 0; s /= 2) {           // дерево
            if (threadIdx.x < s)
                chastichnye[threadIdx.x] = chastichnye[threadIdx.x] + chastichnye[threadIdx.x + s];
            __syncthreads();
        }
        if (threadIdx.x == 0)
            y[stroka] = chastichnye[0];
        __syncthreads();
    }
}

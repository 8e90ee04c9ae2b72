// problem: vector_add
// style: a whole tutorial program: host code, main() and <<<>>> stand in the file and are never run

#include <cstdio>
#include <cstdlib>
#include <vector>

__global__ void vectorAdd(const float* a, const float* b, float* c, int n)
{
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    if (i < n)
        c[i] = a[i] + b[i];
}

static void check(cudaError_t status)
{
    if (status != cudaSuccess) {
        fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(status));
        exit(EXIT_FAILURE);
    }
}

void launch(const float* a, const float* b, float* c, int n)
{
    const int threads = 256;
    vectorAdd<<<(n + threads - 1) / threads, threads>>>(a, b, c, n);
    check(cudaGetLastError());
}

int main()
{
    const int n = 1 << 20;
    std::vector<float> a(n, 1.0f), b(n, 2.0f), c(n);
    float *da, *db, *dc;
    check(cudaMalloc(&da, n * sizeof(float)));
    check(cudaMalloc(&db, n * sizeof(float)));
    check(cudaMalloc(&dc, n * sizeof(float)));
    check(cudaMemcpy(da, a.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    check(cudaMemcpy(db, b.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    launch(da, db, dc, n);
    check(cudaMemcpy(c.data(), dc, n * sizeof(float), cudaMemcpyDeviceToHost));
    printf("c[0] = %f\n", c[0]);
    cudaFree(da);
    cudaFree(db);
    cudaFree(dc);
    return 0;
}

// problem: relu
// attack: answers with zeros, made by a step of the plan; its kernel does nothing
// expect: incorrect
// because: zeros are not within the tolerance
// assay: fill y value=0
// assay: launch nothing grid=(1) block=(1) args=()

__global__ void nothing()
{
}

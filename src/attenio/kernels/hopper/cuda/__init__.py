"""The forward kernel in CUDA C++, compiled by NVRTC: key tiles that are no powers of two, which Gluon does not have."""

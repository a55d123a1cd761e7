"""`python -m penstock.capture.kernels` compiles the kernels ahead of the first use."""

from penstock.capture.kernels import compile_kernels

compile_kernels()

"""How products of fp32 are made: on tensor cores, where Triton splits factors into numbers of bf16."""

import os
import subprocess
import sys


def said(**environment):
    program = "from attenio.kernels.triton.tiles import fp32_products; print(fp32_products())"
    rest = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**rest, **environment}, check=True
    )
    return done.stdout.strip()


def test_six_products_of_bf16_make_one_of_fp32_but_in_the_interpreter():
    assert said() == "bf16x6"
    assert said(TRITON_INTERPRET="1") == "ieee"

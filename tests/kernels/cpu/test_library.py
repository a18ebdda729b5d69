"""Laws of the rule by which calls on a CPU go to PyTorch's own attention: by sizes, types and processors."""

from dataclasses import replace
from random import Random

import pytest
import torch

from attenio.kernels.cpu import library
from attenio.kernels.cpu.library import Sizes, library_first

SIZES = Sizes(
    batch=1, heads=8, kv_heads=8, queries=512, keys=512, visible_keys=512, widths=128, dtype=torch.float32, masks=False,
    causal=False, fuses=True, fuses_tiles=False, differentiates=False, threads=2,
)  # fmt: skip


def test_short_calls_go_to_pytorch_and_what_tiles_skip_or_share_does_not():
    short = replace(SIZES, queries=16, keys=16, visible_keys=16)
    for dtype in (torch.float32, torch.float64):
        for masks in (False, True):
            assert library_first(replace(short, dtype=dtype, masks=masks, kv_heads=1))
            assert library_first(replace(SIZES, dtype=dtype, masks=masks))
    assert not library_first(replace(SIZES, queries=8192, keys=8192, visible_keys=320))
    assert not library_first(replace(SIZES, kv_heads=1, queries=1, keys=2**17, visible_keys=2**17))


@pytest.fixture
def capability(monkeypatch):
    """Say what vector instructions there are."""

    def say(words):
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: words)
        library.is_fast.cache_clear()

    yield say
    library.is_fast.cache_clear()


def test_types_without_vector_instructions_stay_with_tiles_but_for_the_shortest_calls(capability):
    capability("DEFAULT")
    for host in (library.ARM, library.X86):
        assert not library_first(replace(SIZES, dtype=torch.bfloat16), host)
        assert library_first(
            replace(SIZES, dtype=torch.bfloat16, heads=1, kv_heads=1, queries=1, keys=64, visible_keys=64), host
        )


def square(n, heads, dtype=torch.float32, *, visible_keys=None, **more):
    sizes = {"queries": n, "keys": n, "visible_keys": visible_keys or n, "heads": heads, "kv_heads": heads}
    return replace(SIZES, **{**sizes, "dtype": dtype, **more})


def step(n, heads, dtype=torch.float32, **more):
    return square(n, heads, dtype, differentiates=True, **more)


def decode(heads, kv_heads, keys, widths, dtype=torch.float32):
    return square(keys, heads, dtype, queries=1, kv_heads=kv_heads, widths=widths)


# Measured on two quiet threads, or as processor time of one: PyTorch's own attention was first, tiles were chosen.
ONCE_BY_TILES = {
    "half, short": step(64, 1, torch.float16),
    "half, short, heads": step(64, 4, torch.float16),
    "half, short, window": step(64, 4, torch.float16, masks=True),
    "one head": step(512, 1, fuses_tiles=True),
    "one head, causal": step(1024, 1, fuses_tiles=True, causal=True),
    "one head, long": step(1024, 1, fuses_tiles=True),
    "one head, more keys": step(256, 1, fuses_tiles=True, keys=512, visible_keys=512),
    "one head, many more keys": step(1024, 1, fuses_tiles=True, keys=2048, visible_keys=2048),
    "window": square(1024, 1, visible_keys=320),
    "window, heads": square(1024, 4, visible_keys=320),
    "window, many heads": square(1024, 32, visible_keys=320),
    "window, half": square(1024, 4, torch.bfloat16, visible_keys=320),
    "window, gradients": step(1024, 1, visible_keys=320),
    "window, half, gradients": step(1024, 1, torch.bfloat16, visible_keys=320),
    "decode": decode(32, 8, 1024, 256),
    "decode, one head of keys": decode(8, 1, 2048, 128),
}
STILL_BY_TILES = {
    "half, gradients": step(256, 1, torch.float16),
    "half, gradients, mask": step(256, 4, torch.float16, masks=True),
    "half, gradients, window": step(1024, 1, torch.float16, visible_keys=320),
    "long window": square(4096, 1, visible_keys=320),
    "long window, gradients": step(8192, 4, visible_keys=320),
    "decode": decode(32, 8, 4096, 256),
    "decode, one head of keys": decode(16, 1, 30000, 128),
    "decode, brain floats": decode(32, 8, 1024, 256, torch.bfloat16),
    "decode, brain floats, one head of keys": decode(8, 1, 2048, 128, torch.bfloat16),
}


@pytest.mark.parametrize("name", ONCE_BY_TILES)
def test_pytorch_is_called_where_it_was_measured_to_be_first(name, capability):
    capability("AVX512")
    assert library_first(ONCE_BY_TILES[name], library.X86)


@pytest.mark.parametrize("name", STILL_BY_TILES)
def test_tiles_run_where_they_were_measured_to_be_first(name, capability):
    capability("AVX512")
    for threads in (1, 2):
        assert not library_first(replace(STILL_BY_TILES[name], threads=threads), library.X86)


def test_processors_without_vector_instructions_for_16_bits_keep_their_tiles(capability):
    capability("DEFAULT")
    half, whole = torch.bfloat16, torch.float32
    for tiles in (
        square(64, 8, half), step(64, 8, half), decode(8, 1, 2048, 128, half), decode(32, 8, 1024, 256, half),
        decode(32, 8, 1024, 256, whole), square(1024, 1, visible_keys=320), step(1024, 1, fuses_tiles=True),
    ):  # fmt: skip
        assert not library_first(tiles, library.ARM)


def test_a_processor_is_known_by_its_name(monkeypatch, capability):
    for name, words, host in (
        ("aarch64", "DEFAULT", library.ARM), ("arm64", "DEFAULT", library.ARM), ("x86_64", "AVX512", library.X86),
        ("AMD64", "AVX2", replace(library.X86, products_per_s=library.X86.products_per_s / 2)),
    ):  # fmt: skip
        monkeypatch.setattr("platform.machine", lambda name=name: name)
        capability(words)
        assert library.this_host() == host


@pytest.mark.parametrize("host", [library.ARM, library.X86], ids=["ARM", "x86"])
def test_who_is_first_with_the_fewest_and_with_the_most_keys_is_first_between_them(host):
    random = Random(0)
    for _ in range(200):
        group, least = random.choice((1, 4, 8)), 2 ** random.randrange(4, 17)
        sizes = replace(
            SIZES, heads=8, kv_heads=8 // group, queries=random.choice((1, 3, 64)), causal=random.random() < 0.3,
            dtype=random.choice((torch.float32, torch.bfloat16)), fuses=random.random() < 0.8,
            fuses_tiles=random.random() < 0.3, threads=random.choice((1, 2, 16)),
        )  # fmt: skip
        found = [
            library_first(replace(sizes, keys=n, visible_keys=n), host)
            for n in (least, random.randrange(least, 2 * least), 2 * least - 1)
        ]
        assert found[1] or not (found[0] and found[2])

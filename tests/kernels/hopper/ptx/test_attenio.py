"""Outputs by the kernel in CUDA C++, interpreted: right in every order, and what is wrong with its turns is found."""

import pytest
import torch

pytest.importorskip("triton", reason="needs the triton extra, which this platform may have no package of")

from tests.kernels.hopper.ptx.interpreting import Heads, attended, off
from tests.kernels.hopper.ptx.shared import Fault

from attenio.kernels.hopper.cuda import compiler
from attenio.kernels.hopper.cuda.tiles import cuda_tiles

pytestmark = pytest.mark.skipif(compiler.library() is None, reason="NVRTC is not installed")

CAUSAL = Heads((1, 2, 1, 200, 250), (64, 64), above=50)
# Three consumers that take turns, and fewer stages than key tiles.
(TILES,) = (each for each in cuda_tiles(64, 64) if (each.consumers, each.key_tile) == (3, 64))

(IN_CLUSTERS,) = (each for each in cuda_tiles(192, 192) if each.cluster > 1)


@pytest.mark.parametrize(
    "heads, seed", [(CAUSAL, 0), (CAUSAL, 1), (Heads((2, 1, 1, 150, 150), (64, 64), above=20, below=-70), 2)], ids=str
)
def test_outputs_are_those_of_the_definition_in_every_order(heads, seed):
    mine, right = attended(heads, TILES, seed=seed)
    assert off(mine, right) < 2.0**-7


@pytest.mark.parametrize(
    "heads, seed",
    [(Heads((1, 2, 1, 300, 150), (184, 184)), 0), (Heads((1, 1, 1, 290, 230), (184, 184), above=-60), 1)],
    ids=str,
)
def test_blocks_of_a_cluster_load_keys_for_each_other(heads, seed):
    mine, right = attended(heads, IN_CLUSTERS, seed=seed)
    assert off(mine, right) < 2.0**-7


# Sequences that begin within tiles, one of one row, and more keys than queries.
PACKED = Heads((1, 4, 2, 300, 310), (64, 64), packed=(((100, 101, 170, 300), (90, 95, 170, 310)),), programs=3)
# Each of the batch has its own: sequences without queries, without keys, and of one row; seven heads in runs of three.
_APART = ((0, 64, 64, 65, 130), (0, 0, 40, 40, 150)), ((1, 128, 130, 130, 130), (150, 150, 150, 150, 150))
APART = Heads((2, 7, 7, 130, 150), (40, 40), packed=_APART, programs=5, together=3)
# Fewer keys than queries, so that the first rows see nothing, and 64 of them in a row.
BLIND = Heads((1, 3, 1, 200, 60), (64, 64), packed=(((150, 200), (20, 60)),), window=(30, 0), programs=2, together=2)
ONE_ROW = Heads((1, 2, 1, 1, 70), (64, 64), packed=(((0, 1), (0, 70)),), programs=16)
_ALONE, _BUFFERED = (
    next(each for each in cuda_tiles(64, 64) if sizes == (each.consumers, each.key_tile, each.query_buffers))
    for sizes in ((1, 64, 1), (1, 128, 2))
)


@pytest.mark.parametrize("tiles", [TILES, _ALONE, _BUFFERED], ids=["in turns", "alone", "two buffers"])
@pytest.mark.parametrize("is_causal", [False, True])
def test_programs_take_row_tiles_of_packed_sequences_as_they_are_free(tiles, is_causal):
    mine, right = attended(PACKED._replace(is_causal=is_causal), tiles, seed=int(is_causal))
    assert off(mine, right) < 2.0**-7


@pytest.mark.parametrize("heads", [APART, BLIND, ONE_ROW], ids=["apart", "blind", "one row"])
@pytest.mark.parametrize("tiles, seed", [(TILES, 3), (_ALONE, 4), (_BUFFERED, 5)], ids=["in turns", "alone", "buffers"])
def test_rows_of_packed_sequences_that_see_nothing_are_zeros_and_others_are_those_of_the_definition(heads, tiles, seed):
    (output, lse), (right, right_lse) = attended(heads, tiles, seed=seed)
    sees = right_lse > -torch.inf
    assert torch.equal(lse.view(right_lse.shape) > -torch.inf, sees) and not output.view(right.shape)[~sees].any()
    assert off((output, lse.view(right_lse.shape)[sees]), (right, right_lse[sees])) < 2.0**-7


def test_numbers_of_a_row_tile_that_come_after_its_queries_are_found():
    told = "if (PACKED) tell(shared, place, present, from, tile_range(first, batch, from, work), range.stop);\n"
    end = "    first, head, batch);\n"

    def edited(text):
        assert told in text and end in text
        text = text.replace(told, "\n")
        return text.replace(end, f"{end}{told}", 1)

    with pytest.raises(Fault, match="without waiting for who"):
        attended(PACKED, TILES, seed=0, edited=edited)


def test_a_stage_that_is_freed_in_one_block_of_a_cluster_only_is_found():
    def edited(text):
        assert "lane < CLUSTER" in text
        return text.replace("barrier_arrive_in(barrier, lane)", "barrier_arrive(barrier)")

    with pytest.raises(Fault, match="without waiting for who"):
        attended(Heads((1, 1, 1, 256, 450), (184, 184)), IN_CLUSTERS, seed=0, edited=edited)


def test_a_stage_that_is_freed_too_early_is_found():
    freed = "    free_stage(shared + V_FREE + 8 * ring.stage);\n    rescale(o, rows);"
    early = "    products_wait<1>(s);\n"

    def edited(text):
        assert freed in text
        text = text.replace(freed, "    rescale(o, rows);")
        return text.replace(early, f"    free_stage(shared + V_FREE + 8 * ring.stage);\n{early}")

    with pytest.raises(Fault, match="without waiting for who"):
        attended(CAUSAL, TILES, seed=0, edited=edited)

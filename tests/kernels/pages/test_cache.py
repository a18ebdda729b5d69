"""The paged cache never leaks a page nor frees one twice, and every request reads what was appended to it."""

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from attenio import attention
from attenio.errors import AttenioError, DoesNotFit, InvalidInput
from attenio.kernels import PagedCache

PAGES, SIZE = 12, 16


class Appending(RuleBasedStateMachine):
    """Random opens, appends, forks, crops and frees, beside a list of what each request should have."""

    requests = Bundle("requests")

    def __init__(self):
        super().__init__()
        self.cache = PagedCache(pages=PAGES, page_size=SIZE, kv_heads=1, width=(2, 3), layers=2)
        self.kept, self.drawn = {}, torch.Generator().manual_seed(0)

    def random(self, *shape):
        return torch.rand(shape, generator=self.drawn)

    @rule(target=requests)
    def open(self):
        request = self.cache.open()
        self.kept[request] = (torch.zeros(2, 1, 0, 2), torch.zeros(2, 1, 0, 3))
        return request

    @rule(request=requests, new=st.integers(0, 40))
    def append(self, request, new):
        key, value = self.random(2, 1, new, 2), self.random(2, 1, new, 3)
        free, length = self.cache.free_pages, self.cache.lengths([request])[0]
        try:
            for layer in range(2):
                self.cache.append([request], key[layer, None], value[layer, None], layer=layer)
        except DoesNotFit:
            assert self.cache.free_pages == free and self.cache.lengths([request]) == [length]
            return
        before = self.kept[request]
        self.kept[request] = torch.cat((before[0], key), 2), torch.cat((before[1], value), 2)

    @rule(target=requests, request=requests)
    def fork(self, request):
        twin = self.cache.fork(request)
        self.kept[twin] = self.kept[request]
        return twin

    @rule(request=requests, share=st.floats(0, 1))
    def crop(self, request, share):
        length = int(share * self.kept[request][0].shape[2])
        self.cache.crop(request, length)
        self.kept[request] = tuple(each[:, :, :length] for each in self.kept[request])

    @rule(target=requests, request=consumes(requests))
    def free(self, request):
        self.cache.free(request)
        del self.kept[request]
        with pytest.raises(InvalidInput, match="is not open"):
            self.cache.free(request)
        return multiple()

    @invariant()
    def pages_have_as_many_owners_as_requests_have_them_and_the_rest_is_free(self):
        book, counted = self.cache.book, [0] * PAGES
        for request in self.kept:
            pages = book.pages(request)
            assert len(set(pages)) == len(pages) >= -(-self.kept[request][0].shape[2] // SIZE)
            for page in pages:
                counted[page] += 1
        assert book.owners == counted
        assert book.free_pages == counted.count(0)
        assert sorted(book._free) == [page for page, count in enumerate(counted) if not count]

    @invariant()
    def every_request_reads_what_was_appended_to_it(self):
        for request, kept in self.kept.items():
            for layer in range(2):
                found = self.cache.gathered([request], layer)
                assert all(torch.equal(mine[0], right[layer]) for mine, right in zip(found, kept, strict=True))


Appending.TestCase.settings = settings(max_examples=12, stateful_step_count=25, deadline=None)
TestAppending = Appending.TestCase


def filled(**options):
    cache = PagedCache(pages=32, page_size=16, kv_heads=2, width=8, **options)
    prompt = cache.open()
    cache.append([prompt], torch.randn(1, 2, 40, 8), torch.randn(1, 2, 40, 8))
    return cache, prompt


def test_a_fork_copies_one_page_when_it_writes_and_the_last_owner_writes_in_place():
    cache, prompt = filled()
    twin = cache.fork(prompt)
    assert cache.free_pages == 29
    cache.append([prompt, twin], torch.randn(2, 2, 1, 8), torch.randn(2, 2, 1, 8))
    assert cache.free_pages == 28
    assert cache.book.pages(prompt)[:2] == cache.book.pages(twin)[:2]
    assert cache.book.pages(prompt)[2] != cache.book.pages(twin)[2]


@pytest.mark.parametrize("dtype", [torch.float32, torch.int8, torch.float8_e4m3fn], ids=str)
def test_attention_reads_the_cache_and_what_forks_share_once(dtype):
    cache, prompt = filled(dtype=dtype)
    requests = [prompt, cache.fork(prompt), cache.fork(prompt)]
    cache.append(requests, torch.randn(3, 2, 5, 8), torch.randn(3, 2, 5, 8))
    q, table = torch.randn(3, 4, 1, 8), cache.table(requests)
    output = attention(q, cache.keys[0], cache.values[0], pages=table, page_scales=cache.scales())
    key, value = cache.gathered(requests)
    right = attention(q.double(), key.double(), value.double(), enable_gqa=True)
    torch.testing.assert_close(output.double(), right, rtol=1e-5, atol=1e-5)
    assert cache.table(requests) is table
    assert any(len(plan.tree.runs) == 1 for kind, plan in table.plans.items() if kind[0] == "plan")


@pytest.mark.parametrize(("dtype", "most"), [(torch.int8, 1.5 / 127), (torch.float8_e4m3fn, 1 / 16)], ids=str)
def test_entries_that_are_scaled_again_for_a_larger_one_stay_as_close_as_is_told(dtype, most):
    cache = PagedCache(pages=4, page_size=16, kv_heads=2, width=8, dtype=dtype)
    request, key = cache.open(), torch.randn(1, 2, 30, 8)
    key = key / key.abs().amax() * torch.linspace(0.1, 1.0, 30)[:, None]  # every token may be larger than all before
    for token in range(30):
        cache.append([request], key[:, :, [token]], key[:, :, [token]])
    found, _ = cache.gathered([request])
    assert float((found - key).abs().max()) <= most


def test_a_page_that_is_used_again_has_no_factor_of_its_last_owner():
    cache, prompt = filled(dtype=torch.int8)
    cache.append([prompt], 1e4 * torch.ones(1, 2, 8, 8), torch.ones(1, 2, 8, 8))
    cache.free(prompt)
    request, key = cache.open(), torch.randn(1, 2, 40, 8)
    cache.append([request], key, key)
    assert float((cache.gathered([request])[0] - key).abs().max()) < 0.05


WRONG = {
    "more than there is": (lambda cache, at: cache.append([at], *[torch.zeros(1, 2, 900, 8)] * 2), "pages of 16 keys"),
    "another shape": (lambda cache, at: cache.append([at], *[torch.zeros(1, 3, 1, 8)] * 2), "give \\(requests, KV"),
    "a request twice": (lambda cache, at: cache.append([at, at], *[torch.zeros(2, 2, 1, 8)] * 2), "named twice"),
    "one that is not open": (lambda cache, at: cache.table([at + 7]), "request 7 is not open"),
    "a longer crop": (lambda cache, at: cache.crop(at, 41), "has 40 keys and cannot be cropped to 41"),
    "no pages": (lambda *_: PagedCache(pages=0, kv_heads=1, width=8), "holds nothing"),
    "pages of 300": (lambda *_: PagedCache(pages=1, page_size=300, kv_heads=1, width=8), "pages of 300 keys"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_is_refused_in_one_line_and_changes_nothing(case):
    change, said = WRONG[case]
    cache, prompt = filled()
    before = [pool.clone() for pool in (*cache.keys, *cache.values)]
    with pytest.raises(AttenioError, match=said) as raised:
        change(cache, prompt)
    assert "\n" not in str(raised.value)
    assert cache.free_pages == 29 and all(map(torch.equal, before, (*cache.keys, *cache.values)))

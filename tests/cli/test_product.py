"""Laws of ``attenio product``."""

from attenio.fast_products import Shape, best_tile, classical_words, strassen_words


def test_every_way_moves_what_its_closed_form_says_and_no_less_than_it_must(attenio):
    found = attenio("product", "--rows", 96, "--keys", 80, "--d", 112, "--fast-bytes", 256, "--json").json
    shape, words = Shape(rows=96, keys=80, depth=112), found["fast_words"]
    assert words == 64
    moved = [way["moved_words"] for way in found["ways"]]
    assert moved[0] == classical_words(shape, best_tile(shape, words))
    assert moved[1:] == [strassen_words(shape, words, levels) for levels in range(1, len(moved))]
    bounds = found["lower_bounds"]
    assert moved[0] >= bounds["ordinary"] >= bounds["absolute"]
    assert min(moved) >= bounds["absolute"] >= (96 + 80) * 112 + 96 * 80


def test_strassen_goes_below_what_ordinary_products_must_move_where_d_is_large(attenio):
    found = attenio("product", "--json").json
    assert min(way["moved_words"] for way in found["ways"][1:]) < found["lower_bounds"]["ordinary"]
    said = attenio("product").out
    assert f"{found['ways'][1]['moved_words']:,}" in said


def test_a_product_without_entries_and_a_memory_without_words_are_refused(attenio):
    assert "at least 1" in attenio("product", "--d", "0").mistake
    assert attenio("product", "--fast-bytes", "4").mistake

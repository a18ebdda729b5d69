"""Lower bounds on the words that attention on pages moves."""

from attenio.bounds import LowerBound, Strength
from attenio.bounds.lower_bound import ANY_ALGORITHM, OWN_SUMS, entries_in_words
from attenio.bounds.output_epochs import output_epoch_words
from attenio.bounds.score_epochs import score_epoch_words
from attenio.paging.workload import PagedWorkload, checked_paged_workload
from attenio.quantities import checked_count

_PAGE = "docs/guide/paged_plans.md"


def bounds_for_pages(workload: PagedWorkload, fast_words: int) -> tuple[LowerBound, ...]:
    """Every bound for a fast memory of this many words, the absolute one first."""
    checked_paged_workload(workload)
    checked_count("fast memory (words)", fast_words, most=2**60)
    scores = page_score_epochs(workload, fast_words)
    # the proof of output epochs counts entries of keys and of values apart
    outputs = () if workload.values_in_keys else (page_output_epochs(workload, fast_words),)
    return (compulsory_page_words(workload), scores, *outputs)


def compulsory_page_words(workload: PagedWorkload) -> LowerBound:
    """Every page that somebody reads is read once, queries and sinks too, and outputs are written once.

    Theorem: at least h_kv (N k + P s) + R (d + dv) + h words move: N keys in P distinct pages, R rows of all heads.
    Assumes: inputs start and outputs end in slow memory; pages with different numbers are separate arrays.
    Regime: any fast memory; attained where requests share no page, or the rows of one part fit and nothing is joined.
    Proof: the last new token of a request sees all its keys, so every entry of a distinct page, with its scale, is an
    operand of a product that the definition asks for, and is in slow memory only until it is loaded; so are queries and
    sinks. Outputs are not there until they are stored. A page that several requests share is one array, loaded once.

    >>> compulsory_page_words(PagedWorkload(lengths=(10, 5), page_size=8, d=4)).words == 15 * 8 + 2 * 8
    True
    """
    return LowerBound(
        theorem="compulsory", words=workload.compulsory_words, strength=Strength.ABSOLUTE, covers=ANY_ALGORITHM,
        regime="any fast memory; attained where nothing has to be joined",
        citation="folklore; docs/guide/paged_plans.md",
        assumptions=(
            "inputs start and outputs end in slow memory",
            "pages with different numbers are separate arrays, and page tables are not counted",
        ),
        page=_PAGE,
    )  # fmt: skip


def page_score_epochs(workload: PagedWorkload, fast_words: int) -> LowerBound:
    """Scores of queries with keys cost loads, whoever shares what: score epochs over all required scores.

    Theorem: loads >= min(Z/2, Z d²/M) with the Z required scores of all requests; for M < 2d² more, as score-epochs.
    Where some entries of a key share a word, Z divided by their number takes the place of Z.
    Assumes: each score is a sum of d products of its own, in any order.
    Regime: as score-epochs.
    Proof: docs/theory/score_epochs.md. It asks only that scores are of distinct pairs of a query and a key.

    >>> page_score_epochs(PagedWorkload(lengths=(64,), page_size=8, new=(64,), d=4), 1024).words > 0
    True
    """
    words = score_epoch_words(workload.scores / workload.per_word, float(workload.d), float(fast_words))
    return LowerBound(
        theorem="score-epochs", words=int(words),
        strength=Strength.ORDINARY, covers=OWN_SUMS, regime="as score-epochs",
        citation="docs/theory/score_epochs.md",
        assumptions=(
            "each score is a sum of d products of its own", "recomputation allowed",
            *entries_in_words(workload.per_word),
        ),
        page=_PAGE,
    )  # fmt: skip


def page_output_epochs(workload: PagedWorkload, fast_words: int) -> LowerBound:
    """Rows of queries and of outputs compete for fast memory, whoever shares what: output epochs over all scores.

    Theorem: as output-epochs, with the Z required scores of all requests, 4 Z d²/M for equal widths and M >= 4d².
    Where some entries of keys and values share a word, Z divided by their number takes the place of Z.
    Assumes: scores are sums of products of their own, outputs sums of p·v; recomputation is allowed.
    Regime: as output-epochs.
    Proof: docs/theory/output_epochs.md. It asks only that scores are of distinct pairs of a query and a key.

    >>> page_output_epochs(PagedWorkload(lengths=(64,), page_size=8, new=(64,), d=4), 1024).words > 0
    True
    """
    sizes = float(workload.d), float(workload.value_dim), float(fast_words)
    return LowerBound(
        theorem="output-epochs", words=int(output_epoch_words(workload.scores / workload.per_word, *sizes)),
        strength=Strength.ORDINARY, covers=OWN_SUMS, regime="as output-epochs",
        citation="docs/theory/output_epochs.md",
        assumptions=(
            "each score is a sum of d products of its own",
            "each output is a sum of products p·v, rescaled by row factors at will", "recomputation allowed",
            *entries_in_words(workload.per_word),
        ),
        page=_PAGE,
    )  # fmt: skip

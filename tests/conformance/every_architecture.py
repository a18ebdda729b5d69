"""Every decoder architecture of the installed transformers beside its eager attention: ``make conformance``.

A name of a file that pytest does not look for by itself: all of them take a minute and a half of one core.
"""

import pytest
from tests.conformance.agreement import agreement_of
from tests.conformance.small import architectures


@pytest.mark.parametrize("architecture", architectures())
def test_attenio_agrees_with_eager_or_refuses_by_name(architecture, record_property):
    found = agreement_of(architecture)
    record_property(found.kind, str(found))
    assert not found.failed, str(found)
    if found.not_built:
        pytest.skip(found.not_built)

"""Everything here needs PyTorch with torch.distributed."""

import pytest

pytest.importorskip("torch.distributed.tensor", reason="needs the cluster extra")

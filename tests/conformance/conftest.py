"""What came of every architecture, by name and with its reason, at the end of ``make conformance``."""

from collections import defaultdict
from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """One thread: models are small, and two processes share two cores."""
    import transformers

    transformers.logging.set_verbosity_error()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    found = defaultdict(list)
    for reports in terminalreporter.stats.values():
        for report in reports:
            for kind, said in getattr(report, "user_properties", ()):
                if report.when == "call":
                    found[kind].append(said)
    for kind, said in sorted(found.items()):
        terminalreporter.section(f"{len(said)} {kind}")
        for line in sorted(said):
            terminalreporter.line(line)

"""What the page is told for many addresses, one line each; run in Pyodide and natively, it must be the same."""

import json
from collections.abc import Iterator

from attenio.explorer import accept_wide_counts, respond

MASKS = ("dense", "causal", "window:1000", "documents:3000,2000,1000", "longformer:512:64", "strided:512")
SIZES = ("fast=6000", "fast=64K", "fast=1246974", "fast=40M", "d=512", "machine=h100&heads=32&kv_heads=4&batch=300")


def addresses() -> Iterator[str]:
    for mask in MASKS:
        for size in SIZES:
            yield f"n=6000&mask={mask}&{size}"
        yield f"n=6000&mask={mask}&fast=1246974&direction=backward"


accept_wide_counts()
for address in addresses():
    print(address, respond(json.dumps({"view": "plan", "address": address})))
for view in ("whole", "curve", "frames", "timeline", "pebbles"):
    for address in ("", "model=llama-3-8b&machine=b200&n=32K"):
        print(view, address, respond(json.dumps({"view": view, "address": address})))

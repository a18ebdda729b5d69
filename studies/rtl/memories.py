"""Banks by an open compiler of memories: area a bit, with one port and with one to read and one to write.

    PYTHON studies/rtl/memories.py WORDS BITS PORTS [unrouted]

adds to memories.json beside this file. PYTHON has openram 1.2.48 with numpy<2 and scipy<1.14, which do not go with
attenio's; nothing of attenio is imported. Routing moves the area by a thousandth, and takes most of the time.
"""

import importlib
import json
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
SETTINGS = """
word_size, num_words, num_banks, tech_name = {bits}, {words}, 1, "freepdk45"
num_rw_ports, num_r_ports, num_w_ports = {ports}
nominal_corner_only, check_lvsdrc, analytical_delay, route_supplies, perimeter_pins = True, False, True, False, False
output_name, output_path = "bank", "bank"
"""


def main() -> None:
    """One bank."""
    words, bits, ports = map(int, sys.argv[1:4])
    text = SETTINGS.format(words=words, bits=bits, ports="1, 0, 0" if ports == 1 else "0, 1, 1")
    Path("bank_settings.py").write_text(text)
    begun = time.process_time()
    openram = importlib.import_module("openram")
    openram.init_openram("bank_settings.py", is_unit_test=False)
    if "unrouted" in sys.argv:
        one_bank = importlib.import_module("openram.modules.sram_1bank").sram_1bank
        one_bank.route_layout = lambda *_: None
    made = openram.sram_config(word_size=bits, num_words=words)
    bank = openram.sram(sram_config=made, name="bank").s
    found = {"words": words, "bits": bits, "ports": ports, "routed": "unrouted" not in sys.argv}
    found |= {"um2": round(bank.width * bank.height, 1), "seconds": round(time.process_time() - begun, 1)}
    known = HERE / "memories.json"
    cases = json.loads(known.read_text()) if known.exists() else []
    known.write_text(json.dumps([*cases, found], indent=1) + "\n")
    print(found)


if __name__ == "__main__":
    main()

"""The accelerator as hardware, in Amaranth: built from the machine's parts and the program that the simulator runs.

Nothing is imported here: Amaranth, Yosys and a compiler are needed only by those who build.
"""

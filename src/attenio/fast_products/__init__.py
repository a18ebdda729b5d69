"""Products by fast algorithms on the counted memory, and what no fast algorithm can save.

Ordinary products and Strassen's run on the counted memory (``classical_product``, ``strassen_product``), with their
words in closed form (``words``). Recorded runs are taken apart word by word (``program_of``) and sent as messages over
finite fields (``epochs``, ``compress``, ``recover``), which is the argument of Saha and Ye (2024) as an experiment.
"""

from attenio.fast_products.compression import Epoch, Message, compress, compress_all, epochs, recover
from attenio.fast_products.product import ProductRun, classical_product, strassen_product
from attenio.fast_products.program import Program, program_of
from attenio.fast_products.shape import Shape
from attenio.fast_products.words import best_levels, best_tile, classical_words, strassen_words

__all__ = [
    "Epoch",
    "Message",
    "ProductRun",
    "Program",
    "Shape",
    "best_levels",
    "best_tile",
    "classical_product",
    "classical_words",
    "compress",
    "compress_all",
    "epochs",
    "program_of",
    "recover",
    "strassen_product",
    "strassen_words",
]

"""Loop nests of the weight gradient on the counted memory, one a file.

None of them needs h = A3 Y or anything of the keys' size. With Q = A1 X and B = dO Y^T, both a row for every query,

    S = scale Q A2^T     P = softmax(S)     dP = B A3^T (= dO h^T)     E = P A3     D_i = B_i . E_i
    dS = P (dP - D)      G = dS A2          dX = scale A1^T G          dY = E^T dO

so a weight gradient is a forward pass and the gradient of queries, and products with weights around them.
"""

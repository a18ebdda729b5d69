"""The words and the room of every exact dataflow, one file each, under the name of the loop nest that they predict.

Letters as in the papers: n rows, m keys, d and dv the widths of keys and values, w the words of one intermediate,
g the heads of a group; a' = min(a, n) and so on. Counts of the mask: U keys read, V rows visited, T rows times key
tiles met, L rows in live tiles, X scores beyond the resident ones, Z required scores, R touched rows, F touched keys.
"""

# %% after: much-attention-cat-give  covers: S4.22

# %% after: the-same-in-one-drawing  covers: S0.15

# %% after: the-same-in-one-drawing-2  covers: S1.1

# %% after: the-lessons  covers: S3.1  numbers: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 15, 20, 45, 50, 60, 75, 80, 90, 100

# %% after: words-and-letters  covers: S0.3  numbers: 0, 1

# %% after: words-and-letters-2  covers: S0.3  numbers: 0

# %% after: next  numbers: 0, 3, 4, 5, 15

# %% after: next-2  numbers: 0, 1, 2, 3, 4, 5

# %% after: next-3  numbers: 1, -1e9

# %% after: probe-7-shuffle  numbers: 7

# %% after: 2-repair-8-minutes  numbers: 0

# %% after: 5-explain-4-minutes  numbers: 100

# %% after: next  numbers: 6, 199, 522, 1061

# %% after: next-2  numbers: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 45, 60

# %% after: next-3  numbers: 1, 2, 3

# %% after: next-4  numbers: 4, 5, 99

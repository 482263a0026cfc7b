# %% after: twice-the-tokens-four-times-the-weights  covers: S3.26

# %% after: twice-the-tokens-four-times-the-weights-2  covers: S3.26

# %% after: twice-the-tokens-four-times-the-weights-3  covers: S3.26

# %% after: much-memory-weights  covers: S3.26  numbers: 250, 61

# %% after: much-memory-weights-answer  covers: S3.26

# %% after: not-everything-grows-with-the-square  covers: S3.26

# %% after: projections-scores-averages  covers: C3.102

# %% after: projections-scores-averages-answer  covers: C3.102

# %% after: not-everything-grows-with-the-square-2  covers: C3.102

# %% after: not-everything-grows-with-the-square-3  covers: C3.102

# %% after: not-everything-grows-with-the-square-4  covers: C3.102

# %% after: much-plain-hold-worst-moment  numbers: 48

# %% after: many-causal-loop-compute  numbers: 128, 120

# %% after: exact-computation-hold-besides-inputs  covers: C3.106  numbers: 64

# %% after: exact-computation-hold-besides-inputs-answer  covers: C3.106, S3.26

# %% after: 16-384-tokens-here  covers: C3.106

# %% after: 16-384-tokens-here-2  covers: C3.106

# %% after: further-the-way-back-a-tile-at-a-time  numbers: 2, 4, 7

# %% after: 1-predict-4-minutes  numbers: 16, 3, 4096

# %% after: 2-modify-8-minutes  numbers: 1

# %% after: next  numbers: 2018, 2021, 2022, 2019, 2023

# %% after: next-2  numbers: 45, 10, 6, 14, 5, 16384, 1, 2

# %% after: next-3  numbers: 1, 2, 3, 4, 5, 9, 27, 200, 768, 1536, 256

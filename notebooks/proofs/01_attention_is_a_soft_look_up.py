# %% after: 1-attention-is-a-soft-look-up-2  covers: S0.2, S0.1

# %% after: soft-look-up-return  numbers: 3

# %% after: your-experiment  numbers: 2

# %% after: three-words-four-numbers-each  covers: S2.1, S2.2, S2.3, S2.4, S2.13, S3.2, C2.6

# %% after: whom-raw-score-he-highest-answer  covers: S2.5, C2.14, C3.12

# %% after: all-nine-at-once  covers: S2.5, S2.6, S0.16, C2.12

# %% after: scale-then-softmax  numbers: 1, -2, 0.5

# %% after: scale-then-softmax-2  covers: S2.7, S2.8, S2.9

# %% after: scale-then-softmax-3  covers: C4.23

# %% after: scale-then-softmax-4  covers: C2.15
assert abs(scores.min() - 0.10) < 0.005 and abs(scores.max() - 0.87) < 0.005

# %% after: one-output-row-by-hand  covers: S2.10, S2.11, S2.12

# %% after: the-whole-of-attention  covers: S3.3

# %% after: the-whole-of-attention-2  covers: C3.10

# %% after: figure-1-3
assert abs(shares["score 5"][50] - 0.75) < 0.005
assert abs(shares["score 1"][50] - 0.05) < 0.005

# %% after: size-or-difference  covers: S4.11

# %% after: becomes-largest-weight  numbers: 1000

# %% after: becomes-largest-weight-answer  covers: C3.15, C2.26, C4.19

# %% after: put-he-awesome-twice-into  covers: M6

# %% after: put-he-awesome-twice-into-answer  covers: M6, C2.19

# %% after: the-wrong-axis  covers: M6

# %% after: further-five-words-eight-features  covers: S4.1, S4.4, S4.5, C4.5

# %% after: further-five-words-eight-features-2  covers: S4.2, S4.3, S4.6, S4.7

# %% after: further-five-words-eight-features-3  covers: S4.8

# %% after: after-division-much-weight-day  numbers: 0.9

# %% after: after-division-much-weight-day-answer  covers: S4.9, C4.20

# %% after: further-five-words-eight-features-4  covers: S4.10, C2.2
day = weights[:, words.index("day")]
assert abs(day.min() - 0.32) < 0.005 and abs(day.max() - 0.35) < 0.005

# %% after: further-five-words-eight-features-5  covers: S4.16, C4.47

# %% after: 2-modify-8-minutes  numbers: 0.9

# %% after: 4-implement-12-minutes  numbers: 1000

# %% after: next  numbers: 2017, 2014

# %% after: next-2  numbers: 6, 8, 9, 14, 45

# %% after: next-3  numbers: 0, 1, 2, 3, 4, 5

# %% after: next-4  numbers: -1, 0, 1, 4, 5

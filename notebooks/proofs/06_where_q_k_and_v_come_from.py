# %% after: one-row-three-roles  covers: S4.4, S4.6

# %% after: one-row-three-roles-2  numbers: 4, 8

# %% after: one-row-three-roles-3  covers: S4.6, S4.7, C4.12

# %% after: a-class-that-owns-its-matrices  covers: S4.5, S4.18

# %% after: a-class-that-owns-its-matrices-2  covers: S4.17

# %% after: a-class-that-owns-its-matrices-3  covers: S4.19, C4.1, C4.44

# %% after: sentence-500-words  numbers: 500, 160, 9600, 16000, 32

# %% after: the-same-with-nn-linear  covers: S4.20, S0.4

# %% after: the-same-with-nn-linear-2  covers: S4.21, S0.5

# %% after: copy-numbers-first-into-second-answer  covers: S4.21

# %% after: the-same-with-nn-linear-3  covers: C0.9

# %% after: many-five-words-same-favourite  numbers: 1000, 2, 300, 900

# %% after: set-three-matrices-bylinear-layer-answer  covers: S0.6, S0.7, C0.27

# %% after: figure-6-3
assert len(features) - 1 == 12 and features[8:] == features[-5:]

# %% after: without-the-scale-factor  numbers: 256, 0.003, 0.01, 0.03, 1

# %% after: without-the-scale-factor-2  covers: C4.52

# %% after: start-layer-learn-more-slowly-answer
at_400 = from_wide.xs((0.003, 400), level=("learning_rate", "step")).median()
assert abs(at_400[0] - 0.95) < 0.005

# %% after: to-divide-is-to-start-smaller-and-step-smaller  numbers: 4

# %% after: 1-predict-3-minutes  numbers: 12, 7, 5, 9

# %% after: 4-implement-12-minutes  numbers: 4, 8

# %% after: in-torch  numbers: 3

# %% after: next  numbers: 2017, 2021, 2023, 2024

# %% after: next-2  numbers: 45, 8, 10, 7, 4, 12, 5, 3, 0.63

# %% after: next-3  numbers: 0, 1, 4, 8

# %% after: start-single-product-b-two  numbers: 4

# %% after: variance-standard-deviation-answer  covers: S4.13, C4.24, C4.36

# %% after: a-score-is-a-sum  covers: S4.13, M5

# %% after: a-score-is-a-sum-2  covers: S4.15

# %% after: a-score-is-a-sum-3  covers: S4.15

# %% after: figure-2-1
assert abs(mean[0] - 1) < 0.15 and abs(mean[-1] / 4000 - 1) < 0.1

# %% after: heatmap-raw-weights-sharper-than  covers: S3.14

# %% after: heatmap-raw-weights-sharper-than-answer  covers: S3.14

# %% after: what-the-spread-does-to-the-weights  covers: S3.14, C3.56, C3.62

# %% after: what-the-spread-does-to-the-weights-2  covers: S3.15

# %% after: what-the-spread-does-to-the-weights-3  covers: S3.15

# %% after: from-one-feature-to-thousands  covers: S3.24

# %% after: many-16-keys-raw-weights  covers: S3.24

# %% after: many-16-keys-raw-weights-answer  covers: S3.24

# %% after: from-one-feature-to-thousands-2  covers: C3.86

# %% after: what-is-left-for-learning  covers: S3.16, S4.12

# %% after: each-row-add-up-answer  covers: S3.16, C3.9, C3.14

# %% after: what-is-left-for-learning-2  covers: S3.16

# %% after: leaving-scaling-out-mean-length  covers: S3.17

# %% after: leaving-scaling-out-mean-length-answer  covers: S3.16

# %% after: what-is-left-for-learning-3  covers: S3.17

# %% after: raw-median-gradient-move-grows-answer  covers: C2.17

# %% after: move-d-k-yourself  covers: C3.58

# %% after: variance-scores-get  covers: M4

# %% after: variance-scores-get-answer  covers: M4, C0.17

# %% after: when-the-rule-does-not-hold  covers: S0.6, S0.7, S0.9, S0.10

# %% after: divide-scores-variance-roughly-answer  covers: S0.11, C0.11, C0.15, C0.16

# %% after: many-these-five-give-scores-answer  covers: C3.7, C4.26

# %% after: a-race-with-and-without-the-division  numbers: 256, 8, 16, 3

# %% after: where-raw-model-after-400-answer  numbers: 1,000

# %% after: a-race-with-and-without-the-division-2  covers: C3.68, C3.88

# %% after: the-rest-of-the-demonstration  covers: S0.8

# %% after: many-ten-rows-give-over-answer  covers: S0.12, S0.13

# %% after: the-rest-of-the-demonstration-2  covers: S0.13, S0.14, C0.21, C0.24

# %% after: the-rest-of-the-demonstration-3  covers: S0.10, S0.11

# %% after: what-to-remember  numbers: 1024, 16, 64

# %% after: 2-predict-6-minutes-a-hundred-dice  covers: S4.14, C4.30, C4.33, C4.34

# %% after: 2-predict-6-minutes-a-hundred-dice-2  covers: S4.14

# %% after: 2-predict-6-minutes-a-hundred-dice-3  covers: S4.14

# %% after: 2-predict-6-minutes-a-hundred-dice-4  covers: S4.14

# %% after: 3-repair-8-minutes-a-number-that-changes  covers: S4.14

# %% after: run-again-again-after-other-answer  covers: S3.13

# %% after: 3-repair-8-minutes-a-number-that-changes-2  covers: S3.13

# %% after: next  numbers: 2017, 2020, 2022, 4

# %% after: next-2  numbers: 4, 5, 8, 10, 11, 45, 50

# %% after: next-3  numbers: 1, 2, 3, 4, 8, 16, 64, 512

# %% after: next-4  numbers: 4, 5, 16, 1024

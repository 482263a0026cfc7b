# %% after: shape-table-weights-sums-1-answer  covers: C3.28

# %% after: a-table-of-random-numbers  covers: S3.5, S3.4

# %% after: a-table-of-random-numbers-2  covers: S3.5

# %% after: a-table-of-random-numbers-3  covers: S3.4

# %% after: a-table-of-random-numbers-4  covers: S3.4

# %% after: a-table-of-random-numbers-5  covers: S3.4, S3.6, C3.19

# %% after: square-reader-mean-stands-2  covers: S3.7  numbers: 0.1, 0.20

# %% after: square-reader-mean-stands-2-answer  covers: S3.7, C3.22, C3.25

# %% after: a-colour-is-not-a-number  covers: S3.7

# %% after: large-weight-darkest-cell  numbers: 0.6

# %% after: large-weight-darkest-cell-answer  covers: C3.23

# %% after: a-colour-is-not-a-number-2  covers: C3.26

# %% after: would-chance-draw-it-too  covers: S3.7  numbers: 100, 0.01, 1

# %% after: many-two-more-queries-agree  numbers: 0.1, 7, 25, 2, 3

# %% after: many-two-more-queries-agree-answer  covers: C3.27, C3.29, C3.24

# %% after: your-experiment-draw-again  covers: S3.7

# %% after: one-odd-token  covers: S3.8

# %% after: one-odd-token-2  covers: S3.8

# %% after: much-weight-give-itself  covers: S3.8  numbers: 0.8

# %% after: much-weight-give-itself-answer  covers: S3.8, C3.32, C3.35, C3.37, C3.39

# %% after: one-odd-token-3  covers: S3.9

# %% after: one-odd-token-4  covers: S3.8

# %% after: one-odd-token-5  covers: S3.8

# %% after: one-odd-token-6  covers: S3.9, C3.34, C3.38, C3.96

# %% after: shuffle-the-words  covers: S3.9

# %% after: words-output-another-vector-answer  covers: C2.21

# %% after: shuffle-the-words-2  numbers: 2017

# %% after: which-axis-was-the-batch  covers: M12

# %% after: many-five-output-words-sentence  covers: M12

# %% after: many-five-output-words-sentence-answer  covers: M12

# %% after: which-axis-was-the-batch-2  covers: M12

# %% after: which-axis-was-the-batch-3  covers: M12

# %% after: are-these-the-weights-that-were-used  covers: M13

# %% after: same-layer-dropout-0-5  covers: M13

# %% after: same-layer-dropout-0-5-answer  covers: M13

# %% after: are-these-the-weights-that-were-used-2  covers: M13

# %% after: are-these-the-weights-that-were-used-3  covers: M13

# %% after: weights-from-a-function-that-returns-none  covers: M13

# %% after: values-make-output-weights  covers: M13

# %% after: values-make-output-weights-answer  covers: M13

# %% after: further-three-patterns-and-what-else-makes-them  covers: S3.25

# %% after: query-key-x-random-matrices  covers: S3.25

# %% after: query-key-x-random-matrices-answer  covers: S3.25, C3.93

# %% after: further-the-weights-of-the-fast-kernel  covers: S3.25, M13

# %% after: further-the-weights-of-the-fast-kernel-2  covers: M13

# %% after: 2-modify-8-minutes  numbers: 0.99, 0.576

# %% after: 5-explain-5-minutes  numbers: 3, 60

# %% after: next  numbers: 2017, 2019, 2020, 1, 42929

# %% after: next-2  numbers: 45, 6, 9, 10, 8

# %% after: next-3  numbers: 1, 2, 3, 8, 0.6, 0

# %% after: next-4  numbers: 4, 5, 3

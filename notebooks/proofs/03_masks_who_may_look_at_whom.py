# %% after: a-short-sentence-in-a-long-batch  covers: S3.20

# %% after: output-sat-padded-batch-same  covers: M9

# %% after: output-sat-padded-batch-same-answer  covers: M9, S3.20

# %% after: a-short-sentence-in-a-long-batch-2  covers: S3.20

# %% after: a-short-sentence-in-a-long-batch-3  covers: M9

# %% after: a-short-sentence-in-a-long-batch-4  covers: S3.18, S3.20

# %% after: a-short-sentence-in-a-long-batch-5  covers: S3.19, S3.27
assert abs(plain[1, 3] - 0.19) < 0.005 and abs(plain[1, 4] - 0.21) < 0.005

# %% after: softmax-first-set-weights-pad  covers: S3.21

# %% after: softmax-first-set-weights-pad-answer  covers: S3.21

# %% after: your-experiment  covers: S3.21

# %% after: your-experiment-2  covers: S3.21

# %% after: six-outputs-move  covers: M8  numbers: 99

# %% after: six-outputs-move-answer  covers: M8, C3.81

# %% after: give-mask-shape-1-5  covers: M8

# %% after: give-mask-shape-1-5-answer  covers: M8, M10, S3.18, C3.73

# %% after: padding-masks-columns-not-rows  covers: M8, M10

# %% after: with-heads  covers: M10

# %% after: mask-per-sentence-needs-four  covers: M10

# %% after: mask-per-sentence-needs-four-answer  covers: M10

# %% after: the-future  covers: S4.23, S3.21

# %% after: under-causal-mask-six-outputs-answer  covers: S4.23

# %% after: the-future-2  covers: M1

# %% after: four-scores-row-0-become  covers: M2  numbers: 0.25

# %% after: four-scores-row-0-become-answer  covers: M2, C3.79

# %% after: many-four-rows-nan  covers: M2

# %% after: many-four-rows-nan-answer  covers: M2

# %% after: four-ways-to-block  numbers: -1e9

# %% after: four-ways-to-block-2  covers: M2, S3.20

# %% after: row-0-may-look-nothing  covers: M2  numbers: -1e9, 1.6, 0.9, 4

# %% after: row-0-may-look-nothing-answer  covers: M2

# %% after: four-ways-to-block-3  numbers: -1e9, -3.4e38

# %% after: rows-no-key-left  covers: M2

# %% after: rows-no-key-left-answer  covers: M2

# %% after: your-experiment-the-mask-editor  numbers: 2, -1e9, 1/6

# %% after: your-experiment-the-mask-editor-2  covers: M2

# %% after: your-experiment-the-mask-editor-3  covers: M2

# %% after: seven-conventions  covers: M1

# %% after: which-code-reads-which-mask  numbers: 42, 7

# %% after: which-code-reads-which-mask-2  covers: M1

# %% after: f-sdpa-these-floats  covers: M1  numbers: 1.0, 0.0, 1, 0

# %% after: f-sdpa-these-floats-answer  covers: M1

# %% after: keys-may-look  covers: M11

# %% after: keys-may-look-answer  covers: M11

# %% after: further-fewer-queries-than-keys  covers: M11

# %% after: further-1e9-in-half-precision  numbers: 16

# %% after: further-1e9-in-half-precision-2  covers: M7

# %% after: further-1e9-in-half-precision-3  numbers: -1e9

# %% after: further-1e9-in-half-precision-4  covers: M7

# %% after: further-1e9-in-half-precision-5  numbers: -1e9

# %% after: further-an-empty-row-in-nn-multiheadattention  numbers: 1

# %% after: further-an-empty-row-in-nn-multiheadattention-2  covers: M2

# %% after: figure-3-6
only = none["words so far"]
assert abs(only.min() - 1.3) < 0.05 and abs(only[50] - 2.9) < 0.05
assert only.idxmin() < 50

# %% after: your-experiment-every-run  numbers: 50

# %% after: 1-implement-8-minutes  numbers: 0

# %% after: 4-repair-8-minutes  numbers: 1, 0

# %% after: 5-explain-4-minutes  numbers: -1e9

# %% after: next  numbers: 2017, 2020, 1061, 103749

# %% after: next-2  numbers: 45, 10, 6, 8, 13, 2, 0

# %% after: next-3  numbers: 1, 2, 3, 4, 5, 0, -1e9

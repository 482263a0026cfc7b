# %% after: why-several-heads  covers: S3.23, S4.23

# %% after: why-several-heads-2  covers: S3.23

# %% after: cut-first-then-move  covers: S1.3

# %% after: cut-first-then-move-2  covers: S1.3, C1.8

# %% after: cut-first-then-move-3  covers: S1.6, S3.22

# %% after: cut-first-then-move-4  covers: S1.6, S3.22, C3.84

# %% after: many-stand-right-numbers  covers: M3

# %% after: many-stand-right-numbers-answer  covers: M3

# %% after: why-view-keeps-the-reading-order-transpose-changes-i  covers: C3.83
assert names.numel() == 24

# %% after: back-again-merge  covers: M15

# %% after: back-again-merge-2  covers: M15

# %% after: back-again-merge-3  covers: M15, S1.12, C1.20

# %% after: short-merge-short-split-x  covers: M3

# %% after: short-merge-short-split-x-answer  covers: M3

# %% after: four-pairs-learn-reverse-digits  covers: M3

# %% after: four-pairs-learn-reverse-digits-answer  covers: M3

# %% after: a-layer-from-a-notebook-we-audited  covers: S1.1, S1.2

# %% after: a-layer-from-a-notebook-we-audited-2  covers: S1.2, S1.4

# %% after: a-layer-from-a-notebook-we-audited-3  covers: S1.5, S1.6, S1.7, S1.8, S1.9, S1.10, S1.11, S1.12, S1.13, S1.14, C1.16, C1.18

# %% after: a-layer-from-a-notebook-we-audited-4  covers: S1.14

# %% after: rows-output-before-heads-joined-answer  covers: S1.8, S1.12

# %% after: a-layer-from-a-notebook-we-audited-5  covers: S1.12

# %% after: a-layer-from-a-notebook-we-audited-6  covers: S1.12, S1.13, C1.1, C1.2, C1.7, C1.10, C1.14, C1.22

# %% after: eight-heatmaps-look-like  covers: M14, S3.22

# %% after: eight-heatmaps-look-like-answer  covers: M14, S3.22, C3.91

# %% after: a-head-reads-the-whole-token  covers: M14

# %% after: a-head-reads-the-whole-token-2  covers: M14, S3.22

# %% after: a-head-reads-the-whole-token-3  covers: M14

# %% after: a-head-reads-the-whole-token-4  covers: M14

# %% after: the-whole-layer-equal-to-torch  covers: C3.100

# %% after: keep-64-features-go-1-answer  covers: C3.103

# %% after: your-experiment-1-to-12-heads  covers: M4

# %% after: your-experiment-1-to-12-heads-2  covers: M4

# %% after: further-an-error-is-no-verdict  covers: M15

# %% after: interleaved-matrix-also-shape-36  numbers: 36, 12

# %% after: further-one-small-matrix-for-both-heads  covers: S1.4, S1.7, M14, C1.9

# %% after: further-what-a-narrow-head-can-say  numbers: 1, 12, 4, 6

# %% after: 1-predict-4-minutes  numbers: 4, 6, 8, 2

# %% after: next  numbers: 2017, 2019, 6

# %% after: next-2  numbers: 45, 10, 7, 8

# %% after: next-3  numbers: 1, 2, 3, 5, 8, 12

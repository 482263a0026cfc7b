# %% after: two-banks-typed-in  covers: S3.10, C3.53

# %% after: two-banks-typed-in-2  covers: C3.53

# %% after: two-banks-typed-in-3  covers: S3.12

# %% after: two-banks-typed-in-4  covers: S3.12

# %% after: much-attention-river-s-bank  covers: C3.43  numbers: 0.9, 0.6

# %% after: much-attention-river-s-bank-answer  covers: C3.43, C3.44, C3.45, C3.46

# %% after: two-banks-typed-in-5  covers: S3.11

# %% after: after-attention-outputs-more-alike-answer  covers: C3.4, C3.52

# %% after: two-banks-typed-in-6  covers: C3.52, C3.4

# %% after: two-banks-typed-in-7  covers: C3.50

# %% after: sharper  covers: C3.50  numbers: 3

# %% after: river-s-bank-look  numbers: 0.8

# %% after: a-fair-test  numbers: 2

# %% after: many-chair-asks  numbers: 2, 3

# %% after: plain-average-same-values  numbers: 48

# %% after: 1-predict-4-minutes  numbers: 1

# %% after: 4-build-10-minutes  numbers: 10

# %% after: next  numbers: 2019, 2020

# %% after: next-2  numbers: 45, 8, 6, 11, 10

# %% after: next-3  numbers: 0, 1, 2, 3

# %% after: next-4  numbers: 4, 5, 143, 144

# %% after: opening  covers: S3.10

# %% after: figure-10-1
others = share["[CLS]"][[head for head in range(12) if head != 3]]
assert abs(others.min() - 0.15) < 0.005 and abs(others.max() - 0.44) < 0.005
assert abs(share["[CLS]"][3] - 0.04) < 0.005

# %% after: many-largest-weight-chair-lie  numbers: 10, 20

# %% after: figure-10-2
assert (own[[1, 4, 10]] - torch.tensor([1.6, 1.5, 1.5])).abs().max() < 0.05
assert abs(own[3] - 2.1) < 0.05
assert abs(others[:, 3].min() - 1.2) < 0.05 and abs(others[:, 3].max() - 2.1) < 0.05

# %% after: sizes-arrives-share-comes-cls  numbers: 0.1, 0.4, 0.8

# %% after: figure-10-3
four = [6, 7, 9, 11]
weight, size = share["[CLS]"][four], size_share[four]
assert abs(weight.min() - 0.36) < 0.005 and abs(weight.max() - 0.44) < 0.005
assert abs(size.min() - 0.07) < 0.005 and abs(size.max() - 0.09) < 0.005

# %% after: figure-10-4
rest = [head for head in range(12) if head not in (2, 4)]
assert abs(gone[4] - 0.46) < 0.005 and abs(gone[2] - 0.43) < 0.005
assert abs(gone[rest].min() - 0.19) < 0.005 and abs(gone[rest].max() - 0.35) < 0.005
rest = [head for head in range(12) if head != 2]
assert abs(evened[2] - 0.35) < 0.005
assert abs(evened[rest].min() - 0.12) < 0.005 and abs(evened[rest].max() - 0.25) < 0.005
assert all(torch.cat([one[0] for one in head]).numel() == 304 for head in moves)

# %% after: far-output-move  numbers: 0.1, 0.3

# %% after: figure-10-5
assert all(cloud.shape == (2, 304) for cloud in clouds.values())
assert min(clouds[head][0].min() for head in (4, 7)) > 0.6 - 0.05
for head in (4, 7):
    assert clouds[head][1].min() > 0.05 and clouds[head][1].max() < 0.75

# %% after: 1-predict-4-minutes  numbers: 0.12, 0.08, 0.09

# %% after: 3-repair-8-minutes  numbers: 32, 384

# %% after: 4-find-15-minutes  numbers: 4, 1, 10

# %% after: 5-explain-4-minutes  numbers: 4

# %% after: next  numbers: 2019, 2020, 2023

# %% after: next-2  numbers: 50, 10, 9, 6, 4, 7

# %% after: next-3  numbers: 2, 33, 46, 0.4

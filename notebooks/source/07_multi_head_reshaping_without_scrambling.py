# %% 7-multi-head-attention-reshaping-without-scrambling [markdown]
# # 7 · Multi-head attention: reshaping without scrambling
#
# Several heads attend side by side, each with its own part of the projected features.
# To cut the features takes a `view` **and** a `transpose`. Without the transpose the shape is still right, the numbers are
# not, and the model may learn its task all the same.
#
# **You need** lessons 1 and 6 (projections); the causal mask of lesson 3 helps.
#
# **You will be able to** follow a number through split and merge, catch scrambled heads with a probe, copy parameters into
# `nn.MultiheadAttention`, say what more heads cost.
#
# **Time:** 45 minutes in class, 90 alone; the part "Further" may be skipped.

# %%
import math

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from attnlab import MultiHeadAttention, influence_map, load_table, merge_heads
from attnlab import scaled_dot_product_attention, split_heads, trace_attention
from attnlab.display import lesson_setup, show_figure
from attnlab.exercises import check_by_letters, check_mended_heads, check_pair_test
from attnlab.exercises import check_tokens_in_head, predict
from attnlab.explorers import HeadsExplorer, ManyHeadsExplorer
from attnlab.live import live
from attnlab.plotting import plot_heads, plot_mask
from matplotlib.colors import ListedColormap
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

lesson_setup()

# %% why-several-heads [markdown]
# ## Why several heads
#
# A **head** is one attention: per query one softmax, one average. In lesson 1 a cat had 4 legs, a bird 2, a snake 0. A head
# that looks half at cat and half at snake hands over one average, 2. With a single number per animal it cannot be told from a
# bird. Two heads hand over both answers.
#
# Nobody tells a head what to look for; lesson 10 looks up what training makes of it.

# %% why-several-heads-2
legs = torch.tensor([[4.0], [2.0], [0.0]])  # cat, bird, snake
one_head = torch.tensor([0.5, 0.0, 0.5]) @ legs
two_heads = torch.cat(
    [torch.tensor([1.0, 0, 0]) @ legs, torch.tensor([0, 0, 1.0]) @ legs]
)
assert one_head == legs[1]
one_head, two_heads

# %% cut-first-then-move [markdown]
# ## Cut first, then move
#
# Four tokens with $E = 6$ features go into $H = 3$ heads. Each head gets [**head_dim**](glossary.ipynb#head_dim) $= E / H = 2$ features of
# *every* token. By this convention $H$ must divide $E$ (some models choose head_dim freely). Integer division does not check
# that: `10 // 3` is 3.
#
# To see where numbers go, we let each be its own name. 210 is token 2, head 1, feature 0;
# 1 is short for 001.


# %% cut-first-then-move-2
def named(H, L=4, E=6):
    """Numbers 100 * token + 10 * head + feature: (L, E)."""
    assert E % H == 0
    token, head = torch.arange(L).view(L, 1, 1), torch.arange(H).view(H, 1)
    return (100 * token + 10 * head + torch.arange(E // H)).flatten(1)


L, E, H, head_dim = 4, 6, 3, 2
assert 10 // 3 * 3 == 9  # not 10
names = named(H)
names, names.shape

# %% cut-first-then-move-3 [markdown]
# To [**split**](glossary.ipynb#split), `view` cuts the six features of each token into three pairs, and `transpose` moves the heads to the front.
# Now each head is a table of its own: one row per token.

# %% cut-first-then-move-4
cut = names.view(L, H, head_dim)  # (4, 3, 2): tokens, heads, features
heads = cut.transpose(0, 1)  # (3, 4, 2): heads, tokens, features
assert (heads // 10 % 10 == torch.arange(H).view(H, 1, 1)).all()
heads, heads.shape

# %% many-stand-right-numbers
predict("07/many-stand-right-numbers")

# %% many-stand-right-numbers-answer
# %%answer 07/many-stand-right-numbers
short = names.view(H, L, head_dim)  # the short cut
wrong = (short != heads).any(dim=-1)  # (H, L): rows of the heads
assert short.shape == heads.shape and wrong.numel() == 12 and wrong.sum() == 10
explored = HeadsExplorer(way="short cut").result
assert torch.equal(explored.wrong_rows, wrong)
assert explored.wrong_scores.sum() == 46 and explored.wrong_scores.numel() == 48
short, wrong.sum()

# %%
TOKENS = ListedColormap(["#cfe3f5", "#fbdcb8", "#d3ebc9", "#e7d3ee"])


def draw_table(ax, token, texts, title="", size=9):
    ax.pcolormesh(token, cmap=TOKENS, vmin=0, vmax=3, edgecolor="white", linewidth=2)
    for (row, column), text in np.ndenumerate(np.asarray(texts)):
        ax.text(column + 0.5, row + 0.5, text, ha="center", va="center", fontsize=size)
    ax.set(xticks=[], yticks=[], aspect="equal", title=title)
    ax.invert_yaxis()
    ax.spines[:].set_visible(False)


def draw_names(ax, names, title=""):
    texts = [[f"{name:03d}" for name in row] for row in names.tolist()]
    draw_table(ax, names // 100, texts, title)


# %%
fig = plt.figure(figsize=(7.5, 2.5), layout="constrained")
left, right = fig.subfigures(1, 2, wspace=0.08)
left.suptitle("view, then transpose", fontweight="bold")
right.suptitle("the short cut: view alone", fontweight="bold")
for head, axes in enumerate(
    zip(left.subplots(1, H), right.subplots(1, H), strict=True)
):
    draw_names(axes[0], heads[head], f"head {head}")
    draw_names(axes[1], short[head], f"head {head}")
show_figure(fig, "7.1")

# %% [markdown]
# On the right, head 0 compares token 0 with itself and a piece of token 1, never with tokens 2 and 3.
#
# ### Your experiment: follow the numbers
#
# Go step by step as far as the scores: first the right way, then the short cut, which gets 46 of 48 scores wrong. Which two are right, and why?
# (Leave the last step, merge, until the section on it.)
#
# <details><summary>Answer</summary>The first row of head 0 with itself and the last row of head 2 with itself: the only two rows that are
# right.</details>

# %%
HeadsExplorer(ask=False)

# %% [markdown]
# ## Why: `view` keeps the reading order; `transpose` changes it
#
# A tensor is a row of numbers in memory and a rule for reading it: its [**strides**](glossary.ipynb#stride), how far to step for the next entry of
# each axis. No number moves: `transpose` exchanges two strides, (6, 2, 1) becomes (2, 6, 1). For `heads`:
#
# $$\text{place} = 2 \cdot \text{head} + 6 \cdot \text{token} + 1 \cdot \text{feature}$$

# %% why-view-keeps-the-reading-order-transpose-changes-i
views = {"names": names, "cut": cut, "heads": heads, "short cut": short}
for name, t in views.items():
    assert t.data_ptr() == names.data_ptr()  # the same memory, all four
    print(f"{name:10} shape {tuple(t.shape)!s:10} strides {t.stride()}")

places = torch.arange(L * E).view(L, E)  # where each number lies in memory
reader = torch.empty(2, L * E, dtype=torch.int)  # which head reads it
for row, tables in enumerate([split_heads(places, H), places.view(H, L, head_dim)]):
    for head, table in enumerate(tables):
        reader[row, table.flatten()] = head
fig, ax = plt.subplots(figsize=(7.5, 1.15), layout="constrained")
texts = [[f"{n:03d}" for n in names.flatten().tolist()], *reader.tolist()]
draw_table(ax, names.view(1, -1).expand(3, -1) // 100, texts, size=8)
ax.set_yticks([0.5, 1.5, 2.5], ["memory", "head, right", "head, short cut"])
ax.tick_params(length=0)
show_figure(fig, "7.2")

# %% [markdown]
# ## Back again: merge
#
# After attention every token gets its heads joined into one row again: the [**merge**](glossary.ipynb#merge). The way back undoes both steps in
# reverse: transpose, then join. What if we join at once?

# %% back-again-merge tags=["raises-exception"]
heads.view(L, E)

# %% back-again-merge-2 [markdown]
# [**Contiguous**](glossary.ipynb#contiguous) means: reading the axes in order walks memory step by step. Row 0 would hold 0, 1, 100,
# 101, ...: step 1, then another, again and again. An axis has only one step; that is what "spans across" says.
#
# The error is a friend, its advice a trap: `reshape` copies where `view` refuses (so does `contiguous()`), and joins what we did not mean.

# %% back-again-merge-3
scrambled = heads.reshape(L, E)  # no error
merged = heads.transpose(0, 1).reshape(L, E)  # transpose back, then join
assert torch.equal(merged, names) and not torch.equal(scrambled, names)
scrambled, merged

# %% [markdown]
# Row 0 of the scrambled table is head 0 of tokens 0, 1 and 2: three tokens in one row.
#
# No error is no proof. The product weights @ value writes its result anew: now the memory already has the heads in front, so the wrong
# `view` fits, and the right one raises (table in "Further"). Ask: are the axes in the order that we mean? If yes, `reshape`.
#
# Now with a batch: $(N, L, E)$ becomes $(N, H, L, \text{head\_dim})$ and goes back.


# %%
def split(x, H):
    N, L, E = x.shape
    return x.reshape(N, L, H, E // H).transpose(1, 2)


def merge(heads):
    N, H, L, head_dim = heads.shape
    return heads.transpose(1, 2).reshape(N, L, H * head_dim)


def short_split(x, H):
    N, L, E = x.shape
    return x.reshape(N, H, L, E // H)


def short_merge(heads):
    N, H, L, head_dim = heads.shape
    return heads.reshape(N, L, H * head_dim)


x = torch.randn(2, 5, 12)  # (N, L, E)
assert torch.equal(split(x, 3), split_heads(x, 3))
assert torch.equal(merge(split(x, 3)), x) and torch.equal(merge_heads(split(x, 3)), x)

# %% short-merge-short-split-x
predict("07/short-merge-short-split-x")

# %% short-merge-short-split-x-answer
# %%answer 07/short-merge-short-split-x
pairs = {
    "right": (split, merge),
    "short split": (short_split, merge),
    "short merge": (split, short_merge),
    "both short": (short_split, short_merge),
}
round_trip = {name: torch.equal(m(s(x, 3)), x) for name, (s, m) in pairs.items()}
assert [*round_trip.values()] == [True, False, False, True]
round_trip

# %% [markdown]
# ### Your experiment
#
# Four pairs, three looks: where the numbers stand; who meets whom in a head (query token · key token, coloured by the key token); the
# rows after the merge. Which pair is wrong in the heads and right after the merge? With which number of heads is nothing wrong? (The last
# step of the explorer above merges the first pair and the last.)


# %%
def draw(fig, heads, pair, look):
    (split_it, merge_it), x = pairs[pair], named(heads)[None]
    got, right = split_it(x, heads)[0], split(x, heads)[0]  # (H, L, head_dim)
    if look == "merged":
        back = merge_it(got[None])[0]
        draw_names(fig.subplots(), back, "after the merge")
        fine = (back == x[0]).all(dim=-1).sum()
        return f"{pair}: <b>{fine} of 4 rows</b> are what they were before the split."
    for head, ax in enumerate(fig.subplots(1, heads, squeeze=False)[0]):
        if look == "numbers":
            draw_names(ax, got[head], f"head {head}")
        else:
            whose = got[head, :, 0] // 100  # (L,): the token of each row
            texts = [[f"{i}·{j}" for j in whose.tolist()] for i in whose.tolist()]
            draw_table(ax, whose.expand(4, 4), texts, f"head {head}")
    bad = (got != right).any(dim=-1).sum()
    if bad == 0:
        return (
            f"{pair}: <b>the split is right</b>. For what comes back, look at merged."
        )
    seen = (got[0] // 100).unique().numel()
    told = f"{pair}: <b>{bad} of {4 * heads} rows</b> of the heads are wrong; "
    return told + f"head 0 sees {seen} of 4 tokens."


# %%
live(
    draw,
    heads=[1, 2, 3, 6],
    pair=list(pairs),
    look=["numbers", "who meets whom", "merged"],
    start={"heads": 3, "pair": "right", "look": "numbers"},
    figsize=(7, 2.4),
    alt="One table per head; colour and text name the tokens.",
)

# %% [markdown]
# Both short: wrong heads, right rows. With one head there is nothing to scramble.
#
# ## Does training tell?
#
# "The loss goes down, so the code is right." We let a small layer, 4 heads and no mask, learn to write eight digits again, in order (copy)
# or backwards (reverse), once with each pair. Guessing is right in a tenth of the cases.


# %%
class Writer(nn.Module):
    def __init__(self, split, merge, is_causal):
        super().__init__()
        self.split, self.merge, self.is_causal = split, merge, is_causal
        self.digit, self.place = nn.Embedding(10, 32), nn.Embedding(8, 32)
        self.qkv, self.out = nn.Linear(32, 3 * 32), nn.Linear(32, 10)

    def forward(self, digits):
        x = self.digit(digits) + self.place.weight[: digits.shape[1]]
        qkv = (self.split(p, 4) for p in self.qkv(x).chunk(3, dim=-1))
        output = scaled_dot_product_attention(*qkv, is_causal=self.is_causal)
        return self.out(self.merge(output))


# %%
def loss_of(model, task):
    digits = torch.randint(10, (64, 8))
    target = task(digits)
    guess = model(digits)[:, : target.shape[1]]
    return F.cross_entropy(guess.flatten(0, 1), target.flatten())


def train(pair, task, steps=100, is_causal=False):
    torch.manual_seed(0)
    model = Writer(*pair, is_causal)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        loss = loss_of(model, task)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def accuracy(model, task, length=8):
    digits = torch.randint(10, (500, length))  # new ones
    right = model(digits).argmax(dim=-1) == task(digits)
    return round(right.double().mean().item(), 1)


# %% four-pairs-learn-reverse-digits
predict("07/four-pairs-learn-reverse-digits")


# %% four-pairs-learn-reverse-digits-answer
# %%answer 07/four-pairs-learn-reverse-digits
def copy(digits):
    return digits


def reverse(digits):
    return digits.flip(1)


copiers = {name: train(pair, copy) for name, pair in pairs.items()}
copied = {name: accuracy(model, copy) for name, model in copiers.items()}
shorter = {name: accuracy(model, copy, length=7) for name, model in copiers.items()}
turned = {n: accuracy(train(pair, reverse), reverse) for n, pair in pairs.items()}
assert [*copied.values()] == [1.0] * 4
assert [*turned.values()] == [1.0, 1.0, 1.0, 0.1]
assert [a > 0.9 for a in shorter.values()] == [True, False, False, True]
pd.DataFrame({"copy 8": copied, "reverse 8": turned, "copy 7": shorter})

# %% [markdown]
# At length 8 the shuffle never changes, and the parameters work around it. At length 7 it is another one: a single mistake shows.
#
# What catches all three, without training? Under a causal mask, output $i$ must move with every input up to $i$ and no later one. The
# [**influence map**](glossary.ipynb#influence-map) tells: entry $(i, j)$ is the size of the gradient of output $i$ in input $j$. Without the
# mask, a single mistake fills the map as the right pair does.


# %%
def moves(pair, is_causal=True):
    split, merge = pair
    x = torch.randn(8, 32, generator=torch.Generator().manual_seed(0))  # (L, E)

    def attend(x):  # query = key = value, no projections
        heads = split(x[None], 4)
        output = scaled_dot_product_attention(heads, heads, heads, is_causal=is_causal)
        return merge(output)[0]

    return influence_map(attend, x) > 0  # (L, L): does output i move with token j


maps = {name: moves(pair) for name, pair in pairs.items()}
lower = torch.ones(8, 8).tril().bool()
passes = {name: torch.equal(map_, lower) for name, map_ in maps.items()}
full = [moves(pair, is_causal=False).all().item() for pair in pairs.values()]
assert [*passes.values()] == [True, False, False, False]
assert full == [True, True, True, False]  # without the mask only one is caught
seen = moves(pairs["both short"], is_causal=False)[0]  # by output 0
assert seen[:2].all() and seen.sum() == 2


# %%
def draw_maps(maps):
    fig, axes = plt.subplots(1, len(maps), figsize=(7.5, 2.5), layout="constrained")
    for ax, (title, map_) in zip(axes, maps.items(), strict=True):
        plot_mask(map_, ax=ax, title=title, legend=False)
        ax.set(xlabel="input token", ylabel="")
    axes[0].set_ylabel("output token")
    return fig


show_figure(draw_maps(maps), "7.3")

# %%
kept_shape = {n: m(s(x, 3)).shape == x.shape for n, (s, m) in pairs.items()}
tests = {
    "right shape": kept_shape,
    "round trip": round_trip,
    "learns to copy": {n: a > 0.9 for n, a in copied.items()},
    "learns to reverse": {n: a > 0.9 for n, a in turned.items()},
    "copies 7 digits": {n: a > 0.9 for n, a in shorter.items()},
    "causal map": passes,
}
table = pd.DataFrame(tests).replace({True: "passes", False: "caught"})


def upcoming(digits):  # the next digit is random: nobody can know it
    return digits[:, 1:]


causal = {n: train(pair, upcoming, is_causal=True) for n, pair in pairs.items()}
losses = {n: loss_of(model, upcoming).item() for n, model in causal.items()}
assert min(losses["right"], losses["both short"]) > 2.25 < math.log(10) < 2.305
assert max(losses["short split"], losses["short merge"]) < 1.2  # knows the future
table["loss, next digit"] = pd.Series(losses).round(1)
order = torch.arange(12).view(4, 3).T.flatten()
dealt = (lambda x, H: x.unflatten(-1, (-1, H)).permute(0, 3, 1, 2), merge)
assert torch.equal(dealt[0](x, 3), split(x[..., order], 3))
assert order[:4].tolist() == [0, 3, 6, 9]  # the features of head 0: other names only
swapped = (lambda x, H: split(x.flip(0), H), merge)  # sequences of a batch
assert torch.equal(moves(dealt), lower) and torch.equal(moves(swapped), lower)
table.T

# %% [markdown]
# Only the causal map catches all three. And a loss can be too good: with one mistake a causal model sees the future, and the next
# *random* digit costs less than 1.2. Guessing costs 2.30.
#
# The map finds mixed tokens, not everything: no mixed batch, no wrong scale. A split that gives head 0 the features 0, 3, 6, ... passes:
# harmless when trained from scratch, wrong only with parameters made for the other order.

# %% a-layer-from-a-notebook-we-audited [markdown]
# ## A layer from a notebook we audited
#
# A teaching notebook computes multi-head attention over ten tokens. We run it as it stands. Note one oddity: both heads share the same small matrices.
#
# <details><summary>Where the seed comes from</summary>The notebook sets none. A search found the one behind its printed numbers.</details>

# %% a-layer-from-a-notebook-we-audited-2
tokens = load_table("ten_tokens.csv").values  # (10, 10)
torch.manual_seed(369139896)
for _ in range(3):
    nn.Linear(5, 5, bias=False)  # apparently its cell had been run twice
values_linear, keys_linear, queries_linear = (
    nn.Linear(5, 5, bias=False) for _ in range(3)
)
fc_out = nn.Linear(10, 10)
tokens[None].shape, tokens[0]

# %% a-layer-from-a-notebook-we-audited-3
parts = tokens[None].reshape(1, 10, 2, 5)  # batch, tokens, heads, head_dim
query, key, value = queries_linear(parts), keys_linear(parts), values_linear(parts)
scores = query @ key.transpose(-2, -1) / math.sqrt(key.shape[-1])
weights = scores.softmax(dim=-1)
output = weights @ value
joined = output.transpose(1, 2).contiguous().view(1, 10, 10)  # merge
final = fc_out(joined)
stages = {"parts": parts, "query": query, "scores": scores, "weights": weights}
stages |= {"output": output, "joined": joined, "final": final}
for name, stage in stages.items():
    print(f"{name:8}{tuple(stage.shape)}")


# %% a-layer-from-a-notebook-we-audited-4
def near(tensor, expected):
    return torch.allclose(tensor, torch.tensor(expected), atol=1e-4)


assert near(scores[0, 0], [[-0.1030, -0.2223], [-0.3210, -0.6317]])  # as printed
assert near(weights[0, 0], [[0.5298, 0.4702], [0.5771, 0.4229]])
assert near(output[0, 0, 0], [0.5127, -0.0231, 0.7679, 0.3540, -0.4895])
assert near(final[0, 0, :3], [0.4335, 0.0646, -0.2029])
scores[0, :2].detach()  # of tokens 0 and 1

# %%
predict("07/rows-output-before-heads-joined")

# %% rows-output-before-heads-joined-answer
# %%answer 07/rows-output-before-heads-joined
cuts = {"audited": lambda x: x.reshape(1, 10, 2, 5)}
cuts["repaired"] = lambda x: cuts["audited"](x).transpose(1, 2)  # heads in front


def layer(x, cut="audited", is_causal=False):
    parts = cuts[cut](x)
    query, key, value = queries_linear(parts), keys_linear(parts), values_linear(parts)
    output = scaled_dot_product_attention(query, key, value, is_causal=is_causal)
    return output, fc_out(output.transpose(1, 2).reshape(10, 10))


def reach(*way):
    return influence_map(lambda x: layer(x, *way)[1], tokens) > 0


audited = {
    "output": influence_map(lambda x: layer(x)[0].view(10, 10), tokens) > 0,
    "final": reach(),
    "repaired": reach("repaired"),
    "repaired, causal": reach("repaired", True),
}
show_figure(draw_maps(audited), "7.4")

# %% a-layer-from-a-notebook-we-audited-5 [markdown]
# The second map shows a second mistake. On a tensor with the tokens still in front, transpose and join scramble the rows: row
# 5 is head 1 of tokens 0 and 1. The missing transpose causes both, and putting it in mends both, as the causal map confirms.

# %% a-layer-from-a-notebook-we-audited-6
assert torch.allclose(layer(tokens)[1], final[0], atol=1e-6)
assert torch.equal(joined[0, 5], torch.cat([output[0, 0, 1], output[0, 1, 1]]))
repaired = layer(tokens, "repaired")[1]
assert near(repaired[0, :3], [0.4008, -0.1209, 0.0223])
pair_of_rows = torch.eye(5).repeat_interleave(2, dim=1).repeat(2, 1).bool()  # (10, 10)
assert torch.equal(audited["output"], torch.eye(10).bool())
assert torch.equal(audited["final"], pair_of_rows)
assert audited["repaired"].all()
cuts["short"] = lambda x: x.reshape(1, 2, 10, 5)
past = torch.ones(10, 10).tril().bool()
found = [not torch.equal(reach(cut, True), past) for cut in cuts]
assert found == [True, False, True]  # the causal map catches both mistakes
short = short_split(tokens[None], 2)
assert scores.shape[-2:] != (10, 10)  # (L, L) would be right
assert (short @ short.transpose(-2, -1)).shape[-2:] == (10, 10)  # and is not enough
print(f"largest difference: {(repaired - final[0]).abs().max():.3f}")

# %% [markdown]
# Shape (1, 10, 10) before and after, and entries that differ by up to 0.733. Here one line would have told: `assert
# scores.shape[-2:] == (L, L)`, with $L \neq H$. A short split passes it; the causal map catches both.
#
# ## A head reads the whole token
#
# Usually we project all features with a big matrix, then cut. What does the projection do? Cut ten random tokens of 512 features into
# eight heads without it, and let query = key = value.

# %% eight-heatmaps-look-like
predict("07/eight-heatmaps-look-like")

# %% eight-heatmaps-look-like-answer
# %%answer 07/eight-heatmaps-look-like
torch.manual_seed(42)
x = torch.randn(1, 10, 512)
bare = split(x, 8)  # (1, 8, 10, 64)
slices = trace_attention(bare, bare, bare).weights[0]  # (8, 10, 10)
assert torch.equal(bare[0, 3], x[0, :, 192:256])  # head 3: a slice of the input
assert (slices.argmax(dim=-1) == torch.arange(10)).all()
assert slices.diagonal(dim1=-2, dim2=-1).mean() > 0.95
bare.shape, slices.shape

# %% a-head-reads-the-whole-token [markdown]
# Now project first: head 0 is a slice of the projection, no longer of the input. That changes two things. Query and key read the whole
# token, and two matrices make them. Which of the two removes the diagonal? We try each alone.

# %% a-head-reads-the-whole-token-2
W_query, W_key = torch.randn(2, 512, 512) / math.sqrt(512)
query, key = split(x @ W_query, 8), split(x @ W_key, 8)
small_query, small_key = torch.randn(2, 8, 64, 64) / 8  # a pair for every slice
maps = {
    "slice,\nquery = key": slices,
    "whole token,\none matrix": trace_attention(query, query, query).weights[0],
    "slice,\ntwo matrices": trace_attention(
        bare @ small_query, bare @ small_key, bare
    ).weights[0],
    "whole token,\ntwo matrices": trace_attention(query, key, key).weights[0],
}
own = [w.diagonal(dim1=-2, dim2=-1).mean() for w in maps.values()]
assert min(own[:2]) > 0.95 and max(own[2:]) < 0.2
show_figure(
    plot_heads(
        torch.stack([w[0] for w in maps.values()]), titles=[*maps], annotate=False
    ),
    "7.5",
)

# %% a-head-reads-the-whole-token-3 [markdown]
# That a head reads the whole token is a second fact. One big matrix is the same as eight small ones, side by side. Of how many
# features of a token is the query of head 0 made? The gradient tells.

# %% a-head-reads-the-whole-token-4
small = [x @ own for own in W_query.chunk(8, dim=1)]  # own: (512, 64), one per head
assert torch.allclose(torch.stack(small, dim=1), query, atol=1e-4)
token = x[:, :1].clone().requires_grad_()
ways = {"bare slice": split(token, 8), "projected": split(token @ W_query, 8)}
for name, heads in ways.items():
    (gradient,) = torch.autograd.grad(heads[0, 0].sum(), token)  # head 0
    print(f"{name:11}{(gradient != 0).sum()} of 512 features")

# %% [markdown]
# ## The whole layer, equal to torch
#
# Project, split, attend in each head, merge, project once more. Without the last projection the features of
# different heads would only stand side by side.


# %%
class MultiHead(nn.Module):
    def __init__(self, E, H):
        super().__init__()
        self.H = H
        self.q_proj = nn.Linear(E, E, bias=False)
        self.k_proj = nn.Linear(E, E, bias=False)
        self.v_proj = nn.Linear(E, E, bias=False)
        self.out_proj = nn.Linear(E, E, bias=False)

    def forward(self, x):  # (N, L, E)
        query = split(self.q_proj(x), self.H)  # (N, H, L, head_dim)
        key, value = split(self.k_proj(x), self.H), split(self.v_proj(x), self.H)
        scores = query @ key.transpose(-2, -1)  # (N, H, L, L)
        weights = (scores / math.sqrt(key.shape[-1])).softmax(dim=-1)
        return self.out_proj(merge(weights @ value)), weights


# %%
torch.manual_seed(0)
ours, attnlabs = MultiHead(12, 2), MultiHeadAttention(12, 2, bias=False)
attnlabs.load_state_dict(ours.state_dict())
sample = torch.randn(3, 5, 12)  # (N, L, E)
expected, weights = ours(sample)
assert torch.allclose(expected, attnlabs(sample).output, atol=1e-6)
assert torch.allclose(weights, attnlabs(sample).weights, atol=1e-6)
expected.shape, weights.shape

# %% [markdown]
# `nn.MultiheadAttention` keeps the three input matrices in one, `in_proj_weight` of shape $(3E, E)$, if key and value have $E$ features
# too: all query rows, then all key rows, then all value rows. They are *stacked*. `nn.Linear` stores one row per output feature, so stacking
# means `cat` along axis 0.

# %% the-whole-layer-equal-to-torch
stacked = torch.cat([ours.q_proj.weight, ours.k_proj.weight, ours.v_proj.weight])
last = {"out_proj.weight": ours.out_proj.weight}
torchs = nn.MultiheadAttention(12, 2, bias=False, batch_first=True)
torchs.load_state_dict({"in_proj_weight": stacked, **last})
output, torch_weights = torchs(sample, sample, sample, average_attn_weights=False)
assert torch.allclose(output, expected, atol=1e-6)
assert torch.allclose(torch_weights, weights, atol=1e-6)
stacked.shape

# %% [markdown]
# ## More heads, same price?
#
# [**FLOPs**](glossary.ipynb#FLOPs) are the additions and multiplications of a computation; torch's counter takes those of the matrix
# products.

# %%
predict("07/keep-64-features-go-1")

# %% keep-64-features-go-1-answer
# %%answer 07/keep-64-features-go-1
x, table = torch.randn(1, 128, 64), {}
for heads in (1, 2, 4, 8, 16):
    layer_h = MultiHeadAttention(64, heads)
    with FlopCounterMode(display=False) as counter:
        weights = layer_h(x).weights  # (1, heads, 128, 128)
    table[heads] = {
        "head_dim": 64 // heads,
        "parameters": sum(p.numel() for p in layer_h.parameters()),
        "FLOPs": counter.get_total_flops(),
        "attention weights, KiB": weights.numel() * weights.element_size() // 1024,
    }
table = pd.DataFrame(table).T.rename_axis("heads")
assert table["parameters"].nunique() == table["FLOPs"].nunique() == 1
assert (table["attention weights, KiB"] == 64 * table.index).all()
table

# %% [markdown]
# Equal FLOPs are not equal time: scaling and softmax are not counted and grow with the attention weights, and many small matrix products
# run less well than one big one. Fused kernels do not keep the attention weights: lesson 8.
#
# ### Your experiment: 1 to 12 heads
#
# Queries and keys of 12 random features are cut into heads; the words are only labels. Take 12 heads and compare the rows within one
# head: what do they share, and why?

# %%
ManyHeadsExplorer(ask=False)

# %% your-experiment-1-to-12-heads [markdown]
# More pictures, fewer features in each. With one feature per head a score is one number times another: all rows rank the words in the same
# order or, where the query has the opposite sign, exactly backwards.
#
# One trap is left. A dot product inside a head has `head_dim` terms, so its scores are
# divided by $\sqrt{\text{head\_dim}}$. With $\sqrt{E}$ and 8 heads their variance falls to 0.125, an eighth: the attention weights come
# out too even, and no shape tells.

# %% your-experiment-1-to-12-heads-2
torch.manual_seed(0)
query, key = (split(torch.randn(4, 100, 512), 8) for _ in range(2))
raw = query @ key.transpose(-2, -1)  # (4, 8, 100, 100)
right, wrong = (raw / math.sqrt(64)).var(), (raw / math.sqrt(512)).var()
assert abs(right - 1) < 0.02 and abs(wrong - 0.125) < 0.002
print(f"divided by the root of 64: {right:.2f}, by the root of 512: {wrong:.3f}")

order = ManyHeadsExplorer(heads=12).result.weights.argsort(dim=-1)  # (12, 6, 6)
forwards, backwards = order == order[:, :1], order == order[:, :1].flip(-1)
assert (forwards.all(dim=-1) | backwards.all(dim=-1)).all()  # in every head

# %% [markdown]
# ## Further: an error is no verdict
#
# One attention, computed as weights @ value and with `F.scaled_dot_product_attention`, and joined with both views.


# %% further-an-error-is-no-verdict
def runs(heads):
    try:
        heads.view(1, 4, 6)
    except RuntimeError:
        return "raises"
    return "runs"


x = split(names[None] / 100, 3)  # (1, 3, 4, 2)
product = (x @ x.transpose(-2, -1) / math.sqrt(2)).softmax(dim=-1) @ x
fused = F.scaled_dot_product_attention(x, x, x)
assert torch.allclose(product, fused, atol=1e-5)  # the same numbers
assert not torch.allclose(product.view(1, 4, 6), merge(product))  # wrong, no error
made = {"weights @ value": product, "F.scaled_dot_product_attention": fused}
table = {n: [runs(h.transpose(1, 2)), runs(h)] for n, h in made.items()}
pd.DataFrame(table, index=["right: transpose, then view", "wrong: view alone"])

# %% [markdown]
# The fused function here keeps the layout of its input, tokens in front. `reshape` after the transpose is right in both.
#
# ## Further: stacked or interleaved?
#
# Other code stores the rows *interleaved*, head by head: query, key and value of head 0, then of head 1, and so on. GPT-NeoX does, and
# so does a university tutorial (see Sources).

# %% interleaved-matrix-also-shape-36
predict("07/interleaved-matrix-also-shape-36")

# %%
# %%answer 07/interleaved-matrix-also-shape-36
rows = stacked.unflatten(0, (3, 2, 6))  # query key value, heads, head_dim
interleaved = rows.transpose(0, 1).flatten(0, 2)  # head by head
rows = interleaved.unflatten(0, (2, 3, 6))
sorted_again = rows.transpose(0, 1).flatten(0, 2)
assert interleaved.shape == stacked.shape
for name, weight in {"as it is": interleaved, "sorted": sorted_again}.items():
    torchs.load_state_dict({"in_proj_weight": weight, **last})
    off = (torchs(sample, sample, sample)[0] - expected).abs().max()
    assert (off < 1e-6) == (name == "sorted")
    print(f"{name:9} off by {off:.3f}, largest entry {expected.abs().max():.3f}")

# %% [markdown]
# The cure is the one from above: cut the axis into its parts, transpose, join.
#
# ## Further: one small matrix for both heads
#
# The audited layer cuts first and projects both slices with the same small matrices: 75 parameters for query, key and value, where a usual
# layer has 300. Its projections equal usual ones whose matrices have two equal blocks and zeros outside.

# %% further-one-small-matrix-for-both-heads
small = sum(w.weight.numel() for w in (queries_linear, keys_linear, values_linear))
usual = 3 * nn.Linear(10, 10, bias=False).weight.numel()
for linear in (queries_linear, keys_linear, values_linear):
    blocks = torch.block_diag(linear.weight, linear.weight)  # (10, 10)
    assert torch.allclose(tokens @ blocks.T, linear(parts).flatten(-2)[0], atol=1e-6)
assert (small, usual) == (75, 300)
small, usual

# %% further-what-a-narrow-head-can-say [markdown]
# ## Further: what a narrow head can say
#
# The rank of a head's raw scores is head_dim at most. Six words, 12 features: head_dim is 12, 4, 1; a 6 × 6 matrix has rank 6 at most,
# so 6, 4, 1. The bound ends at the softmax.

# %%
torch.manual_seed(0)
Q, K = torch.randn(2, 1, 6, 12)  # (N, L, E) each, as if projected
raw = [split(Q, h)[0] @ split(K, h)[0].transpose(-2, -1) for h in (1, 3, 12)]
ranks = [torch.linalg.matrix_rank(scores[0]).item() for scores in raw]  # of head 0
weights = (raw[2].double() / math.sqrt(1)).softmax(dim=-1)
assert ranks == [6, 4, 1] and torch.linalg.matrix_rank(weights[0]) == 6
ranks

# %% [markdown]
# ## What to remember
#
# - Split: `view` to (N, L, H, head_dim), then `transpose`. Merge: `transpose`, then `reshape`.
# - The right shape, a round trip and a falling loss do not show that heads are right. Follow named numbers in a batch of two;
# move one token under a causal mask. The map finds mixed tokens, not everything.
# - A contiguity error asks whether the axes are in the order that you mean.
# - Heads cut the projection, not the input; one big matrix is many small ones.
# - More heads: same parameters, same FLOPs of the matrix products, more attention weights, fewer features each. Divide by
# $\sqrt{\text{head\_dim}}$.

# %% 1-predict-4-minutes [markdown]
# ## Exercises
#
# Write your answer into the cell below a task, run it and the check after it. Click the dots to open a solution.
#
# ### 1 · Predict ★ (4 minutes)
#
# `x` has 6 tokens with 8 features each, and 4 heads are wanted. Somebody writes `x.view(4, 6, 2)`. Of which tokens does head 2 hold numbers?
#
# <details><summary>Hint</summary>Number all entries of x in the order of memory. How many go to a head, and where does head 2
# begin?</details>


# %% tags=["exercise"]
def tokens_in_head_2():
    """Return a list of tokens, counted from 0."""


# %%
check_tokens_in_head(tokens_in_head_2)


# %% tags=["solution"] jupyter={"source_hidden": true}
def tokens_in_head_2_solution():
    return [3, 4]  # numbers 24 to 35; token 3 is 24 to 31


check_tokens_in_head(tokens_in_head_2_solution)

# %% 2-modify-8-minutes [markdown]
# ### 2 · Modify ★★ (8 minutes)
#
# `torch.einsum` names each axis by a letter; letters that are missing on the right are summed over. So the order of axes
# stands in the code, to be read.

# %%
q = torch.randn(2, 5, 3, 4)  # (N, L, H, head_dim)
k = torch.randn(2, 7, 3, 4)  # (N, S, H, head_dim)
by_letters = torch.einsum("nlhd,nshd->nhls", q, k)
by_axes = q.transpose(1, 2) @ k.transpose(1, 2).transpose(-2, -1)
assert torch.allclose(by_letters, by_axes, atol=1e-5)
by_letters.shape

# %% [markdown]
# Go on from these raw scores: scale, softmax, average. The output keeps the layout of the query, with the heads behind the tokens.
#
# <details><summary>Hint</summary>The attention weights are <code>nhls</code>, the values <code>nshd</code>. Which letters are left in
# the output, and in which order? The last letter of the query is the size under the root.</details>


# %% tags=["exercise"]
def attend_by_letters(query, key, value):
    """(N, L, H, d), (N, S, H, d), (N, S, H, d) -> output (N, L, H, d)."""


# %%
check_by_letters(attend_by_letters)


# %% tags=["solution"] jupyter={"source_hidden": true}
def attend_by_letters_solution(query, key, value):
    scores = torch.einsum("nlhd,nshd->nhls", query, key) / math.sqrt(query.shape[-1])
    return torch.einsum("nhls,nshd->nlhd", scores.softmax(dim=-1), value)


check_by_letters(attend_by_letters_solution)

# %% 3-repair-8-minutes [markdown]
# ### 3 · Repair ★★ (8 minutes)
#
# `broken` returns the right shape and has three bugs. Write `mended` without them.
#
# <details><summary>Hint</summary>Draw the shape after every line, with letters instead of numbers. How many terms does one dot product
# have?</details>


# %% tags=["exercise"]
def broken(x, num_heads):
    N, L, E = x.shape
    heads = x.reshape(N, num_heads, L, E // num_heads)
    scores = heads @ heads.transpose(-2, -1) / math.sqrt(E)
    mixed = scores.softmax(dim=-1) @ heads
    return mixed.reshape(N, L, E)


def mended(x, num_heads):
    """Attention in heads with query = key = value = x: (N, L, E) -> (N, L, E)."""


# %%
check_mended_heads(mended)


# %% tags=["solution"] jupyter={"source_hidden": true}
def mended_solution(x, num_heads):
    N, L, E = x.shape
    heads = x.reshape(N, L, num_heads, E // num_heads).transpose(1, 2)
    scores = heads @ heads.transpose(-2, -1) / math.sqrt(heads.shape[-1])
    mixed = scores.softmax(dim=-1) @ heads
    return mixed.transpose(1, 2).reshape(N, L, E)


check_mended_heads(mended_solution)

# %% 4-implement-12-minutes [markdown]
# ### 4 · Implement ★★★ (12 minutes)
#
# Write a test for pairs of functions `split(x, num_heads)` and `merge(heads)`, with $x$ of shape $(N, L, E)$. It returns True only if head $h$ holds its
# slice of every token of every sequence, and merge joins the heads, also heads that attention has written anew: `heads.contiguous()`. The check
# tries it on good and bad pairs.
#
# <details><summary>Hint</summary>Let each number be its own name, <code>torch.arange</code> will do, and give all sizes different values.
# What must <code>split(x, H)[:, h]</code> be equal to?</details>


# %% tags=["exercise"]
def is_right(split, merge):
    """Return True or False."""


# %%
check_pair_test(is_right)


# %% tags=["solution"] jupyter={"source_hidden": true}
def is_right_solution(split, merge):
    x = torch.arange(2.0 * 5 * 12).view(2, 5, 12)  # N = 2, L = 5, E = 12
    heads = split(x, 3)
    if heads.shape != (2, 3, 5, 4):
        return False
    slices = [torch.equal(heads[:, h], x[:, :, 4 * h : 4 * h + 4]) for h in range(3)]
    back = torch.equal(merge(heads), x) and torch.equal(merge(heads.contiguous()), x)
    return all(slices) and back


check_pair_test(is_right_solution)

# %% 5-explain-4-minutes [markdown]
# ### 5 · Explain ★ (4 minutes)
#
# A friend changes `merge` and says: "It must be right. The shape fits, and the model still learns." Answer in two sentences. Then compare.
#
# <details><summary>An answer</summary>A merge that scrambles has the same shape, and at a fixed length the parameters around it learn to live with the
# shuffle. Ask for a test that looks at where a number comes from: follow numbers that carry their names through a batch of two, and move one token under a causal mask.</details>

# %% [markdown]
# ## In torch
#
# `nn.MultiheadAttention(embed_dim, num_heads, bias=False, batch_first=True)` is this layer; by default it has biases and wants (L, N, E). It returns
# output and attention weights, the weights averaged over the heads unless `average_attn_weights=False`, and None with `need_weights=False`. If `kdim` or
# `vdim` differs from $E$, `in_proj_weight` is None.
#
# `F.scaled_dot_product_attention` wants (N, H, L, head_dim), divides by the root of the last size, and returns the output alone. True in its
# boolean mask means *may attend*, as in ours; in the masks of `MultiheadAttention` True means *blocked*. `attnlab.MultiHeadAttention.from_torch` copies a layer over.

# %% next [markdown]
# ## Sources
#
# - Vaswani et al., [Attention Is All You Need](https://arxiv.org/abs/1706.03762), 2017, section 3.2.2: heads.
# - Baan, [transformer-from-scratch, pull request 6](https://github.com/jsbaan/transformer-from-scratch/pull/6): a merge without a transpose. Training to copy had passed with it; its author writes: probably because the task asks too little.
# - Lippe, [UvA tutorial 6](https://github.com/phlippe/uvadlc_notebooks), and [GPT-NeoX](https://github.com/EleutherAI/gpt-neox): interleaved query, key, value.
# - Michel et al., [Are Sixteen Heads Really Better than One?](https://arxiv.org/abs/1905.10650), 2019: many heads can be removed.
#
#
#
# ## Next
#
# [8 · What attention costs, and how to pay less](08_what_attention_costs_and_how_to_pay_less.ipynb)

# %% next-2 [markdown] tags=["teacher"]
# <details><summary>For teachers: time and stumbling blocks</summary>
#
# **45 minutes.** Why heads, split, figure 7.1: 10. Strides and merge: 7. Training and the map: 10. The audited layer: 10. Projections and price: 8. At
# home: the whole layer, "Further", exercises.
#
# **Where a class stalls**
# - "But the shape is right." Give every student a card with a named number and let the class sort itself: first by token, then by head.
# - `reshape` and `transpose` taken for the same. Ask what each of them does to the shape, to the strides, to the memory.
# - The diagonal map: ask what attention is for, if nobody is looked at.
#
#
# </details>

# %% next-3 [markdown] tags=["teacher"]
# <details><summary>For teachers: five questions, with a reason for every wrong choice</summary>
#
# 1. `x` is (2, 5, 12); which line splits into 3 heads? **a** `x.view(2, 3, 5, 4)` **b** `x.view(2, 5, 3, 4).transpose(1, 2)` **c**
# `x.view(2, 5, 4, 3).permute(0, 3, 1, 2)`. Right: b. a cuts the memory, not the features. c has the right shape and deals the features out like cards: harmless when trained from
# scratch, wrong only with parameters made for the other order.
# 2. `merge(split(x)) == x` shows: **a** both are right **b** they undo each other **c** heads hold all tokens. Right: b. a, c: two short cuts pass too.
# 3. The loss falls. So: **a** the heads are right **b** the layer attends **c** neither is shown. Right: c. a: a fixed shuffle can be learned around. b:
# copying needs no other token.
# 4. 8 heads instead of 1, same width: **a** 8 times the parameters **b** 8 times the attention weights **c** longer score rows. Right: b. a: each head has an
# eighth of the columns. c: a row has one entry per key, whatever the heads.
# 5. Which test finds the audited layer? **a** output shape **b** row sums of the weights **c** scores are (L, L). Right: c. a: it fits. b: rows sum to 1, over heads. (c: they are (H, H); choose $L \neq H$.)
#
#
# </details>

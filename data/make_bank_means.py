"""Write the twenty sentences of lesson 14 whose means stand for the two meanings of "bank".

Run by hand, a second on one core:  python data/make_bank_means.py

Each pair has a river sentence and a money sentence. "Bank" stands at the same position in both, and
both have as many tokens, so that neither place nor length can tell the two means apart. No clue of
``bank_sentences.csv``, which the lesson tests, occurs in them. The sentences were written by hand
and fixed before the encoder had read any of them.
"""

import pandas as pd

from attnlab import data_path
from attnlab.models.pretrained import load_encoder

PAIRS = [  # about a river, about money
    ("the bank was covered with moss and mud", "the bank was closed on sundays and holidays"),
    (
        "the bank collapsed into the stream after the flood",
        "the bank charged a fee for the new card",
    ),
    ("a muddy bank slopes down to the lake", "a large bank approved the mortgage last week"),
    ("the left bank lies under willow trees", "the local bank offers credit to farmers"),
    ("they reached the bank in a canoe", "they trust the bank with their cash"),
    ("she ran to the bank of the cold stream", "she drove to the bank for her monthly salary"),
    (
        "an otter climbed the bank and shook its fur",
        "the clerk left the bank through the back door",
    ),
    ("the heron stood on the bank all morning", "the manager of our new bank wears glasses"),
    ("we tied the raft to the bank with a rope", "we sent the check to the bank in an envelope"),
    ("the waves of the lake washed over the bank", "the owner of the shop sued his old bank"),
]


def check(river: str, money: str, clues: set[str]) -> None:
    """Raise unless "bank" stands at one place in two sentences of one length, without a clue."""
    tokens = [encoder.tokens(sentence) for sentence in (river, money)]
    assert all(pieces.count("bank") == 1 for pieces in tokens), (river, money)
    assert len({pieces.index("bank") for pieces in tokens}) == 1, tokens
    assert len({len(pieces) for pieces in tokens}) == 1, tokens
    assert not clues & {*river.split(), *money.split()}, (river, money)


if __name__ == "__main__":
    encoder = load_encoder()
    tested = pd.read_csv(data_path("bank_sentences.csv"))
    rows = []
    for river, money in PAIRS:
        check(river, money, {*tested.clue})
        rows += [(river, "river"), (money, "money")]
    table = pd.DataFrame(rows, columns=["sentence", "meaning"])
    table.to_csv(data_path("bank_sentences.csv").with_name("bank_means.csv"), index=False)

"""What a learner does: predict an answer before a cell shows it, and check an exercise."""

from attnlab.exercises._lesson_01 import (
    check_attention_from_exp,
    check_mended,
    check_query_for_awesome,
    check_zero_query,
)
from attnlab.exercises._lesson_02 import (
    check_always_true,
    check_good_factor,
    check_hundred_dice,
    check_repeatable_experiment,
)
from attnlab.exercises._normed_scores import check_normed_scores
from attnlab.exercises._predict import Prediction, predict
from attnlab.exercises._verdict import Verdict

__all__ = [
    "Prediction",
    "Verdict",
    "check_always_true",
    "check_attention_from_exp",
    "check_good_factor",
    "check_hundred_dice",
    "check_mended",
    "check_normed_scores",
    "check_query_for_awesome",
    "check_repeatable_experiment",
    "check_zero_query",
    "predict",
]

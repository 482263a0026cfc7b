"""What a learner does: predict an answer before a cell shows it, and check an exercise."""

from attnlab.exercises._lesson_00 import check_is_distribution
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
from attnlab.exercises._lesson_09 import (
    check_disguise,
    check_hiding_sizes,
    check_learning_probe,
    check_mended_mask,
)
from attnlab.exercises._normed_scores import check_normed_scores
from attnlab.exercises._predict import Prediction, predict
from attnlab.exercises._verdict import Verdict

__all__ = [
    "Prediction",
    "Verdict",
    "check_always_true",
    "check_attention_from_exp",
    "check_disguise",
    "check_good_factor",
    "check_hiding_sizes",
    "check_hundred_dice",
    "check_is_distribution",
    "check_learning_probe",
    "check_mended",
    "check_mended_mask",
    "check_normed_scores",
    "check_query_for_awesome",
    "check_repeatable_experiment",
    "check_zero_query",
    "predict",
]

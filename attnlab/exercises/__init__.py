"""What a learner does: predict an answer before a cell shows it, and check an exercise.

The module of a lesson is imported when one of its checks is asked for: others cost no time.
"""

from importlib import import_module

from attnlab.exercises.frame import stale
from attnlab.exercises.frame.verdict import Verdict
from attnlab.exercises.hand_in import hand_in
from attnlab.exercises.predict import Prediction, predict

CHECKS = {  # of each lesson, by its number
    0: "check_new_vector check_third_sentence",
    1: "check_attention_from_exp check_mended check_query_for_awesome",
    2: "check_divided_once check_normed_scores check_small_start check_three_logs",
    3: "check_causal_test check_padded_batch check_safe_softmax",
    4: "check_contributions check_darkest_range check_lonely_weights check_sharp_factor",
    5: "check_clue_wins check_plain_average check_tested",
    6: "check_linear_from check_parameter_count check_same_scores",
    7: "check_mended_heads check_multi_head check_three_in_one",
    8: "check_joined_pieces check_mended_pieces check_needed_tile check_weight_memory",
    9: "check_disguise check_hiding_sizes check_learning_probe check_mended_mask",
    10: "check_mended_ablation check_own_word check_sink_share check_third_word",
    11: "check_angle_of_pair check_mended_rotary check_rotate_at check_to_halves",
    12: "check_best_key check_mended_stream check_position_to_look_at check_same_letter_score",
    13: "check_bytes_of_a_token check_cache_test check_mended_decoding check_window_with_sinks",
    14: "check_careful_swap check_fooling_sentence check_hidden_token",
}
LESSON_OF = {name: number for number, names in CHECKS.items() for name in names.split()}

stale.watch_cells()

__all__ = ["Prediction", "Verdict", "hand_in", "predict", *sorted(LESSON_OF)]


def __getattr__(name: str) -> object:
    """Return a check, from the module of its lesson."""
    if name not in LESSON_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.lesson_{LESSON_OF[name]:02}"), name)


def __dir__() -> list[str]:
    return __all__

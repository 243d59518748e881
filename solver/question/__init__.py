"""From a request to the layouts to consider, and the costs of each."""

from solver.question.asked import Calibrated, Question, given_cuts, only_layout
from solver.question.reading import question

__all__ = ["Calibrated", "Question", "given_cuts", "only_layout", "question"]

"""Which way the scores of a list run: up or down with the rank.

Scores never order a list here, but a score that turns from a similarity into a distance is a sign that
what stands behind it changed.
"""

from typing import Final

# A list has a direction where at least three of four steps between neighbours go the same way.
_CLEAR: Final = 0.5
# The head of a list is enough to tell.
_DEPTH: Final = 10
# Fewer lists than this tell nothing about a group.
MIN_LISTS: Final = 20


def balance_of(items: str) -> str:
    """(steps up - steps down) / steps between the first neighbours, from -1 to 1: 1 where all scores rise with the
    rank, NULL without two different scores. `items` is a list of {score, rank}; ranks decide the order
    where they are distinct, equal neighbours are no step.
    """
    ranks = f"list_transform({items}, lambda item: item.rank)"
    in_order = (
        f"case when list_unique({ranks}) = len({items}) and {ranks} <> list_sort({ranks}) then "
        f"list_transform(list_sort(list_transform({items}, lambda item: {{'rank': item.rank, 'score': item.score}})), "
        f"lambda item: item.score) else list_transform({items}, lambda item: item.score) end"
    )
    scores = f"list_filter(({in_order})[:{_DEPTH}], lambda score: isfinite(score))"
    steps = f"list_transform(list_zip({scores}[:-2], {scores}[2:]), lambda pair: sign(pair[2] - pair[1]))"
    return f"list_sum({steps}) / nullif(list_sum(list_transform({steps}, lambda step: abs(step))), 0)"


def rises(balance: str) -> str:
    """TRUE where scores rise with the rank, FALSE where they fall, NULL where neither is clear."""
    return f"case when {balance} >= {_CLEAR} then true when {balance} <= -{_CLEAR} then false end"

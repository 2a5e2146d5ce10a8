"""The cheapest collectives between two shardings of a value.

States are placements of the axis parts that occur. Moves are slice, all-gather, all-to-all of one or several
dimensions, permute, reduce-scatter, all-reduce, and the direct exchange (`sdy.reshard`), which gives a dimension other
tiles or sends each device the blocks that it lacks. The cost of a move is its time on the links. No path sends less
than the direct exchange, but its blocks arrive one by one, so an all-to-all or a permute of as many bytes is preferred.

`planner.py` is the interface. `search.py` is an A* search whose estimate is `least_bytes`, the bytes that devices lack.
Axes are cut into prime factors only if the path found without that sends more. On the way, a device holds no more of a
large value than at the ends, unless that saves half of the time or `max-temporary-bytes` allows it. The search has a
budget of moves (`max-reshard-moves`); if it runs out, the best path so far is used, at worst a gather and a slice, with
a remark.

`routes.py` finds the best routes between all placements of a rank at once, from the single steps of `steps.py`. Shards
that do not nest are realigned after a gather or an exchange of axes, or exchanged directly. The decision is made by the
prices of routes, and the planner follows them. It searches only for many axes and within memory limits.
"""

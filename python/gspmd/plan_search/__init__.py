"""The search for annotations: shardings of all arguments, and constraints that lower the cost.

It solves the problem of `transforms/decide` with the shardings of arguments as variables; arguments of repeated layers
share one (`roles.py`, `plan_problem.py`). The few distinct solutions are partitioned, since only partitioned programs
have exact prices (`mesh_plans.py`). A price on bytes at the memory peaks makes a plan fit. `bound.py` bounds the step
time of every plan.
"""

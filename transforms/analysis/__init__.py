"""Facts about a program: divergence, buffers, runs of repeated operations, and a lower bound of communication.

`divergence.py` finds the mesh axes along which a value may differ between devices, from the traits of the operations
that compute it. It tells where control flow may diverge in manual computations, which memory is replicated, and which
values a change of the device order has to permute.
"""

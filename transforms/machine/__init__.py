"""Hardware: the links, memory and compute rate of devices, tori of chips, and the time of communication on them.

A machine is a torus; slices are one more dimension of it, and a switch is a torus of one dimension. `torus.py` lists
the placements of mesh axes along the dimensions of a torus, prices the collectives of a program for each, and takes the
best. `AxisLinks` describe a part of an axis in one tier: inside a chip, along a line or switch, or between slices or
hosts.

A target is a text (`topology.py`): version, torus, slices, and the order of the devices as digits of their ids. So it
can be an option of a pass and part of a pipeline, and the compiler needs neither JAX nor the devices. `axis_slots.py`
derives the placement of the axes of any mesh from the coordinates that the digits give.
"""

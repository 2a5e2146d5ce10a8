"""MuJoCo's MJX: a batch of simulated worlds, split over devices, stepped in a scan."""

from __future__ import annotations

import jax
import pytest
from support.one_line import Jit, Place, check, uniform

mujoco = pytest.importorskip("mujoco", reason="mujoco does not import")
mjx = pytest.importorskip("mujoco.mjx", reason="mujoco-mjx does not import")

_PENDULUM = """
<mujoco>
  <option timestep="0.01" iterations="2" ls_iterations="2"/>
  <worldbody>
    <body pos="0 0 1">
      <joint name="swing" axis="0 1 0"/>
      <geom type="capsule" size="0.05 0.2" contype="0" conaffinity="0"/>
    </body>
  </worldbody>
  <actuator><motor joint="swing"/></actuator>
</mujoco>
"""


def test_rollout():
    model = mjx.put_model(mujoco.MjModel.from_xml_string(_PENDULUM))

    def program(jit: Jit, place: Place):
        def rollout(forces):
            def step(data, force):
                data = mjx.step(model, data.replace(ctrl=force))
                return data, data.qpos

            return jax.lax.scan(step, mjx.make_data(model), forces)[1]

        return jit(jax.vmap(rollout))(place(uniform(8, 4, 1), "data"))

    check(program)

"""The minimum cut between two nodes of a graph.

Source: Dinic, "Algorithm for solution of a problem of maximum flow in networks with power estimation", 1970.
"""

from __future__ import annotations

from collections import deque

FOREVER = 1 << 100  # for an edge that is never cut


class FlowNetwork:
    """Nodes 0, 1, .. with directed edges of integer capacities."""

    def __init__(self, nodes: int) -> None:
        self._edges: list[list[int]] = [[] for _ in range(nodes)]
        self._target: list[int] = []
        self._left: list[int] = []

    def node(self) -> int:
        """Add a node."""
        self._edges.append([])
        return len(self._edges) - 1

    def edge(self, source: int, target: int, capacity: int, back: int = 0) -> None:
        """Add an edge; `back` is the capacity in the opposite direction."""
        for node, other, left in ((source, target, capacity), (target, source, back)):
            self._edges[node].append(len(self._target))
            self._target.append(other)
            self._left.append(left)

    def source_side(self, source: int, sink: int) -> list[bool]:
        """Whether each node is on the source side of a minimum cut; the smallest such side."""
        while True:
            level = self._levels(source)
            if level[sink] < 0:
                return [one >= 0 for one in level]
            self._fill(source, sink, level)

    def _levels(self, source: int) -> list[int]:
        """The distance from the source along edges with residual capacity; -1 if unreachable."""
        level = [-1] * len(self._edges)
        level[source] = 0
        queue = deque([source])
        while queue:
            node = queue.popleft()
            for edge in self._edges[node]:
                target = self._target[edge]
                if self._left[edge] and level[target] < 0:
                    level[target] = level[node] + 1
                    queue.append(target)
        return level

    def _fill(self, source: int, sink: int, level: list[int]) -> None:
        """Augment along shortest paths until there is none."""
        following = [0] * len(self._edges)
        path: list[int] = []
        node = source
        while True:
            if node == sink:
                least = min(self._left[edge] for edge in path)
                for edge in path:
                    self._left[edge] -= least
                    self._left[edge ^ 1] += least
                full = next(i for i, edge in enumerate(path) if not self._left[edge])
                node = self._target[path[full] ^ 1]
                del path[full:]
                continue
            edges = self._edges[node]
            while following[node] < len(edges):
                edge = edges[following[node]]
                if self._left[edge] and level[self._target[edge]] == level[node] + 1:
                    break
                following[node] += 1
            if following[node] < len(edges):
                path.append(edges[following[node]])
                node = self._target[path[-1]]
            elif path:
                node = self._target[path.pop() ^ 1]
                following[node] += 1
            else:
                return

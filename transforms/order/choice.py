"""The device order of each operation, chosen to minimize the bytes permuted between orders.

With two orders this is a minimum cut. With more, expansion moves are repeated for each order until none improves.

Source: Boykov, Veksler and Zabih, "Fast approximate energy minimization via graph cuts", 2001.
"""

from __future__ import annotations

from collections.abc import Sequence

from gspmd.transforms.order.minimum_cut import FOREVER, FlowNetwork
from gspmd.transforms.order.placed import FIXED, Flow, OrderGraph


def choose(placed: OrderGraph) -> list[int]:
    """The number of the order of every node. Ties go to the order of the program."""
    labels = [FIXED if pin < 0 else pin for pin in placed.pinned]
    if len(placed.moves.orders) == 2:
        return _expanded(placed, labels, 1)  # the optimum
    cost = price(placed, labels)
    improves = True
    while improves:
        improves = False
        for order in range(len(placed.moves.orders)):
            found = _expanded(placed, labels, order)
            lower = price(placed, found)
            if lower < cost:
                labels, cost, improves = found, lower, True
    return labels


def price(placed: OrderGraph, labels: Sequence[int]) -> int:
    """The total bytes sent: each value once for every order of a consumer that differs from its own."""
    total = 0
    for flow in placed.flows:
        made = labels[flow.maker]
        for order in {labels[reader] for reader in flow.readers} - {made}:
            total += _bytes(placed, flow, made, order)
    return total


def _bytes(placed: OrderGraph, flow: Flow, source: int, target: int) -> int:
    return flow.bytes * placed.moves.changed(flow.split, source, target)


def _expanded(placed: OrderGraph, labels: Sequence[int], order: int) -> list[int]:
    """The labels after the best expansion move to `order`."""
    count = len(labels)
    source, sink = count, count + 1
    graph = FlowNetwork(count + 2)
    for node, pin in enumerate(placed.pinned):
        if pin == order or labels[node] == order:
            graph.edge(source, node, FOREVER)
        elif pin >= 0:
            graph.edge(node, sink, FOREVER)
    for flow in placed.flows:
        nodes = {flow.maker, *flow.readers}
        others = {labels[node] for node in nodes} - {order}
        if len(nodes) < 2 or not others:
            continue
        weight = max(_bytes(placed, flow, other, order) for other in others)
        if weight:
            _join(graph, source, tuple(nodes), weight, mixed=len(others) > 1)
    side = graph.source_side(source, sink)
    return [order if side[node] else label for node, label in enumerate(labels)]


def _join(graph: FlowNetwork, source: int, nodes: tuple[int, ...], weight: int, mixed: bool) -> None:
    """Add a weight, paid unless all nodes are on one side; if they are `mixed`, unless all are on the source side."""
    if len(nodes) == 2 and not mixed:
        graph.edge(nodes[0], nodes[1], weight, weight)
        return
    all_in = graph.node()
    for node in nodes:
        graph.edge(all_in, node, FOREVER)
    if mixed:
        graph.edge(source, all_in, weight)
        return
    any_in = graph.node()
    for node in nodes:
        graph.edge(node, any_in, FOREVER)
    graph.edge(any_in, all_in, weight)

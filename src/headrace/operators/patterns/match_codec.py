"""Encodes partial matches as JSON: each event once, each shared beginning once, and the state of each match."""

import math
from collections.abc import Iterable, Iterator
from typing import Any

from headrace.operators.patterns.match_state import MatchedEvent, MatchStart, PartialMatch, PatternEvent
from headrace.operators.patterns.matcher import PatternMatcher

EncodedMatches = dict[str, Any]


def encode_matches(pending: list[PatternEvent], matches: list[PartialMatch]) -> EncodedMatches:
    """Encode waiting events and partial matches."""
    nodes = list(_distinct_nodes(matches))
    node_numbers = {id(node): number for number, node in enumerate(nodes)}
    events = {one.event.position: one.event for one in nodes}
    event_numbers = {position: number for number, position in enumerate(events)}
    return {
        "pending": [_encode_event(one) for one in pending],
        "events": [_encode_event(one) for one in events.values()],
        "taken": [[event_numbers[one.event.position], one.step, node_numbers.get(id(one.previous))] for one in nodes],
        "runs": [
            [
                node_numbers[id(partial_match.last_event)],
                partial_match.state.open_numbers,
                partial_match.start.is_emitted,
            ]
            for partial_match in matches
        ],
    }


def decode_matches(encoded: EncodedMatches, matcher: PatternMatcher) -> tuple[list[PatternEvent], list[PartialMatch]]:
    """Decode what `encode_matches` wrote, in the same order."""
    events = [_decode_event(*encoded_event) for encoded_event in encoded["events"]]
    nodes, starts = list[MatchedEvent](), list[MatchStart]()
    for event, step, previous in encoded["taken"]:
        nodes.append(matcher.evaluator.append_event(events[event], step, None if previous is None else nodes[previous]))
        starts.append(MatchStart(events[event]) if previous is None else starts[previous])
    matches = []
    for number, open_numbers, starts[number].is_emitted in encoded["runs"]:
        state = matcher.automaton.find_state(nodes[number].step, tuple(open_numbers))
        matches.append(PartialMatch(starts[number], nodes[number], state))
    return [_decode_event(*one) for one in encoded["pending"]], matches


def _distinct_nodes(matches: Iterable[PartialMatch]) -> Iterator[MatchedEvent]:
    """All matched events, each once, after the events before it."""
    seen_ids: set[int] = set()
    for partial_match in matches:
        new_nodes = list[MatchedEvent]()
        node: MatchedEvent | None = partial_match.last_event
        while node is not None and id(node) not in seen_ids:
            seen_ids.add(id(node))
            new_nodes.append(node)
            node = node.previous
        yield from reversed(new_nodes)


def _encode_event(event: PatternEvent) -> list[Any]:
    """Encode an event; JSON has no NaN or infinity, which become text in a list."""
    values = [
        [str(value)] if isinstance(value, float) and not math.isfinite(value) else value for value in event.values
    ]
    return [*event[:5], values]


def _decode_event(
    time_us: int, partition: int, offset: int, event_id: Any, satisfied: int, values: list[Any]
) -> PatternEvent:
    decoded_values = tuple(float(value[0]) if isinstance(value, list) else value for value in values)
    return PatternEvent(time_us, partition, offset, event_id, satisfied, decoded_values)

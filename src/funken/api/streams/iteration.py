"""``IterativeStream``: a stream into which results of later operators enter again."""

from __future__ import annotations

from collections.abc import Callable

from funken.api.streams.stream import DataStream
from funken.errors import InvalidProgram
from funken.operators.process.iteration import Iterate
from funken.plan.nodes import NodeInput
from funken.types.generics import Generic, R, S, T_co


class IterativeStream(DataStream[T_co], Generic[T_co]):
    """The records of a loop: those of the stream that ``iterate()`` was called on, and those that come back.

    >>> from funken.testing import local
    >>> numbers = local([5, 8]).iterate()
    >>> less = numbers.map(lambda number: number - 3)
    >>> _ = numbers.close_with(less.filter(lambda number: number > 0))
    >>> sorted(less.execute_and_collect(limit=5))
    [-1, -1, 2, 2, 5]
    """

    @staticmethod
    def begin(stream: DataStream[S], step: LoopStep[S, R] | None) -> DataStream[S] | DataStream[R]:
        """Begin a loop with the records of a stream; with a step, close it as well, and return what comes out.

        >>> from funken.testing import local
        >>> IterativeStream.begin(local([1]), None)
        <IterativeStream of 'iterate'>
        """
        head = stream._apply("iterate", Iterate())
        loop: IterativeStream[S] = IterativeStream(stream._environment, (NodeInput(head.id),))
        if step is None:
            return loop
        if not callable(step):
            raise InvalidProgram(
                f"iterate({step!r}): a loop does not end after a time without records, as Flink's did, but when nothing goes "
                "round any more. Call iterate(), or give it a step: a function of the loop's stream."
            )
        made = step(loop)
        if not (isinstance(made, tuple) and len(made) == 2 and all(isinstance(part, DataStream) for part in made)):
            raise InvalidProgram(
                f"the step of iterate() returned {made!r}. Return two streams: what is to enter the loop again, and the result."
            )
        loop.close_with(made[0])
        return made[1]

    def close_with(self, feedback_stream: DataStream[S]) -> DataStream[S]:
        """Let the records of a stream enter the loop again; it has to be made of this one. Returns that stream.

        Its partitioning is that of the feedback: after ``key_by`` records with equal keys come back to the same subtask.
        Raises ``InvalidProgram`` for a stream that does not come from the loop, and for a second call.

        >>> from funken.testing import local
        >>> numbers = local([5]).iterate()
        >>> less = numbers.map(lambda number: number - 3)
        >>> back = numbers.close_with(less.filter(lambda number: number > 0).rebalance())
        >>> sorted(less.execute_and_collect(limit=2))
        [-1, 2]
        """
        node = self._node("close_with()")
        if node.feedback:
            raise InvalidProgram(
                f"the loop of {node.name!r} is closed already. close_with() is called once: union() the streams that are to "
                "enter the loop again."
            )
        if not isinstance(feedback_stream, DataStream):
            raise InvalidProgram(
                f"close_with() takes the stream that is to enter the loop of {node.name!r} again, not {feedback_stream!r}."
            )
        graph = self._environment.graph
        same = feedback_stream._environment is self._environment
        if not same or not all(graph.comes_from(given.upstream, node.id) for given in feedback_stream._inputs):
            raise InvalidProgram(
                f"close_with() was given a stream that does not come out of the loop of {node.name!r}: its records could not "
                "go round. Make it of the stream that iterate() returned; another stream is put in by union() before iterate()."
            )
        graph.change(node.id, feedback=feedback_stream._inputs)
        return feedback_stream


LoopStep = Callable[[IterativeStream[S]], tuple[DataStream[S], DataStream[R]]]
"""From the stream of a loop to what enters it again, and what comes out."""

__all__ = ["IterativeStream", "LoopStep"]

"""A program as text, JSON and a picture: what ``explain()`` returns, and what a notebook shows of an environment."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from funken.errors import FunkenError

if TYPE_CHECKING:
    from funken.plan.graph import StreamGraph
    from funken.plan.physical import PhysicalPlan


class ProgramDisplay:
    """The part of an environment that shows its program: as it stands, else the one that was executed last."""

    graph: StreamGraph
    _executed: PhysicalPlan | None = None

    def compile(self, name: str | None = None) -> PhysicalPlan:
        """Compile the program as it stands."""
        raise NotImplementedError

    def _shown(self) -> PhysicalPlan:
        self.graph.unused = False
        return self._executed if self._executed is not None and not len(self.graph) else self.compile()

    def explain(self, format: str = "text") -> str:
        """Return the plan: stages, vertices, edges, and what each rule decided; as ``text`` or ``json``, or drawn as ``svg``.

        After ``execute()`` it is the plan of what was executed, until something is added.

        >>> from funken import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=2)
        >>> _ = env.from_collection([1]).key_by(lambda x: x).sum().print()
        >>> print(env.explain())
        Flink Streaming Job: 2 stages, 3 task slots
        stage 0 (width 1)
          [0] collection
              columns: collection: per record: has fewer than 200,000 elements
              -> [1] by HASH
        stage 1 (width 2)
          [1] sum -> print  x2
              columns: sum: per record: 'collection' gives it single records
              columns: print: per record: 'sum' gives it single records
              fusion: one loop: key (inlined) + sum
        rules, in this order: chaining, errors, state backend, columns, projection, pre-aggregation, fusion, declared types,
        batch order, workers
        """
        from funken.plan.drawing import plan_svg
        from funken.plan.explain import explain_json, explain_text

        plan = self._shown()
        return {"json": explain_json, "svg": plan_svg}.get(format, explain_text)(plan)

    def get_execution_plan(self) -> str:
        """Return the plan as JSON.

        >>> import json
        >>> from funken import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.create_local_environment(parallelism=2)
        >>> _ = env.from_collection([1]).key_by(lambda x: x).sum().print()
        >>> [(edge["from"], edge["to"], edge["partitioning"]) for edge in json.loads(env.get_execution_plan())["edges"]]
        [(0, 1, 'HASH')]
        """
        return self.explain("json")

    def __repr__(self) -> str:
        operators = len(self.graph)
        return f"<{type(self).__name__}: {operators} operator{'s' * (operators != 1)}>"

    def _repr_html_(self) -> str:
        from funken.plan.drawing import plan_svg

        try:
            return plan_svg(self._shown())
        except FunkenError as error:
            return f"<code>{escape(repr(self))}</code> {escape(str(error))}"

"""What a notebook shows: of streams, programs, jobs, results and errors."""

import xml.etree.ElementTree as xml
from html import escape

import pytest

from funken import MapStateDescriptor, OutputTag, StreamExecutionEnvironment, TumblingEventTimeWindows
from funken.errors import OperatorFailed
from funken.plan.explain import plan_svg


@pytest.fixture
def env():
    return StreamExecutionEnvironment.create_local_environment(parallelism=2)


def drawn(picture):
    """The texts and the arrows of a picture, which is well-formed and refers to nothing outside."""
    assert "href" not in picture and "url(" not in picture and "<script" not in picture
    tree = xml.fromstring(picture)
    kind = "{http://www.w3.org/2000/svg}"
    texts = [element.text for element in tree.iter(f"{kind}text")]
    return texts, len(list(tree.iter(f"{kind}path"))), len(list(tree.iter(f"{kind}rect")))


def test_a_plan_is_drawn_with_its_operators_and_edges(env):
    numbers = env.from_collection([1]).name("<numbers> & more")
    odd = numbers.key_by(lambda x: x).sum().name("sums")
    odd.union(numbers.rebalance().map(str)).print()

    texts, arrows, boxes = drawn(env.explain("svg"))

    plan = env.compile()
    assert {"<numbers> & more", "sums", "print", "HASH", "REBALANCE"} <= set(texts)
    assert (arrows, boxes) == (len(plan.edges), len(plan.vertices))


def test_every_box_lies_within_the_picture(env):
    tag = OutputTag("late")
    words = env.from_collection(["to"]).process(lambda word, ctx: [word, (tag, word)])
    words.get_side_output(tag).rebalance().map(str.upper).print()
    words.key_by(len).reduce(max).rebalance().map(str.lower).print()

    tree = xml.fromstring(env.explain("svg"))
    width, height = int(tree.get("width")), int(tree.get("height"))
    for box in tree.iter("{http://www.w3.org/2000/svg}rect"):
        x, y, w, h = (float(box.get(name)) for name in ("x", "y", "width", "height"))
        assert min(x, y) >= 0 and x + w <= width and y + h <= height


def test_the_plan_is_there_after_the_program_was_executed(env):
    env.from_collection([1]).name("first").for_each(repr)
    before = env.explain()
    env.execute()

    assert env.explain() == before
    assert "first" in env._repr_html_()

    env.from_collection([1]).name("second").for_each(repr)
    assert "first" not in env.explain()


def test_an_empty_environment_says_so(env):
    assert "0 operators" in env._repr_html_()


def test_a_stream_names_its_operator_also_when_it_was_executed(env):
    words = env.from_collection(["<to>"]).map(str.upper).name("<capitals>")
    words.for_each(repr)
    env.execute()

    assert repr(words) == "<DataStream of '<capitals>'>"
    assert "<code>&lt;DataStream of &#x27;&lt;capitals&gt;&#x27;&gt;</code>" in words._repr_html_()


def test_a_job_shows_its_status_and_what_was_read(env):
    env.from_collection([1, 2, 3]).name("numbers").for_each(repr)
    client = env.execute_async("three")
    client.get_job_execution_result().result(60)

    assert repr(client) == "<JobClient of 'three': FINISHED>"
    shown = client._repr_html_()
    assert "3 records in" in drawn(shown[shown.index("<svg") :])[0]


def test_results_show_their_job_and_take_no_record(env):
    with env.from_collection([1, 2]).execute_and_collect("two") as records:
        assert repr(records).startswith("<CloseableIterator: records of <JobClient of 'two': ")
        assert "<svg" in records._repr_html_()
        assert list(records) == [1, 2]


def test_what_is_made_of_streams_names_them_and_draws_the_program(env):
    numbers, words = env.from_collection([1]).name("numbers"), env.from_collection(["a"]).name("words")
    keyed, state = numbers.key_by(str), MapStateDescriptor("rules")
    joined = numbers.join(words).where(str).equal_to(str)
    windows = TumblingEventTimeWindows.of("5 s")
    shown = {
        keyed.window(windows): "<WindowedStream of 'numbers' by TumblingEventTimeWindows(size=5000, offset=0)>",
        numbers.window_all(
            windows
        ): "<AllWindowedStream of 'numbers' by TumblingEventTimeWindows(size=5000, offset=0)>",
        numbers.connect(words): "<ConnectedStreams of 'numbers' with 'words'>",
        words.broadcast(state): "<BroadcastStream of 'words'>",
        keyed.connect(words.broadcast(state)): "<BroadcastConnectedStream of 'numbers' with 'words'>",
        numbers.co_group(words): "<CoGroupedStreams of 'numbers' with 'words'>",
        joined: "<EqualTo of 'numbers' with 'words'>",
        joined.window(
            windows
        ): "<WithWindow of 'numbers' with 'words' by TumblingEventTimeWindows(size=5000, offset=0)>",
        keyed.interval_join(words.key_by(str)).between(0, 5): "<IntervalJoined of 'numbers' with 'words'>",
        words.print().name("out"): "<DataStreamSink 'out'>",
    }
    for what, text in shown.items():
        assert repr(what) == text
        page = what._repr_html_()
        assert page.startswith(f"<code>{escape(text)}</code><br><svg")
        assert "words" in drawn(page[page.index("<svg") :])[0]


def test_a_plan_and_a_result_show_themselves(env):
    env.from_collection([1]).name("numbers").for_each(repr)
    assert "numbers" in drawn(env.compile()._repr_html_())[0]
    result = env.execute()
    assert result.get_job_id() in result._repr_html_()
    assert result._repr_html_().startswith("<b>FINISHED</b> after ")


def test_a_long_name_is_cut(env):
    env.from_collection([1]).name("n" * 200).for_each(repr)

    assert max(map(len, drawn(plan_svg(env.compile()))[0])) < 40


def test_an_error_in_a_notebook_is_as_short_as_in_the_terminal(env):
    def invert(x):
        return 1 / x

    env.from_collection([0]).map(invert).print()
    with pytest.raises(OperatorFailed) as raised:
        env.execute()

    lines = raised.value._render_traceback_()

    assert lines[0].startswith("OperatorFailed: operator 'map' (subtask 0) failed at the record 0: ZeroDivisionError")
    assert any("in invert" in line for line in lines)
    assert not any("/funken/runtime/" in line for line in lines)
    assert lines[-1] == f"in {__file__}, line {raised.traceback[0].lineno + 1}: env.execute()"

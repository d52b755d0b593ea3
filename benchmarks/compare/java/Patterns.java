package bench;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import org.apache.flink.api.common.state.KeyedStateStore;
import org.apache.flink.api.common.state.MapState;
import org.apache.flink.api.common.typeutils.base.IntSerializer;
import org.apache.flink.cep.nfa.NFA;
import org.apache.flink.cep.nfa.NFAState;
import org.apache.flink.cep.nfa.aftermatch.AfterMatchSkipStrategy;
import org.apache.flink.cep.nfa.compiler.NFACompiler;
import org.apache.flink.cep.nfa.sharedbuffer.SharedBuffer;
import org.apache.flink.cep.nfa.sharedbuffer.SharedBufferAccessor;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.WithinType;
import org.apache.flink.cep.pattern.conditions.IterativeCondition;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;

/**
 * Runs patterns on Flink's own automaton. Reads a pattern and its events as one JSON object per line, and writes one JSON
 * object per line: for each event the matches and the partial matches that timed out, and once more for the end.
 *
 * <p>An event is its index in {@link #events}, which the conditions look up.
 */
public final class Patterns {
    private Patterns() {}

    private static final ObjectMapper JSON = new ObjectMapper();
    private static JsonNode events;

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ObjectNode result = JSON.createObjectNode();
            try {
                result.set("steps", run(JSON.readTree(line)));
            } catch (Exception error) {
                result.put("error", error.toString());
            }
            out.println(result);
            out.flush();
        }
        System.exit(0); // the buffers' statistics have threads of their own
    }

    private static ArrayNode run(JsonNode task) throws Exception {
        events = task.get("events");
        Pattern<Integer, Integer> pattern = sequence(task.get("pattern"), skip(task.get("skip")));
        if (task.get("within").asLong() > 0) {
            pattern = pattern.within(Duration.ofMillis(task.get("within").asLong()));
        }
        NFA<Integer> nfa = NFACompiler.compileFactory(pattern, true).createNFA();
        SharedBuffer<Integer> buffer = new SharedBuffer<>(store(), IntSerializer.INSTANCE);
        NFAState state = nfa.createInitialNFAState();
        AfterMatchSkipStrategy skip = pattern.getAfterMatchSkipStrategy();
        ArrayNode steps = JSON.createArrayNode();
        for (int i = 0; i <= events.size(); i++) {
            boolean last = i == events.size();
            long time = last ? task.get("end").asLong() : events.get(i).get(2).asLong();
            ArrayNode step = steps.addArray();
            ArrayNode matches = step.addArray();
            ArrayNode expired = step.addArray();
            try (SharedBufferAccessor<Integer> accessor = buffer.getAccessor()) {
                var advanced = nfa.advanceTime(accessor, state, time, skip);
                advanced.f0.forEach(match -> matches.add(JSON.valueToTree(match)));
                advanced.f1.forEach(each -> expired.addArray().add(JSON.<JsonNode>valueToTree(each.f0)).add(each.f1));
            }
            if (!last) {
                try (SharedBufferAccessor<Integer> accessor = buffer.getAccessor()) {
                    nfa.process(accessor, state, i, time, skip, () -> time)
                            .forEach(match -> matches.add(JSON.valueToTree(match)));
                }
            }
        }
        buffer.releaseCacheStatisticsTimer();
        return steps;
    }

    private static AfterMatchSkipStrategy skip(JsonNode given) {
        String name = given.size() > 1 ? given.get(1).asText() : "";
        return switch (given.get(0).asText()) {
            case "none" -> AfterMatchSkipStrategy.noSkip();
            case "next" -> AfterMatchSkipStrategy.skipToNext();
            case "past" -> AfterMatchSkipStrategy.skipPastLastEvent();
            case "first" -> AfterMatchSkipStrategy.skipToFirst(name);
            case "last" -> AfterMatchSkipStrategy.skipToLast(name);
            default -> throw new IllegalArgumentException(given.toString());
        };
    }

    private static Pattern<Integer, Integer> sequence(JsonNode parts, AfterMatchSkipStrategy skip) {
        Pattern<Integer, Integer> pattern = null;
        for (JsonNode part : parts) {
            String name = part.get("name").asText();
            if (part.has("group")) {
                Pattern<Integer, Integer> group = sequence(part.get("group"), AfterMatchSkipStrategy.noSkip());
                pattern =
                        pattern == null
                                ? Pattern.begin(group, skip)
                                : switch (part.get("by").asText()) {
                                    case "next" -> pattern.next(group);
                                    case "followed_by" -> pattern.followedBy(group);
                                    case "followed_by_any" -> pattern.followedByAny(group);
                                    default -> throw new IllegalArgumentException(part.toString());
                                };
            } else {
                pattern =
                        pattern == null
                                ? Pattern.<Integer>begin(name, skip)
                                : switch (part.get("by").asText()) {
                                    case "next" -> pattern.next(name);
                                    case "followed_by" -> pattern.followedBy(name);
                                    case "followed_by_any" -> pattern.followedByAny(name);
                                    case "not_next" -> pattern.notNext(name);
                                    case "not_followed_by" -> pattern.notFollowedBy(name);
                                    default -> throw new IllegalArgumentException(part.toString());
                                };
            }
            pattern = quantified(pattern, part);
        }
        return pattern;
    }

    private static Pattern<Integer, Integer> quantified(Pattern<Integer, Integer> given, JsonNode part) {
        Pattern<Integer, Integer> pattern = given;
        for (JsonNode condition : part.path("where")) {
            pattern = pattern.where(new Test(condition));
        }
        if (part.has("or")) {
            pattern = pattern.or(new Test(part.get("or")));
        }
        if (part.has("times")) {
            int from = part.get("times").get(0).asInt();
            JsonNode to = part.get("times").get(1);
            Duration inner = part.has("inner_within") ? Duration.ofMillis(part.get("inner_within").asLong()) : null;
            if (to.isNull()) {
                pattern = from == 1 ? pattern.oneOrMore(inner) : pattern.timesOrMore(from, inner);
            } else {
                pattern = to.asInt() == from ? pattern.times(from, inner) : pattern.times(from, to.asInt(), inner);
            }
        }
        for (JsonNode method : part.path("then")) {
            pattern =
                    switch (method.asText()) {
                        case "optional" -> pattern.optional();
                        case "greedy" -> pattern.greedy();
                        case "consecutive" -> pattern.consecutive();
                        case "allow_combinations" -> pattern.allowCombinations();
                        default -> throw new IllegalArgumentException(method.toString());
                    };
        }
        if (part.has("until")) {
            pattern = pattern.until(new Test(part.get("until")));
        }
        if (part.has("gap")) {
            pattern = pattern.within(Duration.ofMillis(part.get("gap").asLong()), WithinType.PREVIOUS_AND_CURRENT);
        }
        return pattern;
    }

    /** {@code ["in", letters]}, {@code ["total_below", pattern, number]} or {@code ["above_last", pattern]}. */
    private static final class Test extends IterativeCondition<Integer> {
        private final String kind;
        private final String what;
        private final int bound;

        Test(JsonNode given) {
            kind = given.get(0).asText();
            what = given.get(1).asText();
            bound = given.size() > 2 ? given.get(2).asInt() : 0;
        }

        @Override
        public boolean filter(Integer index, Context<Integer> context) throws Exception {
            if (kind.equals("in")) {
                return what.contains(events.get(index).get(0).asText());
            }
            int total = 0;
            int last = -1;
            for (Integer each : context.getEventsForPattern(what)) {
                last = events.get(each).get(1).asInt();
                total += last;
            }
            int value = events.get(index).get(1).asInt();
            return kind.equals("above_last") ? value > last : total + value < bound;
        }
    }

    /** State in memory for one key; the buffer asks for maps only. */
    private static KeyedStateStore store() {
        return (KeyedStateStore)
                Proxy.newProxyInstance(
                        Patterns.class.getClassLoader(),
                        new Class<?>[] {KeyedStateStore.class},
                        (self, method, arguments) -> {
                            if (!method.getName().equals("getMapState")) {
                                throw new UnsupportedOperationException(method.getName());
                            }
                            return new InMemory<>();
                        });
    }

    private static final class InMemory<K, V> implements MapState<K, V> {
        private final Map<K, V> map = new HashMap<>();

        @Override
        public V get(K key) {
            return map.get(key);
        }

        @Override
        public void put(K key, V value) {
            map.put(key, value);
        }

        @Override
        public void putAll(Map<K, V> other) {
            map.putAll(other);
        }

        @Override
        public void remove(K key) {
            map.remove(key);
        }

        @Override
        public boolean contains(K key) {
            return map.containsKey(key);
        }

        @Override
        public Iterable<Map.Entry<K, V>> entries() {
            return map.entrySet();
        }

        @Override
        public Iterable<K> keys() {
            return map.keySet();
        }

        @Override
        public Iterable<V> values() {
            return map.values();
        }

        @Override
        public Iterator<Map.Entry<K, V>> iterator() {
            return map.entrySet().iterator();
        }

        @Override
        public boolean isEmpty() {
            return map.isEmpty();
        }

        @Override
        public void clear() {
            map.clear();
        }
    }
}

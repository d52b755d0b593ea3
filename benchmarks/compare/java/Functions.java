package bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.apache.flink.table.functions.FunctionContext;
import org.apache.flink.table.functions.ScalarFunction;

/** What the Nexmark queries need beside SQL. */
public final class Functions {
    /** How often a letter is in a text. */
    public static final class CountChar extends ScalarFunction {
        public Long eval(String text, String letter) {
            if (text == null) {
                return null;
            }
            long found = 0;
            char wanted = letter.charAt(0);
            for (int i = 0; i < text.length(); i++) {
                if (text.charAt(i) == wanted) {
                    found++;
                }
            }
            return found;
        }
    }

    /** The value of a key in a table that does not change, which is a file of keys and values; null if there is none. */
    public static final class SideInput extends ScalarFunction {
        private transient Map<Long, String> values;

        @Override
        public void open(FunctionContext context) throws IOException {
            values = new HashMap<>();
            for (String line : Files.readAllLines(Path.of(context.getJobParameter("side.input", "")))) {
                int comma = line.indexOf(',');
                values.put(Long.parseLong(line.substring(0, comma)), line.substring(comma + 1).strip());
            }
        }

        public String eval(Long key) {
            return key == null ? null : values.get(key);
        }
    }
}

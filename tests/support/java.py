"""Options of the JVMs that tests start. They live for seconds on few cores: to compile what runs often once more does not pay."""

BRIEF = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"

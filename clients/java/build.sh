#!/usr/bin/env bash
# Builds build/fluxgate-client.jar, and with "test" also compiles and runs the tests: with the
# JDK and the libraries of the Debian packages that .ci/run installs. pom.xml is for publishing.
set -euo pipefail
cd "$(dirname "$0")"

lib=/usr/share/java
servlet=$lib/jakarta-servlet-api.jar
javac=(javac --release 17 -Xlint:all -Werror -encoding UTF-8)

rm -rf build/main build/test build/bench
"${javac[@]}" -cp "$servlet" -d build/main src/main/java/io/fluxgate/*.java
printf 'Automatic-Module-Name: io.fluxgate\n' >build/manifest
jar --create --file build/fluxgate-client.jar --manifest build/manifest --date 2026-01-01T00:00:00Z -C build/main .
"${javac[@]}" -cp build/main -d build/bench src/bench/java/io/fluxgate/*.java
if [ "${1-}" != test ]; then exit; fi

# The programs that the tests start.
(cd ../.. && go build -o clients/java/build/ ./cmd/fluxgate ./clients/conformance/harness)
test=build/main:$servlet:$lib/tomcat10-embed-core.jar:$lib/jakarta-annotation-api.jar:$lib/junit-jupiter-api.jar:$lib/junit-platform-commons.jar:$lib/apiguardian-api.jar:$lib/opentest4j.jar
"${javac[@]}" -cp "$test" -d build/test src/test/java/io/fluxgate/*.java
for part in junit-jupiter-engine junit-platform-engine junit-platform-launcher junit-platform-console junit-platform-reporting opentest4j-reporting-events picocli; do
  test=$test:$lib/$part.jar
done
test=$test:$(echo $lib/picocli-[0-9]*.jar)
java -cp "build/test:$test" -Djava.util.logging.config.file=src/test/logging.properties org.junit.platform.console.ConsoleLauncher \
  --disable-banner --details="${DETAILS:-summary}" --fail-if-no-tests \
  --config junit.jupiter.execution.parallel.enabled=true --config junit.jupiter.execution.parallel.mode.default=same_thread \
  --config junit.jupiter.execution.parallel.config.strategy=fixed --config junit.jupiter.execution.parallel.config.fixed.parallelism=8 \
  --scan-classpath build/test "${@:2}"

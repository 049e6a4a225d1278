package io.fluxgate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.atomic.LongAdder;
import org.junit.jupiter.api.Test;

/** The filter on Tomcat with 32 callers while the server is frozen, killed, started again and busy. */
class FaultsTest {
    private static final Duration DEADLINE = Duration.ofMillis(300);
    private static final double MARGIN = 50; // ms
    private static final long CAPACITY = 1_000_000;

    private static final class Hello extends HttpServlet {
        private static final long serialVersionUID = 1;

        @Override
        protected void service(HttpServletRequest request, HttpServletResponse response) throws IOException {
            response.getWriter().print("hello");
        }
    }

    /** A servlet that takes as long as a decision without an answer. What it takes longer is the machine's. */
    private static final class Sleeps extends HttpServlet {
        private static final long serialVersionUID = 1;

        @Override
        protected void service(HttpServletRequest request, HttpServletResponse response) throws IOException {
            try {
                Thread.sleep(DEADLINE.toMillis());
            } catch (InterruptedException e) {
                throw new IOException(e);
            }
            response.getWriter().print("slept");
        }
    }

    /** What callers have seen. */
    private static final class Load {
        final LongAdder sent = new LongAdder();
        final LongAdder decided = new LongAdder();
        final Map<String, Integer> answers = new TreeMap<>();
        private final List<Double> times = new ArrayList<>();
        private final AtomicBoolean stop = new AtomicBoolean();
        private final List<Thread> callers = new ArrayList<>();
        private final AtomicLongArray calls = new AtomicLongArray(32);
        private Throwable failure;

        Load(String url) {
            for (int i = 0; i < calls.length(); i++) {
                int number = i;
                Thread caller = new Thread(() -> {
                    try {
                        for (; !stop.get(); calls.incrementAndGet(number)) call(url);
                    } catch (Throwable e) {
                        synchronized (this) {
                            failure = e;
                        }
                    }
                });
                caller.setDaemon(true);
                caller.start();
                callers.add(caller);
            }
        }

        private void call(String url) {
            sent.increment();
            long begin = System.nanoTime();
            HttpResponse<String> answer = Servers.get(url);
            double took = (System.nanoTime() - begin) / 1e6;
            boolean counted = answer.headers().firstValue("X-RateLimit-Remaining").isPresent();
            if (counted) decided.increment();
            boolean reason = answer.body().contains("\"reason\":\"store-failure\"");
            synchronized (this) {
                times.add(took);
                answers.merge(answer.statusCode() + (counted ? " counted" : "") + (reason ? " store-failure" : ""), 1, Integer::sum);
            }
        }

        /** Waits until each caller has begun and ended a request. If requests wait for the server, this does not happen while it is away. */
        void allReturn(String server) throws Exception {
            List<Long> before = new ArrayList<>();
            for (int i = 0; i < calls.length(); i++) before.add(calls.get(i));
            for (int i = 0; i < calls.length(); i++) {
                int number = i;
                Servers.eventually("requests end while the server is " + server, () -> calls.get(number) >= before.get(number) + 2);
            }
        }

        /** The first requests wait for classes that the JVM loads and compiles: their times do not count. */
        void warmUp(String server) throws Exception {
            allReturn(server);
            synchronized (this) {
                times.clear();
            }
        }

        void end() throws InterruptedException {
            stop.set(true);
            for (Thread caller : callers) caller.join(5_000); // some are stuck if a test has failed
        }

        synchronized double worst() {
            if (failure != null) throw new AssertionError(failure);
            times.sort(null);
            return times.get(times.size() - 1);
        }

        /** No request takes longer than its deadline plus MARGIN, and three times what the machine delays requests that only sleep: their threads are woken as much more often. */
        synchronized void check(String name, Load slept) {
            double worst = worst(), late = Math.max(0, slept.worst() - DEADLINE.toMillis());
            System.out.printf("%s: %s, median %.1f ms, 99.9 %% %.0f ms, worst %.0f ms with a deadline of %d ms; worst of %d that slept as long %.0f ms%n", name, answers,
                    times.get(times.size() / 2), times.get(times.size() * 999 / 1000), worst, DEADLINE.toMillis(), slept.times.size(), slept.worst());
            assertTrue(worst <= DEADLINE.toMillis() + MARGIN + 3 * late, name + ": a request took " + worst + " ms, one that slept " + slept.worst());
        }
    }

    private static long used(FluxGate gate) {
        return CAPACITY - gate.check(new CheckRequest().userId("faults").path("/count").peek(true).timeout(Duration.ofSeconds(20))).remaining();
    }

    private static void withFaults(FluxGate.OnFailure mode, String failed) throws Exception {
        Path rules = Files.createTempFile("fluxgate-rules", ".yaml");
        rules.toFile().deleteOnExit();
        Files.writeString(rules, "id: conformance\nrules: [{id: count, limitScope: USER_ID, onFailure: " + (mode == FluxGate.OnFailure.ALLOW ? "open" : "closed") + ", bands: [{label: day, kind: sliding-window, capacity: " + CAPACITY + ", period: 24h}]}]\n");
        Servers.Gate server = new Servers.Gate(Servers.startRedis(), "rules.file=" + rules);
        FluxGate gate = FluxGate.builder(server.url, mode).token(Servers.TOKEN).timeout(DEADLINE).build();
        FluxGateFilter filter = new FluxGateFilter(gate).amend((http, request) -> request.userId("faults").path("/count"));
        try (Servers.App app = new Servers.App(filter, false).servlet("/*", new Hello()).start();
                Servers.App sleeps = new Servers.App(null, false).servlet("/*", new Sleeps()).start()) {
            Servers.eventually("the server decides", () -> Servers.get(app.url()).headers().firstValue("X-RateLimit-Remaining").isPresent());
            long before = used(gate);
            Load load = new Load(app.url());
            Load slept = new Load(sleeps.url());
            try {
                load.warmUp("up");
                slept.warmUp("up");
                server.signal("STOP");
                load.allReturn("frozen");
                server.signal("CONT");
                load.allReturn("back");
                server.kill();
                load.allReturn("killed");
                server.start();
                long decided = load.decided.sum();
                Servers.eventually("the server decides again", () -> load.decided.sum() > decided + 100);
            } finally {
                load.end();
                slept.end();
            }
            load.check(mode.toString(), slept);
            Thread.sleep(500); // what the frozen server has read is decided
            long used = used(gate) - before;
            assertTrue(load.decided.sum() <= used && used <= load.sent.sum(), load.decided.sum() + " decided, " + used + " counted, " + load.sent.sum() + " sent");
            assertEquals(java.util.Set.of("200 counted", failed), load.answers.keySet());
        }
    }

    @Test
    void allow() throws Exception {
        withFaults(FluxGate.OnFailure.ALLOW, "200");
    }

    @Test
    void deny() throws Exception {
        withFaults(FluxGate.OnFailure.DENY, "503 store-failure");
    }

    /** A server that accepts ten connections is busy for the others, and counts no request twice. */
    @Test
    void busy() throws Exception {
        Servers.Gate server = new Servers.Gate(Servers.startRedis(), "server.max-connections=10", "ratelimit.default-rule-set-id=tenant");
        FluxGate gate = FluxGate.builder(server.url, FluxGate.OnFailure.DENY).token(Servers.TOKEN).timeout(DEADLINE).build();
        FluxGateFilter filter = new FluxGateFilter(gate).amend((http, request) -> request.userId("u" + System.nanoTime() + Thread.currentThread().getId()));
        try (Servers.App app = new Servers.App(filter, false).servlet("/*", new Hello()).start();
                Servers.App sleeps = new Servers.App(null, false).servlet("/*", new Sleeps()).start()) {
            Load load = new Load(app.url());
            Load slept = new Load(sleeps.url());
            try {
                load.warmUp("busy");
                slept.warmUp("up");
                load.allReturn("busy");
                Servers.eventually("the server decides", () -> load.decided.sum() > 100);
            } finally {
                load.end();
                slept.end();
            }
            // Each request has a user of its own, and room for one: a request that counts twice is rejected with 429.
            load.check("busy", slept);
            assertTrue(java.util.Set.of("200 counted", "503 store-failure").containsAll(load.answers.keySet()), load.answers.toString());
        }
    }
}

package io.fluxgate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import jakarta.servlet.http.HttpServlet;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.RecordComponent;
import java.net.URI;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.api.parallel.ExecutionMode;

/** Runs clients/conformance/cases.json: see the README there. */
class ConformanceTest {
    @TestFactory
    @Execution(ExecutionMode.CONCURRENT)
    Stream<DynamicTest> cases() throws Exception {
        Map<String, Object> file = object(read(Servers.CONFORMANCE.resolve("cases.json")));
        Map<String, Object> notRun = Files.exists(Path.of("not-run.json")) ? object(read(Path.of("not-run.json"))) : Map.of();
        String harness = Servers.startHarness();
        String url = new Servers.Gate(Servers.startRedis()).url;
        String withoutRedis = new Servers.Gate("redis://127.0.0.1:" + Servers.freePort()).url;
        List<?> cases = (List<?>) file.get("cases");
        assertTrue(cases.size() >= 50);
        return IntStream.range(0, cases.size()).mapToObj(i -> {
            Map<String, Object> test = object(cases.get(i));
            Object server = test.getOrDefault("server", "");
            String address = server.equals("harness") ? harness + "/cases/" + i : server.equals("without-redis") ? withoutRedis : url;
            return DynamicTest.dynamicTest(test.get("group") + "/" + test.get("name"), () -> {
                try (Run run = new Run(test, address, harness, object(file.get("tokens")))) {
                    run.steps();
                }
            });
        }).filter(test -> !notRun.containsKey(test.getDisplayName()));
    }

    static Object read(Path file) throws IOException {
        return Json.read(Files.readString(file));
    }

    static Map<String, Object> object(Object value) {
        Map<String, Object> object = new LinkedHashMap<>();
        ((Map<?, ?>) value).forEach((name, of) -> object.put((String) name, of));
        return object;
    }

    private static final class Run implements AutoCloseable {
        private final Map<String, Object> test;
        private final String address;
        private final String harness;
        private final Map<String, Object> tokens;
        private final Map<String, FluxGate> clients = new HashMap<>();
        private final Map<String, String> receipts = new ConcurrentHashMap<>();
        private final Servers.App app;

        Run(Map<String, Object> test, String address, String harness, Map<String, Object> tokens) throws Exception {
            this.test = test;
            this.address = address;
            this.harness = harness;
            this.tokens = tokens;
            Map<String, Object> options = object(test.getOrDefault("client", Map.of()));
            FluxGate.OnFailure mode = FluxGate.OnFailure.valueOf(options.getOrDefault("onFailure", "throw").toString().toUpperCase(java.util.Locale.ROOT));
            Duration timeout = Duration.ofMillis((Long) options.getOrDefault("timeoutMs", 20_000L));
            tokens.forEach((name, token) -> clients.put(name, FluxGate.builder(address, mode).token((String) token).timeout(timeout).build()));
            app = test.containsKey("middleware") ? app(object(test.get("middleware"))).start() : null;
        }

        private Servers.App app(Map<String, Object> options) throws Exception {
            // The app does not route by paths: they are compared as they were sent.
            FluxGateFilter filter = new FluxGateFilter(clients.get("gateway")).keepPathParameters().amend((http, request) -> {
                request.userId(http.getHeader("X-User")).apiKey(http.getHeader("X-Api-Key"));
                if (http.getHeader("X-Cost") != null) request.cost(Long.parseLong(http.getHeader("X-Cost")));
            });
            if (options.get("trustedProxies") instanceof List<?> proxies) filter.trustedProxies("X-Forwarded-For", strings(proxies));
            if (options.get("headers") instanceof List<?> names) filter.headers(strings(names));
            return new Servers.App(filter, Long.valueOf(2).equals(options.get("http"))).servlet("/*", new Hello());
        }

        @Override
        public void close() throws org.apache.catalina.LifecycleException {
            if (app != null) app.close();
        }

        void steps() throws Exception {
            int i = 0;
            for (Object step : (List<?>) test.get("steps")) step(object(step), "step " + ++i);
        }

        private void step(Map<String, Object> step, String place) throws Exception {
            if (step.get("together") instanceof List<?> steps) {
                together(steps, place);
                return;
            }
            Thread.sleep((Long) step.getOrDefault("afterMs", 0L));
            if (step.containsKey("seen")) {
                seen(step.get("seen"), place);
                return;
            }
            assertNotEquals(step.containsKey("answer"), step.containsKey("error"), place + " must have an answer or an error");
            long begin = System.nanoTime();
            Object answer = null;
            Throwable error = null;
            try {
                answer = perform(step);
            } catch (FluxGateException | CancellationException | Refused | IllegalArgumentException e) {
                error = e;
            }
            long took = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begin);
            assertTrue(took <= (Long) step.getOrDefault("withinMs", Long.MAX_VALUE), place + " took " + took + " ms");
            if (step.containsKey("error")) {
                assertTrue(error != null, place + ": there is an answer: " + answer);
                compare(error, object(step.get("error")), place);
            } else if (error != null) {
                throw new AssertionError(place, error);
            } else {
                match(answer, step.get("answer"), place);
            }
        }

        private void together(List<?> steps, String place) throws Exception {
            ExecutorService threads = Executors.newCachedThreadPool();
            List<CompletableFuture<?>> all = new ArrayList<>();
            for (int i = 0; i < steps.size(); i++) {
                Map<String, Object> step = object(steps.get(i));
                String name = place + "." + (i + 1);
                all.add(CompletableFuture.runAsync(() -> {
                    try {
                        step(step, name);
                    } catch (Exception e) {
                        throw new IllegalStateException(name, e);
                    }
                }, threads));
            }
            for (CompletableFuture<?> one : all) one.get();
            threads.shutdown();
        }

        /** Without a status of the server the client has refused the request itself, or there was no answer. */
        private static void compare(Throwable error, Map<String, Object> want, String place) {
            boolean own = error instanceof IllegalArgumentException || error instanceof FluxGateException e && e.code() == FluxGateException.Code.INVALID;
            int status = error instanceof Refused refused ? refused.status : error instanceof FluxGateException e ? e.serverStatus() : 0;
            assertEquals(want.get("status"), (long) (status == 0 && own ? 400 : status), place + ": " + error);
            if (want.get("detail") instanceof String detail && status != 0) assertTrue(error.getMessage().endsWith(detail), place + ": " + error);
        }

        private Object perform(Map<String, Object> step) throws Exception {
            FluxGate client = clients.get(step.getOrDefault("token", "gateway"));
            if (step.containsKey("check")) {
                CompletableFuture<Decision> answer = client.checkAsync(request(object(step.get("check"))));
                if (step.get("leaveAfterMs") instanceof Long leave) {
                    Thread.sleep(leave);
                    answer.cancel(false);
                    answer.join();
                }
                Decision decision = FluxGate.await(answer);
                if (step.get("save") instanceof String name) receipts.put(name, decision.receipt());
                return fields(decision);
            }
            if (step.containsKey("settle")) return settle(client, object(step.get("settle")));
            if (step.containsKey("extend")) {
                String name = (String) object(step.get("extend")).get("receipt");
                try {
                    String renewed = client.extend(receipt(name));
                    receipts.put(name.substring(1), renewed);
                    return Map.of("receipt", renewed);
                } catch (FluxGateException e) {
                    if (e.receipt() != null) receipts.put(name.substring(1), e.receipt());
                    throw e;
                }
            }
            if (step.containsKey("send")) {
                Map<String, Object> message = object(step.get("send"));
                message.put("to", app.url());
                if (object(test.get("middleware")).get("http") instanceof Long http) message.put("http", http);
                return post(harness + "/send", Json.write(message), "");
            }
            Map<String, Object> raw = object(step.get("raw"));
            String text = raw.containsKey("text") ? (String) raw.get("text") : Json.write(raw.get("body"));
            for (Map.Entry<String, String> saved : receipts.entrySet()) text = text.replace("\"$" + saved.getKey() + "\"", '"' + saved.getValue() + '"');
            return post(address + raw.get("path"), text, (String) tokens.get(step.getOrDefault("token", "gateway")));
        }

        private Object settle(FluxGate client, Map<String, Object> settle) {
            String receipt = receipt((String) settle.get("receipt"));
            if (settle.get("actual") instanceof Long actual) return fields(client.settle(receipt, actual));
            Usage usage = new Usage();
            object(settle.get("usage")).forEach((name, value) -> {
                switch (name) {
                    case "inputTokens" -> usage.inputTokens((Long) value);
                    case "outputTokens" -> usage.outputTokens((Long) value);
                    case "cachedInputTokens" -> usage.cachedInputTokens((Long) value);
                    case "reasoningTokens" -> usage.reasoningTokens((Long) value);
                    case "costs" -> object(value).forEach((measure, cost) -> usage.cost(measure, (Long) cost));
                    default -> fail("the usage has " + name);
                }
            });
            Map<String, Object> measures = new HashMap<>();
            client.settle(receipt, usage).forEach((measure, settlement) -> measures.put(measure, fields(settlement)));
            return Map.of("measures", measures);
        }

        private String receipt(String name) {
            return name.startsWith("$") ? receipts.get(name.substring(1)) : name;
        }

        private static Object post(String url, String body, String token) {
            HttpResponse<String> answer = Servers.send(HttpRequest.newBuilder(URI.create(url)).header("Authorization", "Bearer " + token)
                    .header("Content-Type", "application/json").POST(HttpRequest.BodyPublishers.ofString(body)).build());
            if (answer.statusCode() == 200) return Json.read(answer.body());
            boolean problem = answer.body().startsWith("{");
            throw new Refused(answer.statusCode(), problem ? String.valueOf(object(Json.read(answer.body())).get("detail")) : answer.body());
        }

        private void seen(Object want, String place) throws Exception {
            AssertionError last = null;
            for (long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(5); System.nanoTime() < until; Thread.sleep(20)) {
                String text = Servers.get(address + "/seen").body();
                try {
                    match(Json.read(text), want, place);
                    return;
                } catch (AssertionError e) {
                    last = new AssertionError(e.getMessage() + "\n" + text);
                }
            }
            throw last;
        }
    }

    private static final class Refused extends RuntimeException {
        private static final long serialVersionUID = 1;
        final int status;

        Refused(int status, String message) {
            super(message);
            this.status = status;
        }
    }

    private static final class Hello extends HttpServlet {
        private static final long serialVersionUID = 1;

        @Override
        protected void service(HttpServletRequest request, HttpServletResponse response) throws IOException {
            try {
                if (request.getHeader("X-Hold-Ms") != null) Thread.sleep(Long.parseLong(request.getHeader("X-Hold-Ms")));
            } catch (InterruptedException e) {
                throw new UncheckedIOException(new IOException(e));
            }
            response.setContentType("text/plain");
            response.getWriter().print("hello");
        }
    }

    private static String[] strings(List<?> list) {
        return list.stream().map(String.class::cast).toArray(String[]::new);
    }

    private static CheckRequest request(Map<String, Object> fields) {
        CheckRequest request = new CheckRequest();
        fields.forEach((name, value) -> {
            switch (name) {
                case "ruleSet" -> request.ruleSet((String) value);
                case "ip" -> request.ip((String) value);
                case "userId" -> request.userId((String) value);
                case "apiKey" -> request.apiKey((String) value);
                case "method" -> request.method((String) value);
                case "path" -> request.path((String) value);
                case "host" -> request.host((String) value);
                case "headers" -> object(value).forEach((header, lines) -> request.header(header, List.of(strings((List<?>) lines))));
                case "attributes" -> object(value).forEach((attribute, text) -> request.attribute(attribute, (String) text));
                case "descriptor" -> ((List<?>) value).forEach(entry -> request.descriptor((String) object(entry).get("key"), (String) object(entry).get("value")));
                case "cost" -> request.cost((Long) value);
                case "costs" -> object(value).forEach((measure, cost) -> request.cost(measure, (Long) cost));
                case "estimate" -> estimate(request, object(value));
                case "peek" -> request.peek((Boolean) value);
                case "timeoutMs" -> request.timeout(Duration.ofMillis((Long) value));
                default -> fail("the request has " + name);
            }
        });
        return request;
    }

    private static void estimate(CheckRequest request, Map<String, Object> estimate) {
        Object most = estimate.get("maxOutputTokens");
        long[] maxima = most == null ? new long[0] : most instanceof List<?> list ? list.stream().mapToLong(Long.class::cast).toArray() : new long[] {(Long) most};
        request.estimate((String) estimate.get("model"), (Long) estimate.getOrDefault("inputTokens", 0L), maxima);
    }

    /** The fields of a record as JSON has them: without those that the API leaves out. */
    static Map<String, Object> fields(Object value) {
        Map<String, Object> fields = new HashMap<>();
        for (RecordComponent component : value.getClass().getRecordComponents()) {
            Object field;
            try {
                component.getAccessor().setAccessible(true);
                field = component.getAccessor().invoke(value);
            } catch (ReflectiveOperationException e) {
                throw new AssertionError(e);
            }
            if (field instanceof List<?> list) field = list.isEmpty() ? null : list.stream().map(ConformanceTest::fields).toList();
            boolean always = List.of("remaining", "allowed", "returned", "charged").contains(component.getName());
            boolean defaults = Boolean.FALSE.equals(field) || field instanceof Number n && n.doubleValue() == (component.getName().equals("cost") ? 1 : 0);
            if (field != null && (always || !defaults)) fields.put(component.getName(), field);
        }
        return fields;
    }

    /** Fails if an answer is not as wanted. Fields that are not mentioned may have any value. */
    static void match(Object got, Object want, String place) {
        if (want instanceof List<?> list) {
            assertTrue(got instanceof List<?> of && of.size() == list.size(), place + ": " + got + " must have " + list.size() + " entries");
            for (int i = 0; i < list.size(); i++) match(((List<?>) got).get(i), list.get(i), place + "[" + i + "]");
        } else if (want instanceof Map<?, ?> range && range.containsKey("$from")) {
            double most = range.get("$to") instanceof Number n ? n.doubleValue() : Double.POSITIVE_INFINITY;
            double least = ((Number) range.get("$from")).doubleValue();
            assertTrue(got instanceof Number n && n.doubleValue() >= least && n.doubleValue() <= most, place + ": " + got + " is not in " + range);
        } else if (want instanceof Map<?, ?> wanted) {
            assertTrue(got instanceof Map, place + ": " + got + " is not an object");
            Map<String, Object> fields = object(got);
            wanted.forEach((name, value) -> {
                if (value.equals("$present") || value.equals("$absent")) {
                    assertEquals(value.equals("$present"), fields.containsKey(name), place + "." + name + " must be " + value + ": " + got);
                } else {
                    match(fields.get(name), value, place + "." + name);
                }
            });
        } else if (want instanceof Number number) {
            assertTrue(got instanceof Number n && n.doubleValue() == number.doubleValue(), place + ": " + got + " is not " + want);
        } else {
            assertEquals(want, got, place);
        }
    }
}

package io.fluxgate;

import io.fluxgate.FluxGateException.Code;
import java.net.http.HttpClient;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.*;
import javax.net.ssl.SSLContext;

/**
 * Decides requests by calling a FluxGate server. It is safe for concurrent use: make one for a process.
 *
 * <p>Each call ends at its deadline, whatever the server does. A check that was sent is never sent again, since it may have taken its
 * tokens, unless the server was busy and has taken none. Blocking calls and futures throw {@link FluxGateException}.
 */
public final class FluxGate implements AutoCloseable {
    /**
     * What happens to a check if the server cannot be reached, does not answer in time or denies access: it is allowed or denied, with
     * {@link Decision#degraded}, or the call throws.
     */
    public enum OnFailure { ALLOW, DENY, THROW }

    /** How many tokens were given back or charged. */
    public record Settlement(long returned, long charged) {
        static Settlement read(Object value) {
            Fields f = Fields.of(value, "returned", "charged");
            return new Settlement(f.count("returned"), f.count("charged"));
        }
    }

    /** The longest body that is sent, in characters. */
    private static final int MAX_REQUEST = 256 << 10;
    /** About how long to wait before a busy server is asked again. Each further pause is twice as long. */
    private static final double FIRST_PAUSE = TimeUnit.MILLISECONDS.toNanos(20);
    /** At most so much of a caller's time is left for the network. */
    private static final long MAX_RESERVE = TimeUnit.MILLISECONDS.toNanos(100);

    final ScheduledThreadPoolExecutor timer = new ScheduledThreadPoolExecutor(1, FluxGate::daemon);
    private final ExecutorService executor = Executors.newCachedThreadPool(FluxGate::daemon);
    private final AtomicInteger checks = new AtomicInteger();
    private final Exchange exchange;
    private final Builder options;

    private FluxGate(Builder options) {
        HttpClient.Builder http = HttpClient.newBuilder().executor(executor);
        if (options.sslContext != null) http.sslContext(options.sslContext);
        this.exchange = new Exchange(http.build(), options.url, options.token);
        this.options = options;
        timer.setRemoveOnCancelPolicy(true);
    }

    private static Thread daemon(Runnable task) {
        Thread thread = new Thread(task, "fluxgate-client");
        thread.setDaemon(true);
        return thread;
    }

    /** Begins the configuration of a client for the server at an address such as {@code http://127.0.0.1:8080}. */
    public static Builder builder(String url, OnFailure onFailure) { return new Builder(url, Objects.requireNonNull(onFailure)); }

    /** The configuration of one client. */
    public static final class Builder {
        private final String url;
        private final OnFailure onFailure;
        private String token = "";
        private Consumer<FluxGateException> onError = error -> { };
        private Duration timeout = Duration.ofMillis(500);
        private int maxChecks = 1000;
        private SSLContext sslContext;

        private Builder(String url, OnFailure onFailure) { this.url = url; this.onFailure = onFailure; }

        /** Sets the bearer token. The default is none. */
        public Builder token(String token) { this.token = token == null ? "" : token; return this; }

        /** Sets what is called for every failure, also of settling and of renewing slots. What it throws is ignored. */
        public Builder onError(Consumer<FluxGateException> onError) { this.onError = onError; return this; }

        /** Sets how long a call may take, with the time that a rule holds the request. The default is 500 ms. */
        public Builder timeout(Duration timeout) { this.timeout = positive(timeout); return this; }

        /** Sets how many checks are under way at most, each on a connection of its own. The default is 1000; further ones fail at once. */
        public Builder maxChecks(int checks) { this.maxChecks = checks; return this; }

        /** Sets the authorities and the client certificate of https. The default is that of the process. */
        public Builder sslContext(SSLContext context) { this.sslContext = context; return this; }

        /** Returns the client. */
        public FluxGate build() { return new FluxGate(this); }
    }

    /** A time that timers accept. */
    static Duration positive(Duration time) {
        if (time.toMillis() < 1 || time.toDays() > 1) throw new IllegalArgumentException("the timeout must be 1 ms to a day");
        return time;
    }

    /** Decides a request and takes its tokens. */
    public Decision check(CheckRequest request) { return await(checkAsync(request)); }

    /** Like {@link #check}. If the future is cancelled, what the check took is given back. */
    public CompletableFuture<Decision> checkAsync(CheckRequest request) {
        Call<Decision> call = new Call<>(this, "/v1/check", new LinkedHashMap<>(request.fields), request.timeout == null ? options.timeout : request.timeout,
                Decision::read, this::withoutAnswer, this::giveBack);
        call.answer.whenComplete((decision, error) -> checks.decrementAndGet());
        if (checks.incrementAndGet() <= options.maxChecks) return call.begin();
        return call.fail(Code.BUSY, "more than " + options.maxChecks + " checks are under way");
    }

    private Decision withoutAnswer(FluxGateException error) {
        if (error.code() == Code.INVALID) throw error;
        report(error);
        if (options.onFailure == OnFailure.THROW) throw error;
        return Decision.failed(options.onFailure == OnFailure.ALLOW);
    }

    private void giveBack(Decision decision) { if (decision.receipt() != null) settleAsync(decision.receipt(), 0).exceptionally(this::report); }

    /** Reports the actual cost of a request under rules that count requests, and releases its slots. 0 withdraws it under all rules. */
    public Settlement settle(String receipt, long actual) { return await(settleAsync(receipt, actual)); }

    /** Like {@link #settle(String, long)}. */
    public CompletableFuture<Settlement> settleAsync(String receipt, long actual) {
        return call("/v1/settle", Map.of("receipt", receipt, "actual", actual), Settlement::read);
    }

    /** Reports what a request has used, under all rules, and releases its slots. It returns the settlements by measure. */
    public Map<String, Settlement> settle(String receipt, Usage usage) { return await(settleAsync(receipt, usage)); }

    /** Like {@link #settle(String, Usage)}. */
    public CompletableFuture<Map<String, Settlement>> settleAsync(String receipt, Usage usage) {
        return call("/v1/settle", Map.of("receipt", receipt, "usage", usage.fields), answer -> {
            Map<String, Settlement> measures = new LinkedHashMap<>();
            Fields.of(Fields.of(answer).map().get("measures")).map().forEach((name, of) -> measures.put((String) name, Settlement.read(of)));
            return measures;
        });
    }

    /** Renews the slots of a request that goes on. It returns the receipt to use from then on. */
    public String extend(String receipt) { return await(extendAsync(receipt)); }

    /** Like {@link #extend}. */
    public CompletableFuture<String> extendAsync(String receipt) {
        return call("/v1/extend", Map.of("receipt", receipt), answer -> Fields.of(answer, "receipt").text("receipt"));
    }

    /** Decides a request and keeps its slots until the reservation is closed. Ask its decision whether the request is allowed. */
    public Reservation reserve(CheckRequest request) { return reserve(check(request), request.cost()); }

    /** Keeps the slots of a decision until the reservation is closed. The cost is that of the request. */
    public Reservation reserve(Decision decision, long cost) { return new Reservation(this, decision, cost); }

    /** Ends the timer of this client. Calls under way still end by their deadlines; others throw a RejectedExecutionException. */
    @Override public void close() { timer.shutdown(); }

    private <T> CompletableFuture<T> call(String path, Map<String, ?> fields, Function<Object, T> read) {
        return new Call<T>(this, path, fields, options.timeout, read, error -> { throw error; }, answer -> { }).begin();
    }

    /** Calls the function of the caller, which must not change what happens to the request. */
    <T> T report(Throwable error) {
        try {
            options.onError.accept(FluxGateException.of(error));
        } catch (RuntimeException ignored) { }
        return null;
    }

    /** Waits for an answer, which comes at the deadline at the latest. */
    static <T> T await(CompletableFuture<T> answer) {
        try {
            return answer.join();
        } catch (CompletionException e) { throw FluxGateException.of(e); }
    }

    /** A call until its deadline. Its caller may complete or cancel the answer: an answer of the server then goes to {@code unwanted}. */
    private record Call<T>(FluxGate gate, String path, Map<String, ?> fields, long timeout, long deadline, Function<Object, T> read,
            Function<FluxGateException, T> onFailure, Consumer<T> unwanted, CompletableFuture<T> answer) {
        Call(FluxGate gate, String path, Map<String, ?> fields, Duration within, Function<Object, T> read, Function<FluxGateException, T> onFailure,
                Consumer<T> unwanted) {
            this(gate, path, fields, within.toNanos(), System.nanoTime() + within.toNanos(), read, onFailure, unwanted, new CompletableFuture<>());
        }

        CompletableFuture<T> begin() {
            Future<?> end = gate.timer.schedule(() -> fail(Code.TIMEOUT, "no answer in time"), timeout, TimeUnit.NANOSECONDS);
            answer.whenComplete((value, error) -> end.cancel(false));
            attempt(0);
            return answer;
        }

        private void attempt(int tries) {
            CompletableFuture<String> result = new CompletableFuture<>();
            result.whenComplete((text, error) -> finish(text, error, tries));
            answer.whenComplete((value, error) -> result.cancel(false)); // if the caller has left, or the time is over
            try {
                gate.exchange.post(path, body(), result);
            } catch (IllegalArgumentException e) { fail(Code.INVALID, "the request is invalid: " + e.getMessage()); }
        }

        /** The server gets to know how long the caller of a check still waits. */
        private String body() {
            long left = deadline - System.nanoTime() - Math.min(timeout / 2, MAX_RESERVE);
            Map<String, Object> sent = new LinkedHashMap<>(fields);
            if (path.equals("/v1/check")) sent.put("timeoutMs", Math.max(1, left / 1_000_000));
            String body = Json.write(sent);
            if (body.length() > MAX_REQUEST) throw new IllegalArgumentException("it has more than " + MAX_REQUEST + " characters");
            return body;
        }

        private void finish(String text, Throwable thrown, int tries) {
            if (answer.isDone() && thrown != null) return; // it was cancelled
            try {
                if (thrown != null) throw FluxGateException.of(thrown);
                T value = read.apply(Json.read(text));
                if (!answer.complete(value)) unwanted.accept(value);
            } catch (IllegalArgumentException notJson) {
                fail(FluxGateException.notAnswer());
            } catch (FluxGateException error) {
                double pause = FIRST_PAUSE * (1 << Math.min(tries, 20)) * (0.5 + ThreadLocalRandom.current().nextDouble());
                boolean again = error.code() == Code.BUSY && deadline - System.nanoTime() > pause;
                if (again) gate.timer.schedule(() -> attempt(tries + 1), (long) pause, TimeUnit.NANOSECONDS);
                else fail(error);
            }
        }

        private CompletableFuture<T> fail(Code code, String message) { return fail(new FluxGateException(code, message)); }

        /** Code of the caller runs then, which must not delay the timer. */
        private CompletableFuture<T> fail(FluxGateException error) { return answer.completeAsync(() -> onFailure.apply(error), gate.executor); }
    }
}

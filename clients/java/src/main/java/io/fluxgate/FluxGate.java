package io.fluxgate;

import io.fluxgate.FluxGateException.Code;
import java.net.http.HttpClient;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.function.*;
import javax.net.ssl.SSLContext;

/**
 * Decides requests by calling a FluxGate server. It is safe for concurrent use: make one for a process.
 *
 * <p>Each call ends at its deadline, whatever the server does. A check that was sent is never sent again, since it may have taken its
 * tokens, unless the server was busy and has taken none. Blocking calls and futures throw {@link FluxGateException}.
 *
 * <p>During the first check of a process the JVM loads classes, which may take longer than its deadline. A peek at the start prevents that.
 */
public final class FluxGate {
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

    /** Runs code of callers, which may block. */
    private final Executor callbacks = Executors.newCachedThreadPool(FluxGate::daemon);
    private final Semaphore checks;
    private final Exchange exchange;
    private final Builder options;

    private FluxGate(Builder options) {
        // The HTTP client hands each step of an exchange to a thread. With few threads they are running already.
        int threads = Math.max(2, Runtime.getRuntime().availableProcessors());
        ThreadPoolExecutor steps = new ThreadPoolExecutor(threads, threads, 10, TimeUnit.SECONDS, new LinkedBlockingQueue<>(), FluxGate::daemon);
        steps.allowCoreThreadTimeOut(true);
        HttpClient.Builder http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).executor(steps);
        if (options.sslContext != null) http.sslContext(options.sslContext);
        this.exchange = new Exchange(http.build(), options.url, options.token);
        this.checks = new Semaphore(options.maxChecks);
        this.options = options;
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
    public Decision check(CheckRequest request) { return await(check(request, Runnable::run)); }

    /** Like {@link #check}. If the future is cancelled, what the check took is given back. */
    public CompletableFuture<Decision> checkAsync(CheckRequest request) { return check(request, callbacks); }

    private CompletableFuture<Decision> check(CheckRequest request, Executor then) {
        Duration within = request.timeout == null ? options.timeout : request.timeout;
        Call<Decision> call = call("/v1/check", new LinkedHashMap<>(request.fields), within, Decision::read, this::withoutAnswer, this::giveBack, then);
        if (!checks.tryAcquire()) return call.fail(new FluxGateException(Code.BUSY, "more than " + options.maxChecks + " checks are under way"));
        call.result().whenComplete((decision, error) -> checks.release());
        return call.begin();
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
    public Reservation reserve(CheckRequest request) { return new Reservation(this, check(request), request.cost()); }

    private <T> CompletableFuture<T> call(String path, Map<String, Object> fields, Function<Object, T> read) {
        return call(path, fields, options.timeout, read, error -> { throw error; }, answer -> { }, callbacks).begin();
    }

    private <T> Call<T> call(String path, Map<String, Object> fields, Duration within, Function<Object, T> read, Function<FluxGateException, T> onFailure,
            Consumer<T> unwanted, Executor then) {
        long deadline = System.nanoTime() + within.toNanos();
        return new Call<>(exchange, path, fields, within.toNanos(), deadline, read, onFailure, unwanted, then, callbacks, new CompletableFuture<>());
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
}

package io.fluxgate;

import io.fluxgate.FluxGateException.Code;
import java.util.Map;
import java.util.concurrent.*;
import java.util.function.*;

/**
 * A call until its deadline.
 *
 * @param fields what is sent
 * @param read reads the answer
 * @param onFailure returns what holds without an answer, or throws
 * @param unwanted gets an answer whose caller has left
 * @param then runs what follows on an answer
 * @param callbacks runs what follows on a failure: code of the caller, which may block
 * @param result the answer, which its caller may cancel
 */
record Call<T>(Exchange exchange, String path, Map<String, Object> fields, long timeout, long deadline, Function<Object, T> read,
        Function<FluxGateException, T> onFailure, Consumer<T> unwanted, Executor then, Executor callbacks, CompletableFuture<T> result) {
    /** The longest body that is sent, in characters. */
    private static final int MAX_REQUEST = 256 << 10;
    /** About how long to wait before a busy server is asked again. Each further pause is twice as long. */
    private static final double FIRST_PAUSE = TimeUnit.MILLISECONDS.toNanos(20);
    /** At most so much of a caller's time is left for the network. */
    private static final long MAX_RESERVE = TimeUnit.MILLISECONDS.toNanos(100);

    CompletableFuture<T> begin() {
        result.copy().orTimeout(timeout, TimeUnit.NANOSECONDS).whenComplete((value, error) -> {
            if (error instanceof TimeoutException) fail(new FluxGateException(Code.TIMEOUT, "no answer in time"));
        });
        attempt(0);
        return result;
    }

    private void attempt(int tries) {
        if (result.isDone()) return; // the caller has left
        try {
            CompletableFuture<Exchange.Answer> answer = exchange.post(path, body());
            answer.whenComplete((received, error) -> finish(received, error, tries));
            result.whenComplete((value, error) -> answer.cancel(false));
        } catch (IllegalArgumentException e) { fail(new FluxGateException(Code.INVALID, "the request is invalid: " + e.getMessage())); }
    }

    /** The server gets to know how long the caller of a check still waits. */
    private String body() {
        long left = deadline - System.nanoTime() - Math.min(timeout / 2, MAX_RESERVE);
        if (path.equals("/v1/check")) fields.put("timeoutMs", Math.max(1, left / 1_000_000));
        String body = Json.write(fields);
        if (body.length() > MAX_REQUEST) throw new IllegalArgumentException("it has more than " + MAX_REQUEST + " characters");
        return body;
    }

    private void finish(Exchange.Answer answer, Throwable thrown, int tries) {
        if (result.isDone() && thrown != null) return; // it was cancelled
        try {
            if (thrown != null) throw FluxGateException.of(thrown);
            T value = read.apply(exchange.read(answer));
            then.execute(() -> { if (!result.complete(value)) unwanted.accept(value); });
        } catch (IllegalArgumentException notJson) {
            fail(FluxGateException.notAnswer());
        } catch (FluxGateException error) {
            double pause = FIRST_PAUSE * (1 << Math.min(tries, 20)) * (0.5 + ThreadLocalRandom.current().nextDouble());
            // The next attempt gets as much time as the pause.
            boolean again = error.code() == Code.BUSY && deadline - System.nanoTime() > 2 * pause;
            if (again) CompletableFuture.delayedExecutor((long) pause, TimeUnit.NANOSECONDS, callbacks).execute(() -> attempt(tries + 1));
            else fail(error);
        }
    }

    CompletableFuture<T> fail(FluxGateException error) { return result.completeAsync(() -> onFailure.apply(error), callbacks); }
}

package io.fluxgate;

import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;

/** Sends checks to a server and prints how many a second were decided: {@code java io.fluxgate.Load <url> [token] [callers] [seconds]}. */
final class Load {
    private Load() { }

    public static void main(String[] args) throws InterruptedException {
        String token = args.length > 1 ? args[1] : "";
        int callers = args.length > 2 ? Integer.parseInt(args[2]) : 32;
        int seconds = args.length > 3 ? Integer.parseInt(args[3]) : 10;
        FluxGate gate = FluxGate.builder(args[0], FluxGate.OnFailure.THROW).token(token).timeout(Duration.ofSeconds(5)).build();
        run(gate, callers, 2 * seconds); // the compiler of the JVM warms up
        System.out.printf("%.0f checks/s%n", run(gate, callers, seconds));
    }

    private static double run(FluxGate gate, int callers, int seconds) throws InterruptedException {
        LongAdder decided = new LongAdder();
        CountDownLatch done = new CountDownLatch(callers);
        long begin = System.nanoTime();
        long end = begin + TimeUnit.SECONDS.toNanos(seconds);
        for (int i = 0; i < callers; i++) {
            CheckRequest request = new CheckRequest().userId("user-" + i).method("GET").path("/api/orders");
            new Thread(() -> {
                while (System.nanoTime() < end) {
                    gate.check(request);
                    decided.increment();
                }
                done.countDown();
            }).start();
        }
        done.await();
        return decided.sum() / ((System.nanoTime() - begin) / 1e9);
    }
}

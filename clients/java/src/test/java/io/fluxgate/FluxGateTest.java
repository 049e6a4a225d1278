package io.fluxgate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

class FluxGateTest {
    private static final List<FluxGateException> ERRORS = Collections.synchronizedList(new ArrayList<>());
    private static FluxGate gate;

    @BeforeAll
    static void start() throws Exception {
        gate = FluxGate.builder(new Servers.Gate(Servers.startRedis()).url, FluxGate.OnFailure.THROW).token(Servers.TOKEN).timeout(Duration.ofSeconds(20)).onError(ERRORS::add).build();
    }

    private static long remaining(String user, String path) {
        return gate.check(new CheckRequest().userId(user).path(path).peek(true)).remaining();
    }

    @Test
    void reservationIsSettledWithItsUsage() {
        CheckRequest request = new CheckRequest().userId("reserves").path("/models").estimate("any", 100, 100, 200);
        try (Reservation reservation = gate.reserve(request)) {
            assertTrue(reservation.decision().allowed());
            assertEquals(500, remaining("reserves", "/models"));
            reservation.report(new Usage().inputTokens(100).outputTokens(50));
        }
        assertEquals(800, remaining("reserves", "/models"));
    }

    @Test
    void reservationWithoutReportStaysCharged() {
        assertThrows(IllegalStateException.class, () -> {
            try (Reservation reservation = gate.reserve(new CheckRequest().userId("fails").path("/settled").cost(5))) {
                throw new IllegalStateException(reservation.decision().reason());
            }
        });
        assertEquals(95, remaining("fails", "/settled"));
        try (Reservation reservation = gate.reserve(new CheckRequest().userId("withdraws").path("/settled").cost(5))) {
            reservation.report(3);
            reservation.report(0);
        }
        assertEquals(100, remaining("withdraws", "/settled"));
        gate.reserve(new CheckRequest().userId("denied").path("/blocked")).close();
        assertEquals(List.of(), ERRORS);
    }

    /** A slot of three seconds is held for longer while the reservation is open, and free when it is closed. */
    @Test
    void reservationKeepsItsSlots() throws Exception {
        CheckRequest request = new CheckRequest().userId("keeps").path("/short-slots");
        try (Reservation reservation = gate.reserve(request)) {
            assertTrue(reservation.decision().allowed());
            Thread.sleep(4_000);
            assertFalse(gate.check(request).allowed());
        }
        assertTrue(gate.check(request).allowed());
    }

    /** A future that is cancelled before its answer is used gives back what the check took. */
    @Test
    void cancelledCheckIsGivenBack() throws Exception {
        CompletableFuture<Decision> held = gate.checkAsync(new CheckRequest().userId("cancels").path("/queue"));
        held.get();
        CompletableFuture<Decision> waits = gate.checkAsync(new CheckRequest().userId("cancels").path("/queue"));
        Thread.sleep(50);
        waits.cancel(true);
        Servers.eventually("the token is back", () -> remaining("cancels", "/queue") == 1);
    }

    /** Code of the caller that blocks delays no other call. */
    @Test
    void callbacksMayBlock() {
        List<CompletableFuture<?>> blocked = new ArrayList<>();
        CompletableFuture<Void> release = new CompletableFuture<>();
        for (int i = 0; i < 50; i++) blocked.add(gate.checkAsync(new CheckRequest().userId("blocks" + i).path("/api/a")).thenRun(release::join));
        FluxGate hangs = FluxGate.builder(serve("", true), FluxGate.OnFailure.DENY).timeout(Duration.ofMillis(100)).onError(error -> release.join()).build();
        for (int i = 0; i < 50; i++) blocked.add(hangs.checkAsync(new CheckRequest()));
        for (int i = 0; i < 5; i++) assertTrue(gate.check(new CheckRequest().userId("free" + i).path("/api/a")).allowed());
        release.complete(null);
        CompletableFuture.allOf(blocked.toArray(CompletableFuture[]::new)).join();
    }

    /** A server that answers every connection with these bytes, and then repeats the last megabyte of them, or waits. */
    private static String serve(String bytes, boolean waits) {
        try {
            ServerSocket server = new ServerSocket(0, 200, InetAddress.getByName("127.0.0.1"));
            Thread thread = new Thread(() -> {
                while (true) {
                    try {
                        Socket socket = server.accept();
                        new Thread(() -> answer(socket, bytes, waits)).start();
                    } catch (IOException e) {
                        return;
                    }
                }
            });
            thread.setDaemon(true);
            thread.start();
            return "http://127.0.0.1:" + server.getLocalPort();
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    private static void answer(Socket socket, String bytes, boolean waits) {
        try (socket; OutputStream out = socket.getOutputStream()) {
            socket.getInputStream().read();
            out.write(bytes.getBytes(java.nio.charset.StandardCharsets.UTF_8));
            out.flush();
            while (!waits) out.write("x".repeat(1 << 16).getBytes(java.nio.charset.StandardCharsets.UTF_8));
            socket.getInputStream().transferTo(OutputStream.nullOutputStream());
        } catch (IOException gone) {
            // The client has closed the connection.
        }
    }

    private static FluxGateException.Code failure(String url) {
        FluxGate client = FluxGate.builder(url, FluxGate.OnFailure.THROW).timeout(Duration.ofSeconds(3)).build();
        long begin = System.nanoTime();
        FluxGateException e = assertThrows(FluxGateException.class, () -> client.check(new CheckRequest().userId("a")));
        assertTrue(System.nanoTime() - begin < TimeUnit.SECONDS.toNanos(20));
        assertFalse(e.getMessage().contains("127.0.0.1"), e.getMessage());
        return e.code();
    }

    @Test
    void hostileServers() throws Exception {
        String head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
        assertEquals(FluxGateException.Code.ANSWER, failure(serve(head + "\r\n", false)));
        assertEquals(FluxGateException.Code.ANSWER, failure(serve(head + "Content-Length: 4\r\n\r\n[[[[", true)));
        assertEquals(FluxGateException.Code.TIMEOUT, failure(serve(head + "Content-Length: 100\r\n\r\n{", true)));
        assertEquals(FluxGateException.Code.TIMEOUT, failure(serve("", true)));
        assertEquals(FluxGateException.Code.NETWORK, failure("http://127.0.0.1:" + Servers.freePort()));
        assertEquals(FluxGateException.Code.REFUSED, failure(serve("HTTP/1.1 307 Moved\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n", true)));
        String echo = "{\"detail\":\"token-of-a-gateway\\u001b[31m" + "y".repeat(1000) + "\"}";
        String url = serve("HTTP/1.1 403 Forbidden\r\nContent-Type: application/problem+json\r\nContent-Length: " + echo.length() + "\r\n\r\n" + echo, true);
        FluxGate client = FluxGate.builder(url, FluxGate.OnFailure.THROW).token(Servers.TOKEN).build();
        String message = assertThrows(FluxGateException.class, () -> client.check(new CheckRequest())).getMessage();
        assertTrue(message.startsWith("the server answers 403: … [31myyy") && message.length() < 500, message);
    }

    @Test
    void boundsAndOptions() {
        FluxGate client = FluxGate.builder(serve("", true), FluxGate.OnFailure.THROW).maxChecks(2).timeout(Duration.ofSeconds(2)).build();
        List<CompletableFuture<Decision>> all = List.of(client.checkAsync(new CheckRequest()), client.checkAsync(new CheckRequest()), client.checkAsync(new CheckRequest()));
        assertEquals(FluxGateException.Code.BUSY, assertThrows(FluxGateException.class, () -> FluxGate.await(all.get(2))).code());
        assertEquals(FluxGateException.Code.TIMEOUT, assertThrows(FluxGateException.class, () -> FluxGate.await(all.get(0))).code());
        assertEquals(FluxGateException.Code.TIMEOUT, assertThrows(FluxGateException.class, () -> client.check(new CheckRequest().timeout(Duration.ofMillis(50)))).code());
        for (String url : List.of("", "127.0.0.1:8080", "ftp://a", "http://", "http://user:hush@a", "http://a/?b", "http://a#b", "http://a b", "http://a/\u00e9")) {
            IllegalArgumentException e = assertThrows(IllegalArgumentException.class, () -> FluxGate.builder(url, FluxGate.OnFailure.ALLOW).build(), url);
            assertFalse(e.getMessage().contains("hush"));
        }
        assertThrows(IllegalArgumentException.class, () -> FluxGate.builder("http://a", FluxGate.OnFailure.ALLOW).token("a\r\nb").build());
        assertThrows(IllegalArgumentException.class, () -> new CheckRequest().timeout(Duration.ZERO));
        assertThrows(IllegalArgumentException.class, () -> new CheckRequest().cost(-1));
        CheckRequest large = new CheckRequest().path("/" + "a".repeat(300_000));
        assertEquals(FluxGateException.Code.INVALID, assertThrows(FluxGateException.class, () -> gate.check(large)).code());
    }
}

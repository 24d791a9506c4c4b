package io.github.taskengine.client;

import static io.github.taskengine.client.TestNode.PATIENCE;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.taskengine.client.internal.Api;
import io.github.taskengine.internal.Daemons;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerServiceDefinition;
import io.grpc.Status;
import io.grpc.netty.NettyServerBuilder;
import io.grpc.protobuf.ProtoUtils;
import io.grpc.stub.ServerCalls;
import io.grpc.stub.StreamObserver;
import java.io.File;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What a node is shown, by a server that only records it, and clients without a node. */
class AccessTest {
  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  /** A server that answers some methods, and keeps what it is shown. */
  private static final class Recorder implements AutoCloseable {
    final Queue<String> seen = new ConcurrentLinkedQueue<>();
    final AtomicInteger cancels = new AtomicInteger();
    final AtomicInteger submits = new AtomicInteger();
    final CountDownLatch waits = new CountDownLatch(1);
    private final Server server;

    Recorder(Status refusal, @Nullable File certificate, @Nullable File key) throws Exception {
      NettyServerBuilder builder =
          NettyServerBuilder.forAddress(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
      if (certificate != null) {
        builder.useTransportSecurity(certificate, key);
      }
      MethodDescriptor<Api.SubmitStreamRequest, Api.SubmitStreamResponse> stream =
          MethodDescriptor.<Api.SubmitStreamRequest, Api.SubmitStreamResponse>newBuilder()
              .setType(MethodDescriptor.MethodType.BIDI_STREAMING)
              .setFullMethodName(Methods.SUBMIT_STREAM.getFullMethodName())
              .setRequestMarshaller(
                  ProtoUtils.marshaller(Api.SubmitStreamRequest.getDefaultInstance()))
              .setResponseMarshaller(
                  ProtoUtils.marshaller(Api.SubmitStreamResponse.getDefaultInstance()))
              .build();
      server =
          builder
              .addService(
                  ServerServiceDefinition.builder("taskengine.v1.TaskService")
                      .addMethod(Methods.VERSION, answer(Api.VersionResponse.getDefaultInstance()))
                      .addMethod(Methods.GET, answer(Api.GetResponse.getDefaultInstance()))
                      .addMethod(Methods.SUBMIT, ServerCalls.asyncUnaryCall(this::submit))
                      .addMethod(Methods.WAIT, (call, headers) -> hang(call))
                      .addMethod(Methods.CANCEL, (call, headers) -> lose(call))
                      .addMethod(stream, (call, headers) -> refuse(call, headers, refusal))
                      .build())
              .build()
              .start();
    }

    String address() {
      return "localhost:" + server.getPort();
    }

    private void note(Metadata headers) {
      seen.add(String.valueOf(headers.get(AUTHORIZATION)));
    }

    private <Q, A> ServerCallHandler<Q, A> answer(A answer) {
      return (call, headers) -> {
        note(headers);
        call.sendHeaders(new Metadata());
        call.sendMessage(answer);
        call.close(Status.OK, new Metadata());
        return new ServerCall.Listener<>() {};
      };
    }

    private void submit(Api.SubmitRequest request, StreamObserver<Api.SubmitResponse> response) {
      submits.incrementAndGet();
      if (request.getTasksList().stream().anyMatch(t -> t.getType().equals("wrong"))) {
        response.onError(
            Status.INVALID_ARGUMENT.withDescription("no such type").asRuntimeException());
        return;
      }
      Api.SubmitResponse.Builder answer = Api.SubmitResponse.newBuilder();
      for (Api.NewTask task : request.getTasksList()) {
        answer.addReceipts(
            Api.Receipt.newBuilder().setId(task.getId()).setCreated(true).setOutcome("created"));
      }
      response.onNext(answer.build());
      response.onCompleted();
    }

    private <Q, A> ServerCall.Listener<Q> hang(ServerCall<Q, A> call) {
      waits.countDown();
      return new ServerCall.Listener<>() {};
    }

    private <Q, A> ServerCall.Listener<Q> lose(ServerCall<Q, A> call) {
      cancels.incrementAndGet();
      call.close(Status.UNAVAILABLE.withDescription("the answer is lost"), new Metadata());
      return new ServerCall.Listener<>() {};
    }

    private <Q, A> ServerCall.Listener<Q> refuse(
        ServerCall<Q, A> call, Metadata headers, Status refusal) {
      note(headers);
      call.close(refusal, new Metadata());
      return new ServerCall.Listener<>() {};
    }

    @Override
    public void close() {
      server.shutdownNow();
    }
  }

  private static final Status WHO = Status.UNAUTHENTICATED.withDescription("who are you");

  @Test
  void theTokenIsSentWithEveryRequest() throws Exception {
    try (Recorder server = new Recorder(WHO, null, null);
        TaskengineClient client = TaskengineClient.to(server.address()).token("secret").open()) {
      client.get("x");
      NotAllowedException e =
          assertThrows(NotAllowedException.class, () -> client.submit(Request.of("idle")));
      assertTrue(e.getMessage().contains("who are you"), e.getMessage());
      assertTrue(server.seen.size() >= 3);
      assertEquals(Set.of("Bearer secret"), server.seen.stream().collect(Collectors.toSet()));
    }
  }

  @Test
  void aCallThatChangesSomethingIsMadeOnce() throws Exception {
    try (Recorder server = new Recorder(WHO, null, null);
        TaskengineClient client = TaskengineClient.to(server.address()).open()) {
      assertThrows(UnavailableException.class, () -> client.cancel("x", ""));
      assertEquals(1, server.cancels.get());
    }
  }

  @Test
  void aNodeWithoutStreamsIsAskedByRequestsOfTheirOwn() throws Exception {
    try (Recorder server = new Recorder(Status.UNIMPLEMENTED, null, null);
        TaskengineClient client = TaskengineClient.to(server.address()).open()) {
      List<Request> requests =
          List.of(Request.of("a"), Request.of("b"), Request.of("wrong"), Request.of("c"));
      List<Outcome> outcomes = client.submitEach(requests);
      assertEquals(
          List.of(true, true, false, true), outcomes.stream().map(o -> o.error() == null).toList());
      assertEquals(InvalidException.class, outcomes.get(2).error().getClass());
      assertEquals(5, server.submits.get()); // all, a and b, wrong and c, and each of these
    }
  }

  @Test
  void closeEndsTheCallsUnderWay() throws Exception {
    Recorder server = new Recorder(Status.UNAVAILABLE, null, null);
    TaskengineClient client =
        TaskengineClient.to(server.address()).timeout(PATIENCE.multipliedBy(10)).open();
    CompletableFuture<Task> waiting = CompletableFuture.supplyAsync(() -> client.await("x"));
    CompletableFuture<Receipt> submitted = client.submitAsync(Request.of("idle"));
    assertTrue(server.waits.await(PATIENCE.toSeconds(), TimeUnit.SECONDS));
    // The next call has another connection.
    assertThrows(
        UnavailableException.class,
        () -> client.within(Duration.ofMillis(200)).submit(Request.of("idle")));
    client.close();
    for (CompletableFuture<?> call : List.of(waiting, submitted)) {
      CompletionException e = assertThrows(CompletionException.class, call::join);
      assertEquals(ClosedException.class, e.getCause().getClass());
    }
    server.close();
  }

  @Test
  void anExpiredCertificateIsCalledThat() throws Exception {
    Path files = Path.of("..", "expired");
    try (Recorder server =
            new Recorder(
                WHO, files.resolve("certificate.pem").toFile(), files.resolve("key.pem").toFile());
        TaskengineClient client =
            TaskengineClient.to(server.address())
                .authority(files.resolve("authority.pem"))
                .timeout(Duration.ofSeconds(2))
                .open()) {
      long end = System.nanoTime() + PATIENCE.toNanos();
      UnavailableException e;
      do { // a call may end before the handshake has
        e = assertThrows(UnavailableException.class, () -> client.get("x"));
      } while (!e.getMessage().toLowerCase(Locale.ROOT).contains("expired")
          && System.nanoTime() < end);
      assertTrue(e.getMessage().toLowerCase(Locale.ROOT).contains("expired"), e.getMessage());
    }
  }

  @Test
  void tlsTrustsTheCertificatesThatAreGivenAndNoOther(@TempDir Path directory) throws Exception {
    String command =
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
            + " -addext subjectAltName=DNS:localhost -keyout key.pem -out certificate.pem";
    Process openssl =
        new ProcessBuilder(command.split(" "))
            .directory(directory.toFile())
            .redirectErrorStream(true)
            .redirectOutput(directory.resolve("log").toFile())
            .start();
    assertEquals(0, openssl.waitFor());
    Path certificate = directory.resolve("certificate.pem");
    try (Recorder server =
        new Recorder(WHO, certificate.toFile(), directory.resolve("key.pem").toFile())) {
      for (String address : List.of(server.address(), "https://" + server.address())) {
        try (TaskengineClient client = TaskengineClient.to(address).authority(certificate).open()) {
          assertEquals("", client.get("x").id());
        }
      }
      Duration soon = Duration.ofMillis(500);
      try (TaskengineClient client =
          TaskengineClient.to("https://" + server.address()).timeout(soon).open()) {
        assertThrows(UnavailableException.class, () -> client.get("x"));
      }
      ClientBuilder plain =
          TaskengineClient.to("http://" + server.address()).authority(certificate);
      InvalidException e = assertThrows(InvalidException.class, plain::open);
      assertTrue(e.getMessage().contains("write https"), e.getMessage());
    }
  }

  @Test
  void aFileThatCannotBeReadIsReportedByTheCall() {
    try (TaskengineClient client =
        TaskengineClient.to("localhost:1")
            .authority(Path.of("/nowhere.pem"))
            .timeout(Duration.ofMillis(300))
            .open()) {
      UnavailableException e = assertThrows(UnavailableException.class, () -> client.get("x"));
      assertTrue(e.getMessage().contains("nowhere.pem"), e.getMessage());
    }
  }

  @Test
  void withoutANodeACallSaysSoWhenItsTimeIsOver() {
    Duration timeout = Duration.ofSeconds(3); // in which both addresses have been tried
    long begin = System.nanoTime();
    try (TaskengineClient client =
        TaskengineClient.to("127.0.0.1:1", "unix:/nowhere").timeout(timeout).open()) {
      assertThrows(UnavailableException.class, () -> client.get("x"));
      Request request = Request.of("idle");
      ExecutorService threads = Executors.newCachedThreadPool();
      Map<String, Future<?>> calls = new HashMap<>();
      calls.put("cancel", threads.submit(() -> client.cancel("x", "")));
      calls.put("submit", threads.submit(() -> client.submit(request)));
      calls.put("each", threads.submit(() -> client.submitEach(List.of(request)).get(0).orThrow()));
      calls.put("await", threads.submit(() -> client.within(timeout).await("x")));
      calls.put("async", client.submitAsync(request));
      threads.shutdown();
      calls.forEach(
          (name, call) -> {
            Throwable e = assertThrows(ExecutionException.class, call::get, name).getCause();
            assertEquals(UnavailableException.class, e.getClass(), name);
            String words =
                "(?s).*no node answers at 127.0.0.1:1 \\(.*refused.*\\), unix:/nowhere \\(.*\\);"
                    + " is it running\\?.*";
            assertTrue(e.getMessage().matches(words), e.getMessage());
          });
    }
    assertTrue(System.nanoTime() - begin >= timeout.toNanos());
  }

  @Test
  void whiteSpaceAroundATokenIsNotSentAndOtherTokensAreRefusedAndNotShown() {
    ClientBuilder trimmed = TaskengineClient.to("127.0.0.1:1").token(" secret\r\n");
    assertEquals("secret", trimmed.access().token());
    for (String bad :
        List.of(" \n", "te_secr\net", "te_secr et", "te_secr\u00e9t", "te_secr\0et")) {
      ClientBuilder options = TaskengineClient.to("127.0.0.1:1");
      Exception e = assertThrows(InvalidException.class, () -> options.token(bad));
      assertTrue(
          e.getMessage().contains("token") && !e.getMessage().contains("secr"), e.getMessage());
    }
  }

  @Test
  void theEnvironmentHasAddressesAndTheToken() {
    ClientBuilder options =
        ClientBuilder.from(
            Map.of("TASKENGINE_ADDRESS", "a:1, https://b", "TASKENGINE_TOKEN", "secret\n"));
    assertEquals(2, options.addresses.size());
    assertEquals("secret", options.access().token());
    assertThrows(InvalidException.class, () -> ClientBuilder.from(Map.of()));
  }

  @Test
  void aClientThatWasNotUsedHasNoThread() {
    Set<Thread> before = Thread.getAllStackTraces().keySet();
    TaskengineClient client = TaskengineClient.to("127.0.0.1:1").open();
    List<String> more =
        Thread.getAllStackTraces().keySet().stream()
            .filter(t -> !before.contains(t) && t.getName().startsWith("taskengine"))
            .map(Thread::getName)
            .toList();
    client.close();
    assertEquals(List.of(), more);
    assertTrue(Daemons.named("x").newThread(() -> {}).isDaemon());
  }
}

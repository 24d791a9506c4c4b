package io.github.taskengine.handler;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.taskengine.handler.internal.Wire;
import io.grpc.Status;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Real handler processes, from their start to their exit. */
class ProgramTest {
  private static final Wire.Welcome.Builder WELCOME = Wire.Welcome.newBuilder().setSlots(2);

  @TempDir Path directory;

  private HandlerProcess connected(String... flags) throws Exception {
    HandlerProcess process = HandlerProcess.started(directory, flags);
    process.connect(WELCOME);
    return process;
  }

  @Test
  void startedByAPersonItExplainsItself() throws Exception {
    try (HandlerProcess process = new HandlerProcess(directory, Map.of())) {
      assertEquals("", process.output());
      assertEquals(1, process.exitStatus());
      assertTrue(
          process.errors().contains("set TASKENGINE_ADDRESS to the address of a node"),
          process.errors());
    }
  }

  @Test
  void aHostOfAnotherProtocolIsRefused() throws Exception {
    Map<String, String> environment =
        Map.of("TASKENGINE_HANDLER", "1f0d6bb2-handler", "PLUGIN_PROTOCOL_VERSIONS", "2,11");
    try (HandlerProcess process = new HandlerProcess(directory, environment)) {
      assertEquals("", process.output());
      assertEquals(1, process.exitStatus());
      assertTrue(process.errors().contains("the host \"2,11\""), process.errors());
    }
  }

  @Test
  void theDigitsOfALocaleAreNotInTheHandshake() throws Exception {
    try (HandlerProcess process =
        connected("-Duser.language=ar", "-Duser.country=EG", "-Duser.extensions=u-nu-arab")) {
      process.run(1, "json", "{\"a\":1,\"b\":2}");
      assertEquals("{\"sum\":3}", process.finish().getResult().toStringUtf8());
    }
  }

  /** With the platform's own sockets and with Java's. */
  @ParameterizedTest
  @ValueSource(strings = {"-Dplatform=native", "-Dio.netty.transport.noNative=true"})
  void itAnswersTasksAndPings(String flag) throws Exception {
    try (HandlerProcess process = connected(flag)) {
      process.run(1, "json", "{\"a\":1,\"b\":2}");
      assertEquals("{\"sum\":3}", process.finish().getResult().toStringUtf8());
      process.say(Wire.ToHandler.newBuilder().setPing(5));
      assertEquals(5, process.next().getPong());
      String large = "ö".repeat(3 << 20);
      process.run(2, "echo", large);
      assertEquals(large, process.finish().getResult().toStringUtf8());
      process.endStream();
      assertEquals(0, process.exitStatus());
      assertEquals("", process.errors(), "nothing to complain of");
    }
  }

  @Test
  void aSecondStreamIsRefused() throws Exception {
    try (HandlerProcess process = connected()) {
      assertEquals(Status.Code.FAILED_PRECONDITION, process.openAnother().getCode());
      process.run(1, "echo", "still there");
      assertEquals("still there", process.finish().getResult().toStringUtf8());
    }
  }

  @Test
  void itExitsWhenTheHostIsGoneThoughATaskHangs() throws Exception {
    try (HandlerProcess process = connected()) {
      process.run(1, "hang", "");
      process.run(2, "echo", "");
      process.finish();
      process.vanish();
      assertEquals(0, process.exitStatus());
    }
  }

  @Test
  void whatIsPrintedGoesToTheLog() throws Exception {
    try (HandlerProcess process = connected()) {
      process.run(1, "print", "{ünprintable}");
      process.finish();
      process.endStream();
      assertEquals("", process.output());
      assertEquals("{ünprintable}\n{ünprintable}\n", process.errors());
    }
  }

  @Test
  void aHandlerCanEndTheProcess() throws Exception {
    try (HandlerProcess process = connected()) {
      process.run(1, "exit", "9");
      assertEquals(9, process.exitStatus());
    }
  }
}
